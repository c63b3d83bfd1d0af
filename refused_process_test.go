package capriccio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A process that may not use io_uring, and asks for it, says why it can't have it, once,
// and works on epoll.
func TestRefusedRingGivesWayToEpoll(t *testing.T) {
	for _, e := range []syscall.Errno{unix.EPERM, unix.ENOSYS, unix.ENOMEM} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envProgram+"=refused", capriccio.EnvPoller+"=uring", fmt.Sprintf("%s=%d", envErrno, e))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		out := complaints(said.String())
		if strings.HasPrefix(out, noSeccomp) {
			t.Skip(out)
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", e, err, out)
		}
		if strings.Count(out, "\n") != 1 || !strings.Contains(out, "poller=epoll") || !strings.Contains(out, e.Error()) {
			t.Errorf("%v: the process logged %q, want one line with epoll and the reason", e, out)
		}
	}
}

const (
	envErrno  = "CAPRICCIO_TEST_ERRNO"
	noSeccomp = "no seccomp filter: "
)

// refusedProgram forbids itself io_uring_setup(2), and passes a byte through a pipe.
func refusedProgram() error {
	var e uint16
	if _, err := fmt.Sscan(os.Getenv(envErrno), &e); err != nil {
		return err
	}
	if err := testenv.Refuse(unix.SYS_IO_URING_SETUP, syscall.Errno(e)); err != nil {
		fmt.Println(noSeccomp + err.Error())
		return nil
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return capriccio.Run(context.Background(), func(context.Context) error {
		r, w, err := netpoll.Pipe()
		if err != nil {
			return err
		}
		defer r.Close()
		writer := task.Go(func() {
			w.Write([]byte("x"))
			w.Close()
		})
		if got, err := io.ReadAll(r); string(got) != "x" || err != nil {
			return fmt.Errorf("read %q, %v, want \"x\"", got, err)
		}
		return writer.Join()
	}, capriccio.WithLoops(2), capriccio.WithLogger(log))
}

const (
	parkedConns = 1200
	parkedCold  = 256  // tasks of a loop that has so few may have larger stacks, see engine.Loop.handOverSlow
	leastStack  = 2048 // of a goroutine, in bytes
)

// parkedProgram has a task for each connection, which waits in Read most of the time, and prints how many of
// them have come to have more than the least stack.
func parkedProgram() error {
	var grown atomic.Int64
	buffer := func() []byte { return make([]byte, 64) }
	return capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() {
			err := talkInTurn(ln.Addr().String())
			if errors.Is(err, syscall.EMFILE) {
				fmt.Println("descriptors")
			} else {
				fmt.Println(grown.Load(), err)
			}
			os.Exit(0)
		}()
		return netpoll.Serve(ln, func(c *netpoll.Conn) {
			defer c.Close()
			large := false
			for b := buffer(); ; {
				n, err := c.Read(b)
				if g := coro.G(); !large && coro.Peek(g+8)-coro.Peek(g) > leastStack {
					large = true
					grown.Add(1)
				}
				if err != nil {
					return
				}
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		})
	}, capriccio.WithHoldLimit(-1)) // a report of a task that held its loop takes more
}

// talkInTurn says something on each of parkedConns connections, and hears it again, a few times.
func talkInTurn(addr string) error {
	var all []net.Conn
	for range parkedConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	b := []byte("x")
	for range 4 {
		for _, c := range all {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
		for _, c := range all {
			if _, err := c.Read(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// A task that waits in Read has no more stack than a goroutine that does: with all that is on by default, what
// the runtime has on it leaves room in the least stack for a handler.
func TestATaskThatWaitsInReadHasTheLeastStack(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); testenv.Race || !coro.Exact ||
		ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-gcflags" || s.Key == "-cover" && s.Value == "true" }) {
		t.Skip("frames of other builds are larger")
	}
	for _, poller := range []string{"epoll", "uring"} {
		for loops := range 2 {
			if poller != "epoll" && !testenv.Full() && loops > 0 {
				continue
			}
			t.Run(fmt.Sprint(poller, loops+1), func(t *testing.T) {
				// Goroutines begin with the least stack, and not with what others have had.
				_, line := start(t, "parked", capriccio.EnvPoller+"="+poller, fmt.Sprint(capriccio.EnvLoops, "=", loops+1), "GODEBUG=adaptivestackstart=0")
				if line == "descriptors" {
					t.Skip("too few descriptors are allowed here")
				}
				var grown int
				if _, err := fmt.Sscanf(line, "%d <nil>", &grown); err != nil {
					t.Fatalf("the program says %q", line)
				}
				if most := (loops+1)*parkedCold + (parkedConns-2*parkedCold)/5; grown > most {
					t.Errorf("%d of %d tasks have a larger stack, want %d at most", grown, parkedConns, most)
				} else {
					t.Logf("%d of %d tasks have a larger stack", grown, parkedConns)
				}
			})
		}
	}
}

// The programs that the documents show compile, and those that listen by package netpoll exit with 0 on Ctrl-C.
func TestProgramsOfDocumentsStop(t *testing.T) {
	here, dir := testenv.Need(os.Getwd())(t), t.TempDir()
	anyPort := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	sources := map[string]string{} // what stands for which file of this module
	var all, servers []string
	for _, file := range documents(t) {
		for _, code := range blocks(read(t, file), "go") {
			if !strings.HasPrefix(code, "package main\n") {
				continue
			}
			name := fmt.Sprintf("shown%d", len(all))
			source := filepath.Join(dir, name+".go")
			testenv.Must(t, os.WriteFile(source, []byte(anyPort.ReplaceAllString(code, "127.0.0.1:0")), 0o600))
			sources[filepath.Join(here, name, "main.go")] = source
			all = append(all, "./"+name)
			if strings.Contains(code, "netpoll.Listen(") { // the others listen on a port that may be taken
				servers = append(servers, "./"+name)
			}
		}
	}
	testenv.AtLeast(t, len(all), 5, "programs")
	testenv.AtLeast(t, len(servers), 2, "servers")
	overlay := filepath.Join(dir, "overlay")
	testenv.Must(t, os.WriteFile(overlay, testenv.Need(json.Marshal(map[string]any{"Replace": sources}))(t), 0o600))
	testenv.Run(t, "", nil, "go", append([]string{"list", "-export", "-f", "", "-overlay", overlay}, all...)...) // compiles, and does not link
	testenv.Run(t, "", nil, "go", append([]string{"build", "-overlay", overlay, "-o", dir + "/"}, servers...)...)
	for _, name := range servers {
		stopsWell(t, filepath.Join(dir, name))
	}
}

// stopsWell sends a signal as soon as the program listens.
func stopsWell(t *testing.T, program string) {
	var out strings.Builder
	cmd := exec.Command(program)
	cmd.Stdout, cmd.Stderr = &out, &out
	testenv.Must(t, cmd.Start())
	defer cmd.Process.Kill()
	listens := func() bool {
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid))
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "socket:") {
				return true
			}
		}
		return false
	}
	for deadline := time.Now().Add(time.Minute); !listens(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not listen: %s", &out)
		}
		<-time.After(5 * time.Millisecond)
	}
	testenv.Must(t, cmd.Process.Signal(syscall.SIGINT))
	err := cmd.Wait()
	if err != nil || complaints(out.String()) != "" {
		t.Errorf("%v: %s", err, &out)
	}
}

// complaints is what stands in a log without the warnings of the runtime about tasks, which a slow
// machine may cause.
func complaints(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, " WARN task: a task ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
