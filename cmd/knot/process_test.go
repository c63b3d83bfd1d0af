package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var discard = slog.New(slog.DiscardHandler)

// TestMain lets the test's program be knot.
func TestMain(m *testing.M) {
	if os.Getenv("KNOT_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// hangUp sends SIGHUP to knot in this process.
func hangUp() { syscall.Kill(os.Getpid(), syscall.SIGHUP) }

// knotCommand runs knot as a process of its own.
func knotCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self := testenv.Need(os.Executable())(t)
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), "KNOT_TEST_MAIN=1")
	return c
}

// A process is knot as a process of its own, and its successors, which write to the same pipes.
type process struct {
	*exec.Cmd
	pid      int    // of the last one
	printed  string // the first line
	addr     string // that it serves on, if that is one of TCP
	out, log *bufio.Reader
}

var tcpAddr = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// startProcess starts c.
func startProcess(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: c}
	pipe := func() (*bufio.Reader, *os.File) {
		r, w, err := os.Pipe()
		testenv.Must(t, err)
		t.Cleanup(func() { r.Close() })
		return bufio.NewReader(r), w
	}
	var said, logged *os.File
	p.out, said = pipe()
	p.log, logged = pipe()
	c.Stdout, c.Stderr = said, logged
	testenv.Must(t, c.Start())
	said.Close()
	logged.Close()
	p.pid = c.Process.Pid
	t.Cleanup(func() {
		if t.Failed() { // otherwise the test has waited for the last process
			c.Process.Kill()
			syscall.Kill(p.pid, syscall.SIGKILL)
			c.Wait()
		}
	})
	return p
}

// serves waits until it does.
func (p *process) serves(t *testing.T) *process {
	t.Helper()
	p.printed, _ = p.out.ReadString('\n')
	p.addr = tcpAddr.FindString(p.printed)
	if !strings.HasPrefix(p.printed, "serving ") {
		log, _ := p.log.ReadString('\n')
		t.Fatalf("%q, %q", p.printed, log)
	}
	return p
}

// signal sends a signal to the last process.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	testenv.Must(t, syscall.Kill(p.pid, s))
}

var handedOverTo = regexp.MustCompile(`handed over.* pid=(\d+)`)

// logs waits for a line of the log that says that, and notes which process follows.
func (p *process) logs(t *testing.T, want string) {
	t.Helper()
	for line := ""; !strings.Contains(line, want); {
		line = testenv.Need(p.log.ReadString('\n'))(t)
		if m := handedOverTo.FindStringSubmatch(line); m != nil {
			fmt.Sscan(m[1], &p.pid)
		} else {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// handOver has the last process hand over to a new one.
func (p *process) handOver(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGUSR1)
	p.logs(t, "handed over")
}

// adminAddr is the address of the second line.
func (p *process) adminAddr(t *testing.T) string {
	t.Helper()
	line, _ := p.out.ReadString('\n')
	addr := tcpAddr.FindString(line)
	if addr == "" {
		t.Fatalf("%q", line)
	}
	return addr
}
