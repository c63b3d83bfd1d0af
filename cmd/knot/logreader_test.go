package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A logReader is the reader of a pipe that knot, a process of its own, logs to.
type logReader struct {
	command *exec.Cmd
	url     string
	pipe    *os.File
}

// startLogging starts knot with a site whose backend /dead/ does not answer, of which each request leaves a line in the error log. The pipe is
// its standard output or its standard error.
func startLogging(t *testing.T, ofOutput bool, full bool, args ...string) *logReader {
	t.Helper()
	dead := testenv.Listen(t)
	dead.Close()
	config := configFile(t, "[[site]]\nroot = %q\n[[site.proxy]]\nmatch = \"/dead/\"\nto = [\"http://%s\"]\nfail-time = \"1ms\"\n", sampleSite, dead.Addr())
	k := &logReader{command: knotCommand(t, append(args, "-config", config, "-dump", t.TempDir(), "-addr", "127.0.0.1:0", "-loops", "1", "-grace", "10s")...)}
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	t.Cleanup(func() { r.Close() })
	k.pipe = r
	var first io.Reader = r
	if ofOutput {
		k.command.Stdout = w
	} else {
		k.command.Stderr = w
		first = testenv.Need(k.command.StdoutPipe())(t)
	}
	if full {
		fill(t, w)
	}
	testenv.Must(t, k.command.Start())
	w.Close()
	line := testenv.Need(bufio.NewReaderSize(first, 16).ReadString('\n'))(t)
	k.url = "http://" + tcpAddr.FindString(line)
	return k
}

// fill makes the pipe that w writes to take no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	fd := int(w.Fd()) // it blocks from here on, for knot too
	testenv.Must(t, syscall.SetNonblock(fd, true))
	for chunk := make([]byte, 4096); len(chunk) > 0; {
		if _, err := syscall.Write(fd, chunk); err == syscall.EAGAIN {
			chunk = chunk[:len(chunk)/2]
		} else {
			testenv.Must(t, err)
		}
	}
	testenv.Must(t, syscall.SetNonblock(fd, false))
}

// longRequest is one whose line in an access log is as long as it can be: 3 KB.
func longRequest(t *testing.T, url string) {
	t.Helper()
	askAs(t, http.DefaultClient, url+"/style.css?"+strings.Repeat("q", 3000), "h", "User-Agent: "+strings.Repeat("u", 1000), "Referer: "+strings.Repeat("r", 1000))
}

// serves asks for what leaves lines in both logs, and for what must be served nevertheless.
func (k *logReader) serves(t *testing.T) {
	t.Helper()
	for range 30 { // their lines are written at once
		longRequest(t, k.url)
		if answer, _ := testenv.Get(t, http.DefaultClient, k.url+"/dead/"); answer.StatusCode < 500 {
			t.Fatal("/dead/:", answer.Status)
		}
	}
}

func (k *logReader) end(t *testing.T) (code int) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	testenv.Must(t, k.command.Process.Signal(syscall.SIGTERM))
	k.command.Wait()
	return k.command.ProcessState.ExitCode()
}

// TestLogReaderThatEnds: it is no reason to stop.
func TestLogReaderThatEnds(t *testing.T) {
	for _, test := range []struct {
		ofOutput bool
		args     []string
		code     int
	}{
		{false, nil, exitOK},
		{true, nil, exitOK},
		{true, []string{"-log", "-"}, exitFailed}, // what was asked for could not be written
	} {
		k := startLogging(t, test.ofOutput, false, test.args...)
		k.pipe.Close()
		k.serves(t)
		testenv.Equal(t, k.end(t), test.code, "exit code, with the output: %v, %q", test.ofOutput, test.args)
	}
}

// TestErrorLogReaderThatStalls: nothing waits for it, and it gets what there was room for when it goes on.
func TestErrorLogReaderThatStalls(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		k := startLogging(t, false, true)
		k.serves(t)
		testenv.Must(t, k.command.Process.Signal(syscall.SIGUSR2))
		k.serves(t)
		text := make(chan string, 1)
		if comesBack {
			go func() {
				all, _ := io.ReadAll(k.pipe)
				text <- string(all)
			}()
		}
		testenv.Equal(t, k.end(t), exitOK, "exit code")
		if comesBack {
			testenv.Contains(t, strings.Trim(<-text, "\x00"), "backend failed", "the log")
		}
	}
}

// TestHangupOpensTheLogAnew: what rotates logs renames the file, sends SIGHUP, and finds all later
// lines in a new one.
func TestHangupOpensTheLogAnew(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "-root", sampleSite, "-log", log, "-quiet")
	holds := func(name, text string) bool {
		data, _ := os.ReadFile(name)
		return strings.Contains(string(data), text)
	}
	p.get("/notes.txt")
	for !holds(log, "/notes.txt") { // the test's time limit ends this
		longRequest(t, p.url)
	}
	testenv.Must(t, os.Rename(log, log+".1"))
	hangUp()
	for !holds(log, "/guide/") {
		p.get("/guide/")
		longRequest(t, p.url)
	}
	if holds(log, "/notes.txt") || !holds(log+".1", "/notes.txt") {
		t.Error("the old lines are not where they were")
	}
	p.end()
	testenv.Equal(t, complaints(p.stderr.String()), "", "the error log")
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
	data := testenv.Need(os.ReadFile(filepath.Join(dir+"2", "log")))(t)
	testenv.Equal(t, string(data), "still\n", "the old file")
}
