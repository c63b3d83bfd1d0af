//go:build linux

package netpoll

import (
	"errors"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An alarm that rings too early, as it may when the clocks of loop and deadline were read
// at different times, is set again: the deadline is not lost.
func TestAlarmThatRingsEarlyIsSetAgain(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		d := &c.d
		must(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
		rang := make(chan struct{})
		d.loop.Post(func() {
			d.mu.Lock()
			dl := d.deadlines
			d.mu.Unlock()
			dl.alarm.Drop() // it has rung
			d.Ring()
			close(rang)
		})
		testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "Read")
		<-rang
	})
}

// A deadline that passes and is taken back at once ends a Read with a timeout or not at
// all, but not as if the stream had ended.
func TestDeadlineTakenBackIsNotTheEnd(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer c.Close()
		var stop atomic.Bool
		join := spawn(func() {
			defer s.Close()
			for range 20_000 {
				must(t, c.SetReadDeadline(time.Unix(1, 0)))
				must(t, c.SetReadDeadline(time.Time{}))
				engine.Yield()
			}
			stop.Store(true)
		})
		for {
			_, err := c.Read(make([]byte, 1))
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if !stop.Load() {
				t.Errorf("Read returned %v while the peer was there", err)
			}
			break
		}
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
			rt := onOne(t, 1).start(t)
			inTask(t, rt, func() {
				c, s := connPair(t, "tcp")
				defer c.Close()
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
		defer c.Close()
		defer s.Close()
		for _, at := range []time.Time{
			time.Now().Add(math.MaxInt64), // 292 years
			time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
			time.Now().AddDate(200, 0, 0),
		} {
			must(t, c.SetDeadline(time.Time{}))
			must(t, s.SetDeadline(at))
			must(t, c.SetDeadline(at))
			bound := make(chan struct{}) // the alarm serves only what the loop serves
			c.d.loop.Post(func() { c.d.bind(); close(bound) })
			<-bound
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
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			c, s := connPair(t, "tcp")
			defer c.Close()
			defer s.Close()
			need(s.Write([]byte("data")))(t)
			buf := make([]byte, 1)
			for _, set := range []func(time.Time) error{c.SetDeadline, c.SetReadDeadline} {
				near := time.Now().Add(time.Millisecond)
				must(t, c.SetReadDeadline(near))
				for !time.Now().After(near.Add(time.Millisecond)) { // the loop is held: nothing rings
				}
				must(t, set(near.Add(time.Microsecond)))
				if n, err := c.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Read after the deadline: %d, %v, want os.ErrDeadlineExceeded", n, err)
				}
				must(t, set(time.Time{}))
			}
		})
	})
}

// Buffers as large as an int can say are as large as the kernel allows, and no linger time is
// too long.
func TestOptionsBeyondInt32(t *testing.T) {
	withEpoll(t)
	for d, want := range map[time.Duration]int{-1: -1, 0: 0, 1: 1, time.Second: 1, time.Second + 1: 2, math.MaxInt64: math.MaxInt32} {
		testenv.Equal(t, seconds(d), want, "%v is N s for the kernel", d)
	}
	c, s := connPair(t, "tcp")
	defer s.Close()
	must(t, c.SetReadBuffer(1<<32+1)) // 1, cut off
	must(t, c.SetLinger(1<<32))       // 0, cut off: reset the connection
	must(t, c.control("get", "getsockopt", func(fd int) error {
		if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err != nil || n < 64<<10 {
			t.Errorf("the receive buffer is %d bytes, %v", n, err)
		}
		if l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err == nil && l.Onoff == 1 {
			t.Errorf("the connection would be reset")
		}
		return nil
	}))
	must(t, c.SetLinger(-1))
	must(t, c.Close())
}
