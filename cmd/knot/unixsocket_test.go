package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestUnixSocket: knot serves on a Unix socket in place of one that was left behind, but not of one in use; the
// socket outlives a hand-over, and goes with the last process.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "knot") // a path must be short
	testenv.Must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	left := testenv.Need(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(t)
	left.SetUnlinkOnClose(false)
	left.Close()

	c := knotCommand(t, "-root", sampleSite, "-addr", "unix:"+path, "-quiet", "-loops", "2")
	errorLog, logged, err := os.Pipe() // more than one process writes to it
	testenv.Must(t, err)
	defer errorLog.Close()
	out := testenv.Need(c.StdoutPipe())(t)
	c.Stderr = logged
	testenv.Must(t, c.Start())
	logged.Close()
	if line, _ := bufio.NewReader(out).ReadString('\n'); !strings.HasSuffix(line, " on unix:"+path+"\n") {
		t.Fatalf("%q", line)
	}
	ask := func() {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", path)
		}}}
		resp, err := client.Get("http://knot/notes.txt")
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
	}
	ask()
	var second strings.Builder
	if code := run(t.Context(), []string{"-root", sampleSite, "-addr", "unix:" + path}, io.Discard, &second); code != exitFailed || !strings.Contains(second.String(), "address already in use") {
		t.Errorf("a second one: %d, %s", code, &second)
	}
	c.Process.Signal(syscall.SIGUSR1)
	var successor []string
	lines := bufio.NewReader(errorLog)
	for successor == nil {
		line := testenv.Need(lines.ReadString('\n'))(t)
		successor = regexp.MustCompile(`handed over.* pid=(\d+)`).FindStringSubmatch(line)
	}
	testenv.Check(t, c.Wait())
	ask()
	pid, _ := strconv.Atoi(successor[1])
	testenv.Check(t, syscall.Kill(pid, syscall.SIGTERM))
	io.Copy(io.Discard, lines) // until it has ended
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}
