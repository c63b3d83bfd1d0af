package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A withholder lets those run that may, first come, first served.
type withholder struct {
	plainPolicy
	ready []recorder.NodeID
	ticks int
	may   func(n recorder.NodeID, ticks int) bool
}

func (p *withholder) Count(n recorder.NodeID, k int) {
	for ; k > 0; k-- {
		p.ready = append(p.ready, n)
	}
	for ; k < 0; k++ {
		i := slices.Index(p.ready, n)
		p.ready = slices.Delete(p.ready, i, i+1)
	}
}

func (p *withholder) Tick(time.Duration) { p.ticks++ }

func (p *withholder) Choose() (recorder.NodeID, int, uint64) {
	for _, n := range p.ready {
		if p.may(n, p.ticks) {
			return n, 1, ^uint64(0)
		}
	}
	return 0, 0, 0
}

func (p *withholder) Ran(n recorder.NodeID, tasks int, _ uint64, _ Outcome) { p.Count(n, -tasks) }

// withholding has loops run tasks at the Ticks that are good.
func withholding(good func(tick int) bool) func(*Config) {
	return policy(func() Policy {
		return &withholder{may: func(_ recorder.NodeID, ticks int) bool { return good(ticks) }}
	})
}

func TestTasksThatAPolicyHoldsBackRunLater(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, true, withholding(func(tick int) bool { return tick%7 == 0 }))
	ran := 0
	inTasks(rt, 100, func(int) {
		Yield()
		ran++
	})
	testenv.Equal(t, ran, 100, "tasks ran")
	testenv.Check(t, rt.Close())
}

// heldTurns is longer than Shutdown takes to look whether there are tasks.
const heldTurns = 50

// A lateOpener lets nobody in for heldTurns turns.
type lateOpener struct {
	admit.Open
	asked int
}

func (a *lateOpener) Next(time.Duration, int, *admit.QueueState) admit.Verdict {
	if a.asked++; a.asked > heldTurns {
		return admit.Admit
	}
	return admit.Defer
}

// Tasks that have not started, as they are held back, are waited for and run as others are. Close holds nothing back.
func TestAShutdownWaitsForWhatIsHeldBack(t *testing.T) {
	e := entrance(t, "test")
	onLoop := func(l *Loop, fn func()) { GoOn(l, fn) }
	for name, c := range map[string]struct {
		change func(*Config)
		start  func(l *Loop, fn func())
		end    func(*Runtime) error
	}{
		"by a policy": {withholding(func(tick int) bool { return tick > heldTurns }), onLoop,
			func(rt *Runtime) error { return rt.Shutdown(context.Background()) }},
		"at an entrance": {admission(new(lateOpener)), func(l *Loop, fn func()) { l.Post(func() { l.StartAt(e, 0, 0, nil, fn) }) },
			func(rt *Runtime) error { return rt.Shutdown(context.Background()) }},
		"by a policy for ever": {withholding(func(int) bool { return false }), onLoop, (*Runtime).Close},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, 1, c.change)
			ran := 0
			for range 10 {
				c.start(rt.Loop(0), func() {
					if name != "by a policy for ever" {
						testenv.Check(t, e.Enter())
						testenv.Check(t, Err())
						e.Leave()
					}
					ran++
				})
			}
			testenv.Check(t, c.end(rt))
			testenv.Equal(t, ran, 10, "tasks ran")
		})
	}
}

// Tasks wait natively until the loop is near the limit: newcomers wait, started or not, until some of
// those are back; without an Admission too.
func TestNewcomersWaitWhileManyAreAway(t *testing.T) {
	e := entrance(t, "test")
	const limit = 4
	for name, admission := range map[string]func(*Loop) Admission{"open": nil, "limiter": func(*Loop) Admission { return &limiter{limit: 100} }} {
		t.Run(name, func(t *testing.T) {
			rt, _ := newSimRuntime(t, 1, true, func(c *Config) { c.NewAdmission, c.DetachLimit = admission, limit })
			for away, full := range map[int32]bool{limit - limit/4 - 1: false, limit - limit/4: true} {
				run(t, rt, func() { newcomersWait(t, CurrentLoop(), e, away, full) })
			}
		})
	}
}

func newcomersWait(t *testing.T, l *Loop, e *Entrance, away int32, full bool) {
	in := 0
	enter := func() {
		testenv.Check(t, e.Enter())
		in++
	}
	l.away.now.Add(away)
	tasks := []*Task{Go(enter), Go(enter)}
	l.StartAt(e, 0, 0, nil, enter)
	var left Ticket
	var refused error
	l.StartAt(e, 0, 0, &left, func() { refused = e.Enter() })
	left.GiveUp()
	Sleep(time.Second)
	testenv.Equal(t, errors.Is(refused, ErrRefused), full, "%d tasks are away: one that gave up was refused", away)
	want := 3
	if full {
		want = 0
	}
	testenv.Equal(t, in, want, "%d tasks are away: newcomers let in", away)
	l.away.now.Add(-away)
	Sleep(time.Second)
	testenv.Equal(t, in, 3, "all are back, and N of 3 newcomers were let in")
	joinAll(t, tasks)
}
