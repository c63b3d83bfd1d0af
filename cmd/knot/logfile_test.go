package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestHangupOpensTheLogAnew: what rotates logs renames the file, sends SIGHUP, and finds all later
// lines in a new one.
func TestHangupOpensTheLogAnew(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r, w := io.Pipe()
	var stderr bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"-root", sampleSite, "-addr", "127.0.0.1:0", "-log", log, "-loops", "1", "-quiet"}, w, &stderr)
		w.Close()
	}()
	line := testenv.Need(bufio.NewReader(r).ReadString('\n'))(t)
	url := regexp.MustCompile(`http://\S+`).FindString(line)
	get := func(path string) {
		testenv.Get(t, http.DefaultClient, url+path)
	}
	holds := func(name, text string) bool {
		data, _ := os.ReadFile(name)
		return strings.Contains(string(data), text)
	}
	get("/notes.txt")
	for !holds(log, "/notes.txt") { // lines are written within a second; the test's time limit ends this
		get("/style.css")
	}
	testenv.Must(t, os.Rename(log, log+".1"))
	syscall.Kill(os.Getpid(), syscall.SIGHUP)
	for !holds(log, "/guide/") {
		get("/guide/")
	}
	if holds(log, "/notes.txt") || !holds(log+".1", "/notes.txt") {
		t.Error("the old lines are not where they were")
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if got := <-code; got != exitOK || complaints(stderr.String()) != "" {
		t.Errorf("exit code %d, %s", got, &stderr)
	}
}

// TestLogThatIsAPipe is not opened anew, for which SIGHUP would have to wait for its reader.
func TestLogThatIsAPipe(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	testenv.Must(t, syscall.Mkfifo(fifo, 0o600))
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that opening it need not wait
	testenv.Must(t, err)
	defer reader.Close()
	l := testenv.Need(openLog(fifo, nil, nil))(t)
	defer l.close()
	testenv.Equal(t, l.reopens, false, "it is opened anew")
}

// TestLogThatCannotBeOpenedAnew goes on in the old file.
func TestLogThatCannotBeOpenedAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	testenv.Must(t, os.Mkdir(dir, 0o755))
	l := testenv.Need(openLog(filepath.Join(dir, "log"), nil, nil))(t)
	testenv.Must(t, os.Rename(dir, dir+"2"))
	testenv.Fails(t, l.reopen(), "opened in a folder that is gone")
	io.WriteString(l, "still\n")
	testenv.Must(t, l.close())
	if data, err := os.ReadFile(filepath.Join(dir+"2", "log")); string(data) != "still\n" {
		t.Errorf("%q, %v", data, err)
	}
}
