package engine

import (
	"cmp"
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
	alone bool
	asked []string
}

func (p *restingPoller) Alone(time.Duration, Clock) bool { return p.alone }

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
	if timeout > holdFor && !p.alone || timeout > aloneHold {
		p.asked = append(p.asked, "for "+timeout.String())
	}
	return p.Poller.Poll(timeout)
}

// How a loop waits depends on how long the last waits took: it holds its processor while most are brief, for as long as
// is brief, and rests otherwise; after one that did not have to wait it looks first. It rests from time to time in any
// case, and always if there are more loops than processors.
func TestHowALoopWaits(t *testing.T) {
	const brief, long = holdFor - time.Microsecond, holdFor + time.Microsecond
	for name, c := range map[string]struct {
		crowded bool
		waits   []string
	}{
		"free":    {false, nil},
		"crowded": {true, []string{"hold rest", "rest", "hold", "rest"}},
	} {
		clock := sim.NewJumpingClock()
		p := &restingPoller{Poller: clock.NewPoller(0)}
		rt := oneOfMany(t, 1, holdLimit(-1), func(cfg *Config) {
			cfg.Clock = clock
			cfg.NewPoller = func(int) (Poller, error) { return p, nil }
		})
		rt.team.gomax.Store(1 << 20)
		if c.crowded {
			rt.team.gomax.Store(0)
		}
		started := make(chan struct{})
		first := rt.Go(func() {
			<-started
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
			// Starting the first task may leave a wake-up for the loop behind, which would end a wait that is compared.
			w := Self()
			p.After(long, w.Wake)
			w.Wait(ReasonRead, anywhere{})
			l.idleWaits.long, l.idleWaits.instant, l.idleWaits.rested = 0, false, l.Now()
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
			p.alone, l.idleWaits.long, l.idleWaits.rested = true, 0, l.Now() // now what was long is not
			waits(1, long, "hold")
			waits(1, aloneBrief, "hold")
			l.idleWaits.rested = l.Now()
			waits(1, aloneHold+1, "hold rest")
		})
		close(started)
		first.Join()
		testenv.Must(t, rt.Close())
	}
}

// A runtime notices how many processors there are, and how many loops of all runtimes.
func TestCrowded(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	before := loops.working.Load()
	n := int(before) + procs
	rt, _ := newSimRuntime(t, n, true, func(c *Config) { c.HoldLimit = -1 })
	testenv.Equal(t, loops.working.Load(), before+int32(n), "loops that work")
	for free := -1; free <= 1; free++ {
		runtime.GOMAXPROCS(int(before) + n + free)
		rt.Follow()
		testenv.Equal(t, rt.team.crowded(), free < 0, "crowded, with %d processors too many", free)
	}
	testenv.Must(t, rt.Close())
	testenv.Equal(t, loops.working.Load(), before, "loops that work after the end")
}

// A Hold that ends for nothing says nothing of how long the wait takes, and one that ends late was long.
func TestHowWaitsEnd(t *testing.T) {
	for _, c := range []struct {
		took        time.Duration
		held, ready bool
		longer      int // -1: less likely long
		alone       bool
	}{
		{holdFor - 1, true, true, -1, false},
		{holdFor - 1, false, true, -1, false},
		{holdFor - 1, false, false, -1, false},
		{holdFor - 1, true, false, 0, false},
		{holdFor, true, false, 0, false},
		{holdFor, true, true, 1, false},
		{holdFor, false, true, 1, false},
		{holdFor, false, false, 1, false},
		{aloneBrief - 1, true, true, -1, true},
		{aloneBrief, true, true, 1, true},
	} {
		w := idleWaits{long: 128, from: 5, alone: c.alone}
		w.ended(5+c.took, c.held, c.ready)
		testenv.Equal(t, cmp.Compare(w.long, 128), c.longer, "%+v: more likely long", c)
		testenv.Equal(t, w.rested != 0, !c.held, "%+v: it has rested", c)
	}
}
