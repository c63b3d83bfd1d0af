//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// spawn runs f as a task if the caller is one, else as a goroutine.
func spawn(f func()) (join func() error) {
	if engine.Current() != nil {
		return engine.Go(f).Join
	}
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return func() error { <-done; return nil }
}

// both runs the test in tasks and in goroutines, in every setting.
func both(t *testing.T, f func(t *testing.T)) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		t.Run("tasks", func(t *testing.T) { inTask(t, rt, func() { f(t) }) })
		t.Run("goroutines", f)
	})
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}

// Whatever ends a connection, or its reading side, ends a Read that waits, and one behind it. All else that
// connections do then is compared with package net's, see TestStreamsAreLikeNets.
func TestWaitingReadsEnd(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, x := range []struct {
			network string
			end     func(c, peer *Conn) error
			want    error
		}{
			{"tcp", func(c, _ *Conn) error { return c.Close() }, net.ErrClosed},
			{"unix", func(c, _ *Conn) error { return c.Close() }, net.ErrClosed},
			{"tcp", func(c, _ *Conn) error { return c.CloseRead() }, io.EOF},
			{"unix", func(c, _ *Conn) error { return c.CloseRead() }, io.EOF},
			{"tcp", func(_, peer *Conn) error { peer.SetLinger(0); return peer.Close() }, syscall.ECONNRESET},
		} {
			c, s := connPair(t, x.network)
			var first, second error // the second queues for the lock; only one of them is told of a reset
			reader := spawn(func() { _, first = c.Read(make([]byte, 1)) })
			another := spawn(func() { _, second = c.Read(make([]byte, 1)) })
			awaitWaiter(&c.d.read)
			must(t, x.end(c, s))
			must(t, reader())
			must(t, another())
			testenv.ErrorIs(t, errors.Join(first, second), x.want, "Read")
			c.Close()
			testenv.True(t, x.network != "tcp" || c.LocalAddr().String() == s.RemoteAddr().String() && c.RemoteAddr().String() == s.LocalAddr().String(),
				"after Close the addresses %v, %v and %v, %v do not agree", c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr())
		}
	})
}

// awaitWaiter returns when somebody is parked on s.
func awaitWaiter(s *slot) {
	for {
		if p := s.p.Load(); p != drained && p != ready {
			return
		}
		rest(100 * time.Microsecond)
	}
}

// rest lets others run, in a task or a goroutine.
func rest(d time.Duration) {
	if engine.Current() != nil {
		engine.Sleep(d)
	} else {
		breathe(d)
	}
}

// The peer of a connection that is closed with bytes unread is told that they were not.
func TestCloseWithUnreadBytesResets(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, takeSome := range []bool{false, true} {
			c, s := connPair(t, "tcp")
			need(c.Write([]byte("for nobody")))(t)
			ran := make(chan bool, 1)
			must(t, s.OnReadable(func() { ran <- true }))
			for len(ran) == 0 {
				rest(100 * time.Microsecond)
			}
			if takeSome {
				need(s.Read(make([]byte, 3)))(t)
			}
			must(t, s.Close())
			testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), syscall.ECONNRESET, "the peer reads")
		}
	})
}

// Connections that close with unsent data, and were told to linger, take neither the loop's
// time nor threads.
func TestLingerDoesNotBlockTheLoop(t *testing.T) {
	const conns = 30
	rt := onOne(t, 1).start(t)
	inTask(t, rt, func() {
		var clients, servers []*Conn
		much := make([]byte, 32<<20)
		for range conns {
			c, s := connPair(t, "tcp")
			must(t, c.SetLinger(60))
			for n := 0; n == 0; { // on a slow machine the deadline may pass before the write begins
				must(t, c.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
				n, _ = c.Write(much) // more than the kernel takes
			}
			clients, servers = append(clients, c), append(servers, s)
		}
		before, start := runtime.NumGoroutine(), time.Now()
		for _, c := range clients {
			must(t, c.Close())
		}
		testenv.AtMost(t, runtime.NumGoroutine(), before+conns/2, "goroutines after %d lingering connections were closed, %d before", conns, before)
		testenv.AtMost(t, time.Since(start), conns/2*time.Minute, "closing took") // each was told to linger for a minute
		n, err := io.Copy(io.Discard, servers[0])
		testenv.True(t, n >= 64<<10 && err == nil, "%d bytes came of a connection that was closed, %v", n, err)
		for _, s := range servers {
			must(t, s.SetLinger(0))
			must(t, s.Close())
		}
	})
}

// Close does not wait for data either if SO_LINGER was set past SetLinger; a reset stays one.
func TestLingerThatWasSetPastUsIsTakenBack(t *testing.T) {
	inTaskEverywhere(t, func(t *testing.T) {
		for _, seconds := range []int32{60, 0} {
			c, _ := connPair(t, "tcp")
			kept := -1 // while it is open, close(2) of the other does not linger
			must(t, need(c.SyscallConn())(t).Control(func(fd uintptr) {
				kept = need(unix.Dup(int(fd)))(t)
				must(t, unix.SetsockoptLinger(kept, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: seconds}))
			}))
			must(t, c.Close())
			l := need(unix.GetsockoptLinger(kept, unix.SOL_SOCKET, unix.SO_LINGER))(t)
			testenv.Equal(t, l.Onoff, int32(boolInt(seconds == 0)), "SO_LINGER of %d s when the connection is closed", seconds)
			must(t, unix.Close(kept))
		}
	})
}

func TestContextEndsWait(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ctx, cancel := context.WithCancel(context.Background())
		var c, s *Conn
		inTask(t, rt, func() { c, s = connPair(t, "tcp") })
		reader := need(rt.Spawn(engine.Options{Context: ctx}, func() {
			testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 10))), context.Canceled, "Read")
			// What needs no wait still works.
			need(s.Write([]byte("x")))(t)
			must(t, c.Close())
			must(t, s.Close())
		}))(t)
		awaitWaiter(&c.d.read)
		cancel()
		must(t, reader.Join())
	})
}

// An alarm that rings too early, as it may when the clocks of loop and deadline were read
// at different times, is set again: the deadline is not lost.
func TestAlarmThatRingsEarlyIsSetAgain(t *testing.T) {
	both(t, func(t *testing.T) {
		c, _ := connPair(t, "tcp")
		d := &c.d
		must(t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
		d.loop.Post(func() {
			d.mu.Lock()
			dl := d.deadlines
			d.mu.Unlock()
			dl.alarm.Drop() // it has rung
			d.Ring()
		})
		testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "Read")
	})
}

// A deadline that passes and is taken back at once ends a Read with a timeout or not at
// all, but not as if the stream had ended.
func TestDeadlineTakenBackIsNotTheEnd(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		var stop atomic.Bool
		join := spawn(func() {
			defer s.Close()
			for range testenv.Rounds(5_000, 20_000) {
				must(t, c.SetReadDeadline(time.Unix(1, 0)))
				must(t, c.SetReadDeadline(time.Time{}))
				engine.Yield()
			}
			stop.Store(true)
		})
		err := os.ErrDeadlineExceeded
		for errors.Is(err, os.ErrDeadlineExceeded) {
			_, err = c.Read(make([]byte, 1))
		}
		testenv.True(t, stop.Load(), "Read returned %v while the peer was there", err)
		must(t, join())
	})
}

// A deadline that has only the time on the wall is as far away as it is now, however that clock was set since
// the process began.
func TestDeadlineAfterTheClockWasSet(t *testing.T) {
	was := started
	t.Cleanup(func() { started = was }) // after the end of the runtime
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		// What started says if the clock has been put forward since: its part of the wall, in seconds from
		// bit 30 on, is changed, that of the monotonic clock is not.
		started = was
		*(*uint64)(unsafe.Pointer(&started)) -= uint64(int64(by/time.Second)) << 30
		if got := time.Now().Round(0).Sub(started.Round(0)) - time.Since(started); got.Round(time.Minute) != by {
			t.Skipf("the layout of time.Time is another: the clock was set by %v, want %v", got, by)
		}
		t.Run(by.String(), func(t *testing.T) {
			inTask(t, onOne(t, 1).start(t), func() {
				c, s := connPair(t, "tcp")
				need(s.Write([]byte("x")))(t)
				buf := make([]byte, 1)
				must(t, c.SetReadDeadline(time.Now().Add(time.Minute).Round(0)))
				testenv.Got(c.Read(buf))(t, 1, "Read a minute before the deadline")
				must(t, s.Close()) // a Read that does not end with the deadline ends with this
				must(t, c.SetReadDeadline(time.Now().Add(-time.Second).Round(0)))
				testenv.ErrorIs(t, testenv.Err(c.Read(buf)), os.ErrDeadlineExceeded, "Read a second after the deadline")
			})
		})
	}
}

// A deadline further away than the clocks count is none that passes: the connection works,
// and its loop has nothing to do.
func TestDeadlineFarAhead(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		c, s := connPair(t, "tcp")
		for _, at := range []time.Time{
			time.Now().Add(math.MaxInt64), // 292 years
			time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Now().AddDate(200, 0, 0),
		} {
			must(t, c.SetDeadline(time.Time{}))
			must(t, s.SetDeadline(at))
			must(t, c.SetDeadline(at))
			onLoop(c, func() { c.d.bind() }) // the alarm serves only what the loop serves
			reader := engine.GoOn(c.d.loop, func() {
				testenv.Got(c.Read(make([]byte, 1)))(t, 1, "Read with the deadline %v", at)
			}).Join
			awaitWaiter(&c.d.read)
			// The loop's own goroutine is all that runs: a deadline that rings too early and is set
			// anew makes it go round once more each time.
			turns := 0
			done := make(chan struct{})
			var turn func()
			turn = func() {
				if turns++; turns == 50 {
					close(done)
					return
				}
				c.d.mu.Lock()
				alarm := c.d.deadlines.alarm.Deadline()
				c.d.mu.Unlock()
				if now := c.d.loop.Now(); alarm <= now {
					t.Errorf("at %v the alarm of a deadline at %v is set to %v", now, at, alarm)
					turns = 49
				}
				c.d.loop.Post(turn)
			}
			c.d.loop.Post(turn)
			<-done
			need(s.Write([]byte("x")))(t)
			must(t, reader())
		}
	})
}

// A deadline that has passed counts at once, also while the alarm of an earlier one, which
// nobody has heard yet, is overdue.
func TestPastDeadlineAfterAnOverdueAlarm(t *testing.T) {
	inTaskEverywhere(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		need(s.Write([]byte("data")))(t)
		for _, set := range []func(time.Time) error{c.SetDeadline, c.SetReadDeadline} {
			near := time.Now().Add(time.Millisecond)
			must(t, c.SetReadDeadline(near))
			for !time.Now().After(near.Add(time.Millisecond)) { // the loop is held: nothing rings
			}
			must(t, set(near.Add(time.Microsecond)))
			testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "Read after the deadline")
			must(t, set(time.Time{}))
		}
	})
}

// Buffers as large as an int can say are as large as the kernel allows, and no linger time is
// too long.
func TestOptionsBeyondInt32(t *testing.T) {
	withEpoll(t)
	for d, want := range map[time.Duration]int{-1: -1, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, math.MaxInt64: math.MaxInt32} {
		testenv.Equal(t, seconds(d), want, "%v is N s for the kernel", d)
	}
	c, _ := connPair(t, "tcp")
	must(t, c.SetReadBuffer(1<<32+1)) // 1, cut off
	must(t, c.SetLinger(1<<32))       // 0, cut off: reset the connection
	must(t, c.control("get", "getsockopt", func(fd int) error {
		n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		testenv.True(t, err == nil && n >= 64<<10, "the receive buffer is %d bytes, %v", n, err)
		l := need(unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER))(t)
		testenv.Equal(t, l.Onoff, 0, "SO_LINGER, with which the connection would be reset")
		return nil
	}))
	must(t, c.SetLinger(-1))
}
