package capriccio_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio"
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
