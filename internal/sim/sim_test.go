package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func poll(p *Poller, timeout time.Duration) chan error {
	done := make(chan error, 1)
	go func() { done <- p.Poll(timeout) }()
	return done
}

func TestPollWaitsForTheDeadline(t *testing.T) {
	c := NewClock()
	p := c.NewPoller(0)
	done := poll(p, 10*time.Millisecond)
	testenv.Until(t, "the poller waits", func() bool { return c.Waiting() == 1 })
	c.Advance(9 * time.Millisecond)
	testenv.Equal(t, c.Waiting(), 1, "returned before the deadline")
	c.Advance(time.Millisecond)
	testenv.Check(t, <-done)
}

func TestWakeBeforeAndDuringPoll(t *testing.T) {
	c := NewClock()
	p := c.NewPoller(0)
	p.Wake()
	testenv.Check(t, p.Poll(-1))
	done := poll(p, -1)
	testenv.Until(t, "the poller waits", func() bool { return c.Waiting() == 1 })
	p.Wake()
	<-done
}

func TestJumpsToTheFirstDeadlineWhenAllWait(t *testing.T) {
	c := NewJumpingClock()
	p, q := c.NewPoller(0), c.NewPoller(0)
	a := poll(p, time.Hour)
	testenv.Until(t, "the first waits", func() bool { return c.Waiting() == 1 })
	testenv.Equal(t, c.Now(), 0, "time passed while one poller was busy")
	<-poll(q, time.Minute)
	testenv.Equal(t, c.Now(), time.Minute, "now")
	b := poll(q, 2*time.Hour)
	<-a
	if c.Now() != time.Hour {
		t.Errorf("now %v, want 1h", c.Now())
	}
	p.Close()
	<-b
	testenv.Equal(t, c.Now(), 2*time.Hour+time.Minute, "now: the closed poller holds the clock")
}

func TestEventsComeInOrder(t *testing.T) {
	c := NewJumpingClock()
	p := c.NewPoller(0)
	var got []int
	for i, d := range []time.Duration{3, 1, 2, 1} {
		p.After(d, func() { got = append(got, i) })
	}
	for p.Active() {
		p.Poll(-1)
	}
	want := []int{1, 3, 2, 0}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}

func TestFailureIsReturnedOnce(t *testing.T) {
	p := NewClock().NewPoller(0)
	broken := errors.New("broken")
	p.Fail(broken)
	testenv.Equal(t, p.Poll(-1), broken)
	testenv.Check(t, p.Poll(0), "again")
	testenv.Check(t, p.Close())
	testenv.Fails(t, p.Wake(), "Wake of a closed poller succeeds")
}
