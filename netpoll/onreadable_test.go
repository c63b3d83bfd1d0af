//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
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
		testenv.True(t, engine.CurrentLoop() == c.home() && engine.Current() != nil, "the function does not run as a task of the connection's loop")
		fn()
		ran.Send(true)
	}))
	return func() { ran.Recv() }
}

func TestOnReadable(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			read := func(want string) func() { return func() { reads(t, s, want, network) } }
			fail := func(want error) func() { return func() { readFails(t, s, want, network) } }
			// Bytes that come later, bytes that are there, then nothing for a while.
			for range 3 {
				wait := hookedConn(t, s, read("one"))
				testenv.ErrorIs(t, s.OnReadable(func() {}), ErrBusy, "second OnReadable")
				readFails(t, s, ErrBusy, "Read while registered")
				need(c.Write([]byte("one")))(t)
				wait()
			}
			need(c.Write([]byte("two")))(t)
			hookedConn(t, s, read("two"))()
			// The deadline.
			wait := hookedConn(t, s, fail(os.ErrDeadlineExceeded))
			must(t, s.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
			wait()
			hookedConn(t, s, fail(os.ErrDeadlineExceeded))() // still passed
			must(t, s.SetReadDeadline(time.Time{}))
			// The end of the stream, and again.
			wait = hookedConn(t, s, fail(io.EOF))
			must(t, c.CloseWrite())
			wait()
			hookedConn(t, s, fail(io.EOF))()
			// Close.
			wait = hookedConn(t, c, func() { readFails(t, c, net.ErrClosed, "Read after Close") })
			must(t, c.Close())
			wait()
			testenv.ErrorIs(t, c.OnReadable(func() { t.Error("ran after Close") }), net.ErrClosed, "OnReadable after Close")
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
	})
}

// A registration that is pending when the runtime closes must not leave anything.
func TestOnReadableAtShutdown(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		var c, peer *Conn
		must(t, rt.Run(context.Background(), func(context.Context) error {
			c, peer = connPair(t, "tcp")
			return c.OnReadable(func() {})
		}))
		readFails(t, c, net.ErrClosed, "Read after the runtime was closed")
		testenv.ErrorIs(t, peer.Close(), net.ErrClosed, "Close after the runtime was closed")
	})
}

// StartAt starts a task on the connection's loop for a caller that is there, and for no other.
func TestStartAt(t *testing.T) {
	rt := onOneOf("epoll", 2).start(t)
	e := need(ressched.NewEntrance("StartAt"))(t)
	engine.GoOn(rt.Loop(0), func() {
		_, s := connPair(t, "tcp")
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
			ok, _ := ran.Recv()
			testenv.True(t, ok, "entrance %v: not a task of the connection's loop", at)
		}
		elsewhere := func() { testenv.Equal(t, s.StartAt(nil, func() { t.Error("ran") }), false, "started from elsewhere") }
		engine.GoOn(rt.Loop(1), elsewhere).Join()
		engine.Offload(elsewhere)
	}).Join()
}

// What is started because the peer has gone says so, whether that was known before OnReadableAt or not.
func TestEnded(t *testing.T) {
	e := need(ressched.NewEntrance(t.Name()))(t)
	inTaskEverywhere(t, func(t *testing.T) {
		bytes, end := func(c *Conn) { c.Write([]byte("x")) }, func(c *Conn) { c.CloseWrite() }
		for _, x := range []struct {
			name          string
			before, after func(c *Conn)
			ended         bool
		}{
			{name: "bytes", after: bytes},
			{name: "bytes before", before: bytes},
			{name: "the end", after: end, ended: true},
			{name: "the end before", before: end, ended: true},
			{name: "bytes and the end before", before: func(c *Conn) { bytes(c); end(c) }},
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
			testenv.Got(ended.Recv())(t, x.ended, "%s: Ended", x.name)
		}
	})
}

// The end of a connection that another thread has just closed is not looked for on the socket that has its number now.
func TestOverLeavesAReusedNumberAlone(t *testing.T) {
	inTaskEverywhere(t, func(t *testing.T) {
		other, peer := closedPair(t)
		need(unix.Write(peer, []byte("word")))(t)
		_, c := connPair(t, "tcp")
		fd := int(c.d.fd)
		must(t, c.Close())
		reused := need(unix.FcntlInt(uintptr(other), unix.F_DUPFD_CLOEXEC, fd))(t)
		defer unix.Close(reused)
		testenv.MustEqual(t, reused, fd, "the number of the descriptor")
		testenv.True(t, c.d.over(), "a closed connection has something to read: that of another socket")
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
			testenv.Equal(t, s.OnHangup(nil), true, "what was registered is taken back")
			testenv.Equal(t, s.OnHangup(nil), false, "once more")
			on("second")
			must(t, c.CloseWrite())
			for _, want := range []string{"second", "late"} {
				until(t, network+": the "+want+" is told", func() bool { return len(told) > 0 })
				testenv.Equal(t, <-told, want, "%s: told", network)
				testenv.Equal(t, len(told), 0, "%s: told more", network)
				testenv.Equal(t, s.OnHangup(nil), false, "what was called is taken back")
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
			testenv.Equal(t, s.Quiet(), true, "%s: quiet when nothing has come", network)
			need(c.Write([]byte("x")))(t)
			until(t, "the loop has been told", func() bool { return !s.Quiet() })
			reads(t, s, "x")
			testenv.Equal(t, s.Quiet(), true, "%s: quiet when all has been read", network)
			must(t, c.Close())
			until(t, "the loop has been told of the end", func() bool { return !s.Quiet() })
		}
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
	testenv.ErrorIs(t, testenv.Err(here.ReadNow(make([]byte, 1))), os.ErrDeadlineExceeded, "with nothing there")
	here.SetReadDeadline(time.Now().Add(-time.Second))
	there.Write([]byte("late"))
	readFails(t, here, os.ErrDeadlineExceeded, "Read after the deadline")
	reads(t, soonReader{here}, "late", "ReadNow after the deadline")
	here.SetReadDeadline(time.Time{})
	there.Write([]byte("more"))
	reads(t, here, "more", "Read after ReadNow")
	there.Close()
	readFails(t, soonReader{here}, io.EOF, "ReadNow at the end")
	here.Close()
	readFails(t, soonReader{here}, net.ErrClosed, "ReadNow after Close")
}

// A soonReader calls ReadNow until there is something.
type soonReader struct{ *Conn }

func (c soonReader) Read(b []byte) (int, error) {
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
		send := func(text string, oob []byte) {
			must(t, unix.Sendmsg(int(s.d.fd), []byte(text), oob, nil, 0))
		}
		read := func(want string) (dry bool) {
			var b [8]byte
			n := need(c.Read(b[:]))(t)
			testenv.True(t, string(b[:n]) == want, "read %q, want %q", b[:n], want)
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

// TestWriteNow: WriteNow takes what the socket has room for, nothing from then on, and more when the other end has read.
func TestWriteNow(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		writeNow(t) // on a goroutine, then as a task
		inTask(t, rt, func() { writeNow(t) })
	})
}

func writeNow(t *testing.T) {
	here, there := connPair(t, "tcp")
	content := make([]byte, 64<<10)
	sent := 0
	for {
		n := need(here.WriteNow(content))(t)
		if sent += n; n == 0 {
			break
		}
	}
	testenv.AtMost(t, here.WriteRoom(), len(content), "room beside a WriteNow that took nothing")
	need(io.ReadFull(there, make([]byte, sent)))(t)
	more := 0
	for more == 0 {
		more = need(here.WriteNow(content))(t)
		engine.Yield()
	}
	need(here.Write(content))(t)
	need(io.ReadFull(there, make([]byte, more+len(content))))(t)
	here.Close()
	testenv.ErrorIs(t, testenv.Err(here.WriteNow(content)), net.ErrClosed, "after Close")
}
