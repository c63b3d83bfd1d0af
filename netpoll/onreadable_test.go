//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// hookedConn registers fn with c and returns a function that waits until it has run.
func hookedConn(t *testing.T, c *Conn, fn func()) (wait func()) {
	ran := task.NewChan[bool](1)
	must(t, c.OnReadable(func() {
		if engine.CurrentLoop() != c.home() || engine.Current() == nil {
			t.Error("the function does not run as a task of the connection's loop")
		}
		fn()
		ran.Send(true)
	}))
	return func() { ran.Recv() }
}

func TestOnReadable(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			buf := make([]byte, 100)
			read := func(want string, wantErr error) func() {
				return func() {
					n, err := s.Read(buf)
					if string(buf[:n]) != want || !errors.Is(err, wantErr) {
						t.Errorf("%s: read %q, %v, want %q, %v", network, buf[:n], err, want, wantErr)
					}
				}
			}
			// Bytes that come later, bytes that are there, then nothing for a while.
			for range 3 {
				wait := hookedConn(t, s, read("one", nil))
				testenv.ErrorIs(t, s.OnReadable(func() {}), ErrBusy, "second OnReadable")
				testenv.ErrorIs(t, testenv.Err(s.Read(buf)), ErrBusy, "Read while registered")
				need(c.Write([]byte("one")))(t)
				wait()
			}
			need(c.Write([]byte("two")))(t)
			hookedConn(t, s, read("two", nil))()
			// The deadline.
			wait := hookedConn(t, s, read("", os.ErrDeadlineExceeded))
			must(t, s.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
			wait()
			hookedConn(t, s, read("", os.ErrDeadlineExceeded))() // still passed
			must(t, s.SetReadDeadline(time.Time{}))
			// The end of the stream, and again.
			wait = hookedConn(t, s, read("", io.EOF))
			must(t, c.CloseWrite())
			wait()
			hookedConn(t, s, read("", io.EOF))()
			// Close.
			wait = hookedConn(t, c, func() {
				testenv.ErrorIs(t, testenv.Err(c.Read(buf)), net.ErrClosed, "Read after Close")
			})
			must(t, c.Close())
			wait()
			testenv.ErrorIs(t, c.OnReadable(func() { t.Error("ran after Close") }), net.ErrClosed, "OnReadable after Close")
			must(t, s.Close())
		}
	})
}

func TestOnReadableWhileReading(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		reader := spawn(func() { s.Read(make([]byte, 1)) })
		awaitWaiter(&s.d.read)
		testenv.ErrorIs(t, s.OnReadable(func() {}), ErrBusy, "OnReadable during Read")
		must(t, c.Close())
		must(t, reader())
		must(t, s.Close())
	})
}

// A registration that is pending when the runtime closes must not leave anything.
func TestOnReadableAtShutdown(t *testing.T) {
	for _, s := range settings() {
		rt, err := engine.New(engine.Config{
			Loops: s.loops, NewPoller: func(int) (engine.Poller, error) { return s.open() },
			LockThreads: strings.HasPrefix(s.name, lockedUring),
		})
		if refused(err) {
			continue
		}
		must(t, err)
		var c, peer *Conn
		must(t, rt.Run(context.Background(), func(context.Context) error {
			c, peer = connPair(t, "tcp")
			return c.OnReadable(func() {})
		}))
		testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), net.ErrClosed, "Read after the runtime was closed")
		testenv.ErrorIs(t, peer.Close(), net.ErrClosed, "Close after the runtime was closed")
	}
}

// StartAt starts a task on the connection's loop for a caller that is there, and for no other.
func TestStartAt(t *testing.T) {
	rt := need(engine.New(engine.Config{Loops: 2, NewPoller: func(int) (engine.Poller, error) { return newEpoll() }}))(t)
	defer rt.Close()
	e := need(ressched.NewEntrance("StartAt"))(t)
	engine.GoOn(rt.Loop(0), func() {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		for _, at := range []*ressched.Entrance{nil, e} {
			ran := task.NewChan[bool](1)
			if !s.StartAt(at, func() {
				if at != nil && at.Enter() == nil {
					defer at.Leave()
				}
				ran.Send(engine.CurrentLoop() == s.home() && engine.Current() != nil)
			}) {
				t.Errorf("entrance %v: nothing was started", at)
				return
			}
			if ok, _ := ran.Recv(); !ok {
				t.Errorf("entrance %v: not a task of the connection's loop", at)
			}
		}
		engine.GoOn(rt.Loop(1), func() {
			if s.StartAt(nil, func() { t.Error("ran") }) {
				t.Error("started from another loop")
			}
		}).Join()
		engine.Offload(func() {
			if s.StartAt(nil, func() { t.Error("ran") }) {
				t.Error("started from a goroutine")
			}
		})
	}).Join()
}

// What is started because the peer has gone says so, whether that was known before OnReadableAt or not.
func TestEnded(t *testing.T) {
	e := need(ressched.NewEntrance(t.Name()))(t)
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			for _, x := range []struct {
				name          string
				before, after func(c *Conn)
				ended         bool
			}{
				{name: "bytes", after: func(c *Conn) { c.Write([]byte("x")) }},
				{name: "bytes before", before: func(c *Conn) { c.Write([]byte("x")) }},
				{name: "the end", after: func(c *Conn) { c.CloseWrite() }, ended: true},
				{name: "the end before", before: func(c *Conn) { c.CloseWrite() }, ended: true},
				{name: "bytes and the end before", before: func(c *Conn) { c.Write([]byte("x")); c.CloseWrite() }},
			} {
				c, s := connPair(t, "tcp")
				talkOnce(t, c, s)
				if x.before != nil {
					x.before(c)
					until(t, "the loop knows", func() bool { return s.d.read.p.Load() == ready })
				}
				ended := task.NewChan[bool](1)
				must(t, s.OnReadableAt(e, func() {
					is := s.Ended()
					if !is && e.Enter() == nil {
						e.Leave()
					}
					ended.Send(is)
				}))
				if x.after != nil {
					x.after(c)
				}
				if got, _ := ended.Recv(); got != x.ended {
					t.Errorf("%s: Ended is %v, want %v", x.name, got, x.ended)
				}
				must(t, c.Close())
				must(t, s.Close())
			}
		})
	})
}

// What has registered is told once that the peer has gone, before and after it has; other events do not
// count, nor what was taken back.
func TestOnHangup(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			told := make(chan string, 10)
			on := func(which string) bool {
				fn := func() { told <- which }
				return s.OnHangup(&fn)
			}
			if !on("first") {
				return // this poller does not tell
			}
			need(c.Write([]byte("bytes that nobody reads")))(t)
			if !s.OnHangup(nil) || s.OnHangup(nil) {
				t.Error("what was registered is taken back once")
			}
			on("second")
			must(t, c.CloseWrite())
			for _, want := range []string{"second", "late"} {
				var got string
				task.Offload(func() {
					select {
					case got = <-told:
					case <-time.After(time.Minute):
					}
				})
				if got != want || len(told) > 0 {
					t.Errorf("%s: told %q, want %q, and %d more", network, got, want, len(told))
				}
				if s.OnHangup(nil) {
					t.Error("what was called is taken back")
				}
				if want == "second" {
					on("late")
				}
			}
		}
	})
}

func TestQuiet(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			talkOnce(t, c, s)
			if !s.Quiet() {
				t.Error(network, "nothing has come, and it is not quiet")
			}
			need(c.Write([]byte("x")))(t)
			for s.Quiet() { // until the loop has been told
				must(t, task.Sleep(time.Millisecond))
			}
			need(s.Read(make([]byte, 10)))(t)
			if !s.Quiet() {
				t.Error(network, "all has been read, and it is not quiet")
			}
			must(t, c.Close())
			for s.Quiet() {
				must(t, task.Sleep(time.Millisecond))
			}
		}
	})
}

// A plain goroutine has no loop, and uses what rests at any.
func TestPoolOfGoroutines(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 0)
		for range 3 {
			c := need(p.Get(context.Background()))(t)
			p.Put(c, false)
		}
		task.Offload(func() {
			for range 3 {
				c := need(p.Get(context.Background()))(t)
				p.Put(c, false)
			}
		})
		testenv.Equal(t, dials.Load(), 1, "connections for one at a time")
		must(t, p.Close())
	})
}

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
