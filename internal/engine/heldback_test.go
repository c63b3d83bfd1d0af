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

// seldom is one Tick of seven.
func seldom(_ recorder.NodeID, ticks int) bool { return ticks%7 == 0 }

func TestTasksThatAPolicyHoldsBackRunLater(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
		c.NewPolicy = func(*Loop) Policy { return &withholder{may: seldom} }
	})
	ran := 0
	inTasks(rt, 100, func(int) {
		Yield()
		ran++
	})
	testenv.Equal(t, ran, 100, "tasks ran")
	testenv.Check(t, rt.Close())
}

// Nothing is held back in a shutdown.
func TestAShutdownRunsWhatAPolicyHoldsBack(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
		c.NewPolicy = func(*Loop) Policy { return &withholder{may: func(recorder.NodeID, int) bool { return false }} }
	})
	ended := 0
	for range 10 {
		rt.Go(func() { ended++ })
	}
	testenv.Check(t, rt.Close())
	testenv.Equal(t, ended, 10, "tasks ran")
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

// Tasks that have not started, as they are held back, are waited for and run as others are.
func TestAShutdownWaitsForWhatIsHeldBack(t *testing.T) {
	e := entrance(t, "test")
	for name, c := range map[string]struct {
		change func(*Config)
		start  func(l *Loop, fn func())
	}{
		"by a policy": {
			func(c *Config) {
				c.NewPolicy = func(*Loop) Policy {
					return &withholder{may: func(_ recorder.NodeID, ticks int) bool { return ticks > heldTurns }}
				}
			},
			func(l *Loop, fn func()) { GoOn(l, fn) },
		},
		"at an entrance": {
			func(c *Config) { c.NewAdmission = func(*Loop) Admission { return new(lateOpener) } },
			func(l *Loop, fn func()) { l.Post(func() { l.StartAt(e, 0, 0, nil, fn) }) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, 1, c.change)
			ran := 0
			for range 10 {
				c.start(rt.Loop(0), func() {
					testenv.Check(t, e.Enter())
					testenv.Check(t, Err())
					e.Leave()
					ran++
				})
			}
			testenv.Check(t, rt.Shutdown(context.Background()))
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
			newcomersWait(t, rt, e, limit)
		})
	}
}

func newcomersWait(t *testing.T, rt *Runtime, e *Entrance, limit int32) {
	for _, away := range []int32{limit - limit/4 - 1, limit - limit/4} {
		inTasks(rt, 1, func(int) {
			l, in := CurrentLoop(), 0
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
			if full := away >= limit-limit/4; full != errors.Is(refused, ErrRefused) {
				t.Errorf("%d tasks of at most %d are away, and one that gave up was answered %v", away, limit, refused)
			}
			if want := 3; away < limit-limit/4 && in != want || away >= limit-limit/4 && in != 0 {
				t.Errorf("%d tasks of at most %d are away, and %d of %d newcomers were let in", away, limit, in, want)
			}
			l.away.now.Add(-away)
			Sleep(time.Second)
			testenv.Equal(t, in, 3, "all are back, and N of 3 newcomers were let in")
			for _, k := range tasks {
				k.Join()
			}
		})
	}
}
