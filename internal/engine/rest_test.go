package engine

import (
	"runtime"
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

func (p *restingPoller) Hold(timeout time.Duration) error {
	p.note("hold", timeout)
	if timeout > holdFor {
		p.asked = append(p.asked, "for "+timeout.String())
	}
	return p.Poller.Poll(timeout)
}

// How a loop waits depends on how long the last waits took: it holds its processor while most are brief, for as long as
// is brief, and rests otherwise; after one that did not have to wait it looks first. It rests from time to time in any
// case, always if there are more loops than processors, and never if it is locked to its thread.
func TestHowALoopWaits(t *testing.T) {
	const brief, long = holdFor - time.Microsecond, holdFor + time.Microsecond
	for name, c := range map[string]struct {
		locked, crowded bool
		waits           []string
	}{
		"free":    {false, false, nil},
		"locked":  {true, false, []string{"hold rest", "wait", "hold", "wait", "rest", "wait"}},
		"crowded": {false, true, []string{"hold rest", "rest", "hold", "rest"}},
	} {
		clock := sim.NewJumpingClock()
		p := &restingPoller{Poller: clock.NewPoller(0)}
		rt, err := New(Config{Loops: 1, Clock: clock, LockThreads: c.locked, Log: quiet(), HoldLimit: -1,
			NewPoller: func(int) (Poller, error) { return p, nil }})
		testenv.Must(t, err)
		rt.team.crowded.Store(c.crowded)
		rt.Go(func() {
			l := CurrentLoop()
			waits := func(times int, comes time.Duration, want string) {
				want = strings.NewReplacer(c.waits...).Replace(want)
				for i := range times {
					p.asked = nil
					w := Self()
					p.After(comes, w.Wake)
					w.Wait(ReasonRead, anywhere{})
					testenv.Equal(t, strings.Join(p.asked, " "), want, "%s: event %d after %v: the loop did", name, i, comes)
				}
			}
			l.waits.rested = l.Now()
			waits(2, instantWait, "hold")
			waits(1, 0, "hold")
			waits(3, 0, "look")
			waits(1, instantWait, "look hold")
			waits(3, brief, "hold")
			waits(7, long, "hold rest")
			waits(3, long, "rest")
			waits(2, brief, "rest") // until it is clear that this is no exception
			waits(11, brief, "hold")
			waits(1, brief, "rest") // for what the Go runtime has to do
			waits(1, brief, "hold")
		}).Join()
		testenv.Must(t, rt.Close())
	}
}

// A runtime that is given more loops than there are processors notices when it has as many.
func TestCrowded(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	rt, _ := newSimRuntime(t, procs+1, true)
	for _, n := range []int{procs, procs + 1, procs} {
		runtime.GOMAXPROCS(n)
		rt.Follow()
		testenv.Equal(t, rt.team.crowded.Load(), n == procs, "crowded, with %d processors and %d loops", n, procs+1)
	}
}
