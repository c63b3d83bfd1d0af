package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A restingPoller notes how it is asked. Loop-private.
type restingPoller struct {
	*sim.Poller
	asked []string
}

func (p *restingPoller) note(how string, timeout time.Duration) {
	if timeout == 0 {
		how = "look"
	}
	p.asked = append(p.asked, how)
}

func (p *restingPoller) Poll(timeout time.Duration) error {
	p.note("wait", timeout)
	return p.Poller.Poll(timeout)
}

func (p *restingPoller) Rest(timeout time.Duration) error {
	p.note("rest", timeout)
	return p.Poller.Poll(timeout)
}

// How a loop waits depends on how long the last wait took: it rests after a long one, and after one that did not
// have to wait looks first. It waits for no longer than makes a wait long. A loop that is locked to its thread never rests.
func TestRest(t *testing.T) {
	for _, locked := range []bool{false, true} {
		clock := sim.NewJumpingClock()
		p := &restingPoller{Poller: clock.NewPoller(0)}
		rt, err := New(Config{Loops: 1, Clock: clock, LockThreads: locked, Log: quiet(), HoldLimit: -1,
			NewPoller: func(int) (Poller, error) { return p, nil }})
		testenv.Must(t, err)
		rt.Go(func() {
			for _, x := range []struct {
				comes time.Duration
				want  string
			}{
				{restAfter, "wait"},
				{restAfter, "rest"},
				{restAfter - 1, "rest"},
				{instantWait - 1, "wait"},
				{0, "look"},
				{0, "look"},
				{instantWait, "look wait"},
				{instantWait, "wait"},
				{50 * time.Microsecond, "wait rest"}, // longer than a nap of sysmon
				{50 * time.Microsecond, "rest"},
				{instantWait, "rest"},
				{restAfter + instantWait, "wait rest"}, // long, though neither part is
				{50 * time.Microsecond, "rest"},
				{restAfter - 1, "rest"},
			} {
				p.asked = nil
				w := Self()
				p.After(x.comes, w.Wake)
				w.Wait(ReasonRead, anywhere{})
				want := strings.Fields(x.want)
				if locked {
					want = strings.Fields(strings.ReplaceAll(strings.ReplaceAll(x.want, "wait rest", "wait"), "rest", "wait"))
				}
				testenv.EqualSlices(t, p.asked, want, "locked %v, an event after %v: the loop did", locked, x.comes)
			}
		}).Join()
		testenv.Must(t, rt.Close())
	}
}
