//go:build linux

package netpoll

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSyscallConn(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "unix")
		raw, err := s.SyscallConn()
		must(t, err)
		buf := make([]byte, 10)
		var calls atomic.Int32
		var got int
		reader := spawn(func() {
			must(t, raw.Read(func(fd uintptr) bool {
				calls.Add(1)
				n, err := unix.Read(int(fd), buf)
				got = n
				return err != unix.EAGAIN
			}))
		})
		awaitWaiter(&s.d.read)
		_, err = c.Write([]byte("raw"))
		must(t, err)
		must(t, reader())
		if string(buf[:got]) != "raw" || calls.Load() < 2 {
			t.Errorf("raw read %q in %d calls, want \"raw\" in at least 2", buf[:got], calls.Load())
		}
		must(t, raw.Write(func(uintptr) bool { return true }))
		must(t, c.Close())
		must(t, s.Close())
		if err := raw.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Control after Close: %v, want net.ErrClosed", err)
		}
	})
}
