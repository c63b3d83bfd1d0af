//go:build linux

package netpoll

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/task"
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
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read returned %v, want os.ErrDeadlineExceeded", err)
		}
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
				task.Yield()
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
