//go:build linux

package netpoll

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReadNowTakesWhatIsThereAfterTheDeadline(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		readNow(t) // on a goroutine, then as a task
		inTask(t, rt, func() { readNow(t) })
	})
}

func readNow(t *testing.T) {
	here, there := connPair(t, "tcp")
	var b [8]byte
	if n, err := here.ReadNow(b[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with nothing there: %d, %v", n, err)
	}
	here.SetReadDeadline(time.Now().Add(-time.Second))
	there.Write([]byte("late"))
	if n, err := here.Read(b[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after the deadline: %d, %v", n, err)
	}
	if n, err := readNowSoon(here, b[:]); err != nil || string(b[:n]) != "late" {
		t.Errorf("ReadNow after the deadline: %q, %v", b[:n], err)
	}
	here.SetReadDeadline(time.Time{})
	there.Write([]byte("more"))
	if n, err := here.Read(b[:]); err != nil || string(b[:n]) != "more" {
		t.Errorf("Read after ReadNow: %q, %v", b[:n], err)
	}
	there.Close()
	if n, err := readNowSoon(here, b[:]); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	here.Close()
	testenv.ErrorIs(t, testenv.Err(here.ReadNow(b[:])), net.ErrClosed, "after Close")
}

// readNowSoon calls ReadNow until there is something.
func readNowSoon(c *Conn, b []byte) (int, error) {
	for end := time.Now().Add(10 * time.Second); ; engine.Yield() {
		n, err := c.ReadNow(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().After(end) {
			return n, err
		}
	}
}

// A short read of a unix socket leaves nothing to try for, but at a message that comes with a descriptor, or may
// come with credentials: there the kernel stops though more is there.
func TestShortUnixRead(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "unix")
		defer c.Close()
		defer s.Close()
		send := func(text string, oob []byte) {
			must(t, unix.Sendmsg(int(s.d.fd), []byte(text), oob, nil, 0))
		}
		read := func(want string) (dry bool) {
			var b [8]byte
			n, err := c.Read(b[:])
			if must(t, err); string(b[:n]) != want {
				t.Errorf("read %q, want %q", b[:n], want)
			}
			return c.d.read.p.Load() == drained
		}
		tries := 0
		for dry := false; !dry; tries++ { // the event may come after the read
			if tries == 1000 {
				t.Fatal("short reads leave the socket to be read again")
			}
			send("a", nil)
			dry = read("a")
		}
		send("b", unix.UnixRights(0))
		send("c", nil)
		if read("b") {
			t.Fatal("nothing is said to be left where a descriptor came")
		}
		read("c")
		must(t, unix.SetsockoptInt(int(c.d.fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
		send("d", nil)
		if read("d") {
			t.Fatal("nothing is said to be left where credentials may come")
		}
	})
}
