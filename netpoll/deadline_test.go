//go:build linux

package netpoll

import (
	"errors"
	"os"
	"testing"
	"time"
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
			d.ring()
			close(rang)
		})
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read returned %v, want os.ErrDeadlineExceeded", err)
		}
		<-rang
	})
}
