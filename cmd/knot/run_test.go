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
	stderr  *lines
	stop    func() // the first stop signal
	code    func() int
}

// start runs knot on a free port; it must serve.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	p := &program{t: t, stderr: &lines{each: make(chan string, 1000)}, stop: stop}
	r, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"-addr", "127.0.0.1:0", "-loops", "1"}, args...), w, p.stderr)
		w.Close()
	}()
	p.code = sync.OnceValue(func() int { return <-code })
	out := bufio.NewReader(r)
	for len(p.printed) == 0 || len(p.printed) == 1 && slices.Contains(args, "-admin") {
		line, err := out.ReadString('\n')
		testenv.Must(t, err, "%q; %s", p.printed, p.stderr)
		p.printed = append(p.printed, line)
	}
	if p.url = regexp.MustCompile(`https?://127\.0\.0\.1:[1-9]\d*`).FindString(p.printed[0]); p.url == "" {
		t.Fatalf("first line %q; %s", p.printed[0], p.stderr.String())
	}
	go io.Copy(io.Discard, out)
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

// TestAccessLogThatFails: it is said while knot runs, and it is what it exits with.
func TestAccessLogThatFails(t *testing.T) {
	p := start(t, "-root", sampleSite, "-log", "/dev/full")
	p.get("/notes.txt")
	if line := <-p.stderr.each; !strings.Contains(line, "access log can't be written") || !strings.Contains(line, "no space left") {
		t.Errorf("it says %q", line)
	}
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
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	stderr := &lines{each: make(chan string, 1000)}
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"-root", sampleSite, "-addr", "127.0.0.1:0", "-loops", "1", "-log", "-", "-quiet"}, w, stderr)
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	testenv.Must(t, err)
	testenv.Get(t, http.DefaultClient, regexp.MustCompile(`http://\S+`).FindString(line)+"/notes.txt")
	http.DefaultClient.CloseIdleConnections()
	stop()
	if got := <-code; got != exitFailed || !strings.Contains(stderr.String(), "nobody takes it") {
		t.Errorf("exit code %d, %s", got, stderr.String())
	}
	r.Close() // what waits there ends
}

// TestHangupWithoutALogFile is no reason to stop.
func TestHangupWithoutALogFile(t *testing.T) {
	for _, args := range [][]string{{"-root", sampleSite}, {"-root", sampleSite, "-log", "-"}} {
		p := start(t, args...)
		syscall.Kill(os.Getpid(), syscall.SIGHUP)
		testenv.Contains(t, <-p.stderr.each, "no log file", "%q: it", args)
		if !strings.Contains(p.get("/notes.txt"), "Bowline") {
			t.Errorf("%q: it does not serve any more", args)
		}
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
	if terminalGone(slave) {
		t.Error("gone while it is there")
	}
	master.Close()
	if !terminalGone(slave) {
		t.Error("not gone after a hang-up")
	}
	null := testenv.Need(os.Open(os.DevNull))(t)
	defer null.Close()
	if terminalGone(int(null.Fd())) {
		t.Error(os.DevNull + " is a terminal")
	}
}

// TestErrorsNameKnotOnce although the library's errors begin with its name.
func TestErrorsNameKnotOnce(t *testing.T) {
	var stderr lines
	stderr.each = make(chan string, 10)
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
	var stdout, stderr lines
	stdout.each = make(chan string, 10)
	if code := run(context.Background(), []string{"version"}, &stdout, &stderr); code != exitOK || !strings.HasPrefix(stdout.String(), "knot ") || !strings.Contains(stdout.String(), ", go") {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
}

// TestNoLimits: 0 is the natural word for none, and the library's for the default.
func TestNoLimits(t *testing.T) {
	set, err := parse([]string{"-root", filepath.Clean(sampleSite), "-idle-timeout", "0", "-grace", "0", "-max-head", "256"}, io.Discard)
	testenv.Must(t, err)
	s := set.server
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
		nc := testenv.Need(net.Dial("tcp", strings.TrimPrefix(p.url, "http://")))(t)
		defer nc.Close()
		all = append(all, nc)
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
