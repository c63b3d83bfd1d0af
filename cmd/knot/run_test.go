package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// A program is knot under test, run within the test's process.
type program struct {
	t       *testing.T
	printed []string // the first line, and that about an admin address
	url     string
	out     *bufio.Reader
	rest    testenv.Buffer // what it prints further
	stderr  *lines
	stop    func() // the first stop signal
	code    func() int
}

// start runs knot on a free port; it must serve.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := startBlocked(t, args...)
	go io.Copy(&p.rest, p.out)
	return p
}

// startBlocked is start for a program whose output nobody reads, but for the first lines.
func startBlocked(t *testing.T, args ...string) *program {
	t.Helper()
	p := startRun(t, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	if p.url = httpURL.FindString(p.printed[0]); p.url == "" {
		t.Fatalf("first line %q; %s", p.printed[0], p.stderr.String())
	}
	return p
}

var httpURL = regexp.MustCompile(`https?://127\.0\.0\.1:[1-9]\d*`)

// startRun is startBlocked with an address by args.
func startRun(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &program{t: t, stderr: &lines{each: make(chan string, 1000)}, stop: stop}
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() }) // what waits there ends
	p.out = bufio.NewReader(r)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"-loops", "1"}, args...), w, p.stderr)
		w.Close()
	}()
	p.code = sync.OnceValue(func() int { return <-code })
	for len(p.printed) == 0 || len(p.printed) == 1 && slices.Contains(args, "-admin") {
		line, err := p.out.ReadString('\n')
		testenv.Must(t, err, "%q; %s", p.printed, p.stderr)
		p.printed = append(p.printed, line)
	}
	return p
}

// end stops knot, which must go well.
func (p *program) end() {
	p.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	p.stop()
	if code := p.code(); code != exitOK {
		p.t.Errorf("exit code %d, %s", code, p.stderr.String())
	}
}

func (p *program) get(path string) string {
	p.t.Helper()
	_, body := testenv.Get(p.t, http.DefaultClient, p.url+path)
	return body
}

// fails runs knot, which has to end with that code and say want.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // of one that starts after all
	defer stop()
	var stderr testenv.Buffer
	if got := run(ctx, args, io.Discard, &stderr); got != code || !strings.Contains(stderr.String(), want) {
		t.Errorf("%q: code %d, %q; want %d and %q", args, got, stderr.String(), code, want)
	}
}

// configFile writes a configuration file.
func configFile(t *testing.T, format string, args ...any) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "knot.toml")
	write(t, path, fmt.Sprintf(format, args...))
	return path
}

// write makes a file, or puts another in its place.
func write(t *testing.T, name, content string) {
	t.Helper()
	testenv.Must(t, os.WriteFile(name+".new", []byte(content), 0o644))
	testenv.Must(t, os.Rename(name+".new", name))
}

// settingsOf is what a configuration file says.
func settingsOf(t *testing.T, file string) *settings {
	t.Helper()
	return testenv.Need(parse([]string{"-config", file}, io.Discard))(t)
}

// lines takes what is written, and passes it on write by write, but for the warnings of the runtime.
type lines struct {
	testenv.Buffer
	each chan string
}

func (l *lines) Write(p []byte) (int, error) {
	l.Buffer.Write(p)
	if complaints(string(p)) != "" {
		l.each <- string(p)
	}
	return len(p), nil
}

// await waits for a line that contains all of the words.
func (l *lines) await(t *testing.T, words ...string) {
	t.Helper()
	testenv.Records(l.each).Next(t, words...)
}

// TestAccessLogThatFails: it is said while knot runs, and it is what it exits with.
func TestAccessLogThatFails(t *testing.T) {
	p := start(t, "-root", sampleSite, "-log", "/dev/full")
	for range 30 { // their lines are written at once
		longRequest(t, p.url)
	}
	p.stderr.await(t, "access log can't be written", "no space left")
	http.DefaultClient.CloseIdleConnections()
	p.stop()
	if code := p.code(); code != exitFailed || !strings.Contains(p.stderr.String(), "knot: write /dev/full: no space left on device\n") {
		t.Errorf("exit code %d, %s", code, p.stderr.String())
	}
}

// TestEndWithALogThatIsStuck: nobody reads the output any more, and the end is not put off for ever.
func TestEndWithALogThatIsStuck(t *testing.T) {
	defer func(before time.Duration) { endPatience = before }(endPatience)
	endPatience = 10 * time.Millisecond
	p := startBlocked(t, "-root", sampleSite, "-log", "-", "-quiet")
	p.get("/notes.txt")
	http.DefaultClient.CloseIdleConnections()
	p.stop()
	if code := p.code(); code != exitFailed || !strings.Contains(p.stderr.String(), "nobody takes it") {
		t.Errorf("exit code %d, %s", code, p.stderr.String())
	}
}

// TestHangupWithoutALogFile is no reason to stop.
func TestHangupWithoutALogFile(t *testing.T) {
	for _, args := range [][]string{{"-root", sampleSite}, {"-root", sampleSite, "-log", "-"}} {
		p := start(t, args...)
		hangUp()
		p.stderr.await(t, "no log file")
		testenv.Contains(t, p.get("/notes.txt"), "Bowline", "%q: what is served", args)
		p.end()
	}
}

// openTerminal opens a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	testenv.Must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if errno != 0 {
		t.Skip("TIOCGPTPEER:", errno)
	}
	slave = os.NewFile(number, "terminal")
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestHashEndsOnSignal: one is enough while knot waits for the password.
func TestHashEndsOnSignal(t *testing.T) {
	_, terminal := openTerminal(t)
	c := knotCommand(t, "hash", "alice")
	c.Stdin = terminal
	stderr := testenv.Need(c.StderrPipe())(t)
	testenv.Must(t, c.Start())
	if line, err := bufio.NewReader(stderr).ReadString('\n'); !strings.Contains(line, "Password") {
		t.Errorf("it says %q, %v", line, err)
	}
	c.Process.Signal(syscall.SIGTERM)
	patience := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
	defer patience.Stop()
	c.Wait()
	testenv.Equal(t, c.ProcessState.Sys().(syscall.WaitStatus).Signal(), syscall.SIGTERM, "it ends with %v", c.ProcessState)
}

// TestTerminalGone: only a terminal that was hung up is one.
func TestTerminalGone(t *testing.T) {
	master, terminal := openTerminal(t)
	slave := int(terminal.Fd())
	testenv.Equal(t, terminalGone(slave), false, "gone while it is there")
	master.Close()
	testenv.Equal(t, terminalGone(slave), true, "gone after a hang-up")
	null := testenv.Need(os.Open(os.DevNull))(t)
	defer null.Close()
	testenv.Equal(t, terminalGone(int(null.Fd())), false, os.DevNull+" is a terminal")
}

// TestErrorsNameKnotOnce although the library's errors begin with its name.
func TestErrorsNameKnotOnce(t *testing.T) {
	var stderr testenv.Buffer
	args := []string{"-root", sampleSite, "-addr", "127.0.0.1:0", "-cache", "1000000000GB", "-cache-file-max", "1KB"}
	if code := run(context.Background(), args, io.Discard, &stderr); code != exitFailed || !strings.HasPrefix(stderr.String(), "knot: no address space") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

// TestOutputThatFails: what was asked for and could not be written is no success.
func TestOutputThatFails(t *testing.T) {
	full := testenv.Need(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	for _, args := range [][]string{{"-help"}, {"-version"}, {"hash", "ann"}} {
		var stderr testenv.Buffer
		code := exitOK
		if command := commands[args[0]]; command != nil {
			code = command(args[1:], strings.NewReader("secret\n"), full, &stderr)
		} else {
			code = run(context.Background(), args, full, &stderr)
		}
		if code != exitFailed || !strings.Contains(stderr.String(), "knot: write /dev/full: no space left on device") {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
	}
}

func TestVersion(t *testing.T) {
	var stdout testenv.Buffer
	code := run(context.Background(), []string{"version"}, &stdout, io.Discard)
	if text := stdout.String(); code != exitOK || !strings.HasPrefix(text, "knot ") || !strings.Contains(text, ", go") {
		t.Errorf("exit code %d, %q", code, text)
	}
}

// TestNoLimits: 0 is the natural word for none, and the library's for the default.
func TestNoLimits(t *testing.T) {
	s := testenv.Need(parse([]string{"-root", sampleSite, "-idle-timeout", "0", "-grace", "0", "-max-head", "256"}, io.Discard))(t).server
	if s.IdleTimeout >= 0 || s.ShutdownTimeout >= 0 || s.HeadTimeout != knot.DefaultHeadTimeout || s.MaxHead != 256 {
		t.Errorf("idle %v, grace %v, head %v, %d", s.IdleTimeout, s.ShutdownTimeout, s.HeadTimeout, s.MaxHead)
	}
}

// TestStopAnswersWhoHasConnected: a client that has a connection when the stop signal comes gets an
// answer, whether knot has noticed the signal yet or not.
func TestStopAnswersWhoHasConnected(t *testing.T) {
	p := start(t, "-root", sampleSite)
	var all []net.Conn
	for range 64 {
		all = append(all, testenv.Dial(t, strings.TrimPrefix(p.url, "http://")))
	}
	p.stop()
	for _, nc := range all {
		io.WriteString(nc, "GET /notes.txt HTTP/1.1\r\nHost: h\r\n\r\n")
		answer, err := io.ReadAll(nc)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.Contains(string(answer), "Bowline") {
			t.Errorf("%.100q, %v", answer, err)
		}
		nc.Close()
	}
	if code := p.code(); code != exitOK || complaints(p.stderr.String()) != "" {
		t.Errorf("exit code %d, %s", code, p.stderr.String())
	}
}

// complaints is what stands in a log without the warnings of the runtime, which a slow machine may cause.
func complaints(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `level=WARN msg="task: `) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
