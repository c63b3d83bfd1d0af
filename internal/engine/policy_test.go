package engine

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A plainPolicy is the part of a policy that says nothing of costs, order and grants; others are made of it.
type plainPolicy struct{}

func (plainPolicy) Charge(NodeID, uint64)    {}
func (plainPolicy) Tick(time.Duration)       {}
func (plainPolicy) NewestFirst() bool        { return false }
func (plainPolicy) Grant() (int, uint64)     { return 0, 0 }
func (plainPolicy) Granted(NodeID, int, int) {}
func (plainPolicy) PassOver(NodeID)          {}
func (plainPolicy) GaveWay(NodeID)           {}
func (plainPolicy) AnyOrder() bool           { return false }

// A nodePolicy takes the ready node that comes last, and keeps accounts.
type nodePolicy struct {
	plainPolicy
	t       *testing.T
	ready   map[NodeID]int
	total   int
	gone    int
	charged map[NodeID]int
	pick    func(ready map[NodeID]int) NodeID // nil: the highest number
	order   []NodeID
}

func (p *nodePolicy) Ready(n NodeID) { p.ready[n]++; p.total++ }

func (p *nodePolicy) Gone(n NodeID, k int) {
	p.ready[n] -= k
	p.gone += k
	if p.ready[n] < 0 || k < 0 {
		p.t.Errorf("%d tasks of node %d are gone, %d too many", k, n, -p.ready[n])
	}
}

func (p *nodePolicy) Next() (NodeID, bool) {
	var nodes []NodeID
	for n, k := range p.ready {
		if k > 0 {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		p.t.Error("Next while nothing is ready")
		return NodeStart, true
	}
	n := slices.Max(nodes)
	if p.pick != nil {
		n = p.pick(p.ready)
	}
	p.ready[n]--
	p.order = append(p.order, n)
	return n, true
}

func (p *nodePolicy) Charge(n NodeID, cycles uint64) { p.charged[n]++ }

// A reasonObserver makes every reason a node, and checks the sequence of events of
// every task:
//
//	Resumed (Parked Ready? Resumed)* Finished, without Ready after a yield
type reasonObserver struct {
	DeafObserver
	t      *testing.T
	state  map[*Task]string
	counts map[string]int
}

func newReasonObserver(t *testing.T) *reasonObserver {
	return &reasonObserver{t: t, state: map[*Task]string{}, counts: map[string]int{}}
}

func (o *reasonObserver) move(k *Task, event string, from ...string) {
	if !slices.Contains(from, o.state[k]) {
		o.t.Errorf("task %v: %s after %q", k, event, o.state[k])
	}
	o.state[k] = event
	o.counts[event]++
}

func (o *reasonObserver) Parked(k *Task, why Reason, fingerprint uint64) NodeID {
	if fingerprint == 0 {
		o.t.Error("no fingerprint")
	}
	o.move(k, "parked", "resumed")
	if why == ReasonYield {
		o.state[k] = "ready"
	}
	return NodeID(why)
}
func (o *reasonObserver) Ready(k *Task)   { o.move(k, "ready", "parked") }
func (o *reasonObserver) Resumed(k *Task) { o.move(k, "resumed", "", "ready") }
func (o *reasonObserver) Finished(k *Task) {
	o.move(k, "finished", "resumed")
	delete(o.state, k)
}

func TestObserverSeesAWellFormedLife(t *testing.T) {
	for _, loops := range []int{1, 2} {
		observers := make([]*reasonObserver, loops)
		rt := newRuntime(t, loops, panicsPass, func(c *Config) {
			c.NewObserver = func(l *Loop) Observer {
				observers[l.Index()] = newReasonObserver(t)
				return observers[l.Index()]
			}
		})
		var mu Mutex
		everyone(t, rt, 12, func(i int) {
			if Current() == nil {
				return
			}
			w := Self() // woken before it parks: no wait at all
			w.Wake()
			w.Wait(ReasonRead, anywhere{})
			mu.Lock()
			Yield()
			mu.Unlock()
			k := Go(func() { w.Wake() })
			w.Wait(ReasonRead, anywhere{})
			k.Join()
			Offload(func() {})
			Sleep(1)
			Go(func() { Yield(); panic("boom") })
			Go(func() { Yield(); runtime.Goexit() })
		})
		rt.Close()
		for _, o := range observers {
			testenv.Equal(t, len(o.state), 0, "tasks never finished")
			if o.counts["parked"] == 0 || o.counts["finished"] == 0 {
				t.Errorf("saw %v", o.counts)
			}
		}
	}
}

func TestPolicyChoosesTheOrder(t *testing.T) {
	var p *nodePolicy
	rt := newRuntime(t, 1, func(c *Config) {
		c.NewObserver = func(*Loop) Observer { return newReasonObserver(t) }
		c.NewPolicy = func(*Loop) Policy {
			p = &nodePolicy{t: t, ready: map[NodeID]int{}, charged: map[NodeID]int{}}
			return p
		}
	})
	var order []string
	run(t, rt, func() {
		var waiters []*Waiter
		var wg WaitGroup
		wait := func(why Reason) func() {
			return func() {
				w := Self()
				waiters = append(waiters, w)
				w.Wait(why, anywhere{})
				order = append(order, why.String())
			}
		}
		wg.Go(wait(ReasonCond))
		wg.Go(wait(ReasonSemaphore))
		wg.Go(wait(ReasonCond))
		until(func() bool { return len(waiters) == 3 })
		wg.Go(func() { order = append(order, "new") })
		waiters[0].Wake()
		waiters[2].Wake()
		waiters[1].Wake()
		wg.Wait()
	})
	// The node numbers are the reasons: semaphore after cond after start.
	testenv.EqualSlices(t, order, []string{"semaphore", "cond", "cond", "new"}, "order")
	rt.Close()
	if len(p.charged) == 0 {
		t.Error("nothing was charged")
	}
}

func TestOldestOfNodeStartRunsFirstUnderAPolicy(t *testing.T) {
	rt := newRuntime(t, 1, func(c *Config) {
		c.NewPolicy = func(*Loop) Policy {
			return &nodePolicy{t: t, ready: map[NodeID]int{}, charged: map[NodeID]int{}}
		}
	})
	run(t, rt, func() {
		ran, before := false, 0
		var wg WaitGroup
		var successor func()
		successor = func() { // each is new, too
			if before++; !ran && before < 100 {
				wg.Go(successor)
			}
		}
		wg.Go(successor)
		GoOn(CurrentLoop(), func() { ran = true })
		wg.Wait()
		testenv.AtMost(t, before, 3, "a task bound to the loop let N new ones go before")
	})
}

func TestPolicyIsToldOfStolenTasks(t *testing.T) {
	policies := make([]*nodePolicy, 2)
	rt := newRuntime(t, 2, func(c *Config) {
		c.NewPolicy = func(l *Loop) Policy {
			policies[l.Index()] = &nodePolicy{t: t, ready: map[NodeID]int{}, charged: map[NodeID]int{}}
			return policies[l.Index()]
		}
	})
	for range 30 {
		var ran, elsewhere atomic.Int32
		var all sync.WaitGroup
		all.Add(20)
		hog := GoOn(rt.Loop(0), func() {
			for range 20 {
				Go(func() {
					if CurrentLoop().Index() == 1 {
						elsewhere.Add(1)
					}
					ran.Add(1)
					all.Done()
				})
			}
			for elsewhere.Load() == 0 { // hold the loop until some are taken
			}
		})
		hog.Join()
		all.Wait()
	}
	rt.Close()
	for i, p := range policies {
		left := 0
		for _, n := range p.ready {
			left += n
		}
		testenv.Equal(t, left, 0, "loop %d: N tasks announced but neither taken nor gone", i)
	}
	if policies[0].gone == 0 {
		t.Log("no theft went through Gone: all were chosen before the message came")
	}
}

func TestPolicyThatNamesAnEmptyNode(t *testing.T) {
	l := new(Loop)
	l.setPolicy(func(*Loop) Policy {
		return &nodePolicy{t: t, ready: map[NodeID]int{0: 1}, pick: func(map[NodeID]int) NodeID { return 7 }}
	})
	l.queued = 1
	mustPanic(t, "a node where no task is ready", func() { l.pickByPolicy() })
}

// A cycle counter that goes back a little, from one processor to another, charges nothing.
func TestChargeWhenTheCounterGoesBack(t *testing.T) {
	p := &chargePolicy{}
	l := &Loop{runQueue: runQueue{policy: p, charging: true, chargeFrom: coro.Cycles() + 1<<40}}
	l.endStep()
	if len(p.charged) != 1 || p.charged[0] != 0 {
		t.Errorf("charged %v, want [0]", p.charged)
	}
	before := l.chargeFrom
	l.charging = true
	for coro.Cycles() <= before {
	}
	l.endStep()
	if got := p.charged[1]; got == 0 || got > 1<<40 {
		t.Errorf("charged %d for the next step", got)
	}
}

// A chargePolicy keeps what it is told of costs.
type chargePolicy struct {
	Policy
	charged []uint64
}

func (p *chargePolicy) Charge(_ NodeID, cycles uint64) { p.charged = append(p.charged, cycles) }

func TestWorkersThatSwitchThroughTheLoopArePlain(t *testing.T) {
	for _, hub := range []bool{false, true} {
		rt := newRuntime(t, 1, func(c *Config) { c.NoHandOver = hub })
		run(t, rt, func() {
			testenv.Equal(t, rt.Loop(0).cur.worker.Plain(), hub, "NoHandOver %v: plain", hub)
		})
	}
}
