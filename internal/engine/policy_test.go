package engine

import (
	"cmp"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A plainPolicy is the part of a policy that says nothing of costs and order; others are made of it.
type plainPolicy struct{}

func (plainPolicy) Ran(recorder.NodeID, int, uint64, Outcome) {}
func (plainPolicy) Tick(time.Duration)                        {}
func (plainPolicy) NewestFirst() bool                         { return false }
func (plainPolicy) AnyOrder() bool                            { return false }

// A nodePolicy takes tasks of the ready node that comes last, keeps accounts, and checks the order of the calls.
type nodePolicy struct {
	t      *testing.T
	ready  map[recorder.NodeID]int
	gone   int
	cycles uint64                                              // of a batch; 0: any
	most   int                                                 // tasks of a batch; 0: 1
	pick   func(ready map[recorder.NodeID]int) recorder.NodeID // nil: the highest number

	newest, lenient, hold bool // NewestFirst, AnyOrder, and whether all tasks are held back

	open     bool // there is a batch
	node     recorder.NodeID
	steps    int
	longest  int // tasks that have run in a batch
	ran      map[recorder.NodeID]int
	outcomes map[Outcome][]recorder.NodeID
}

func newNodePolicy(t *testing.T) *nodePolicy {
	return &nodePolicy{t: t, ready: map[recorder.NodeID]int{}, ran: map[recorder.NodeID]int{}, outcomes: map[Outcome][]recorder.NodeID{}}
}

func (p *nodePolicy) Count(n recorder.NodeID, k int) {
	p.ready[n] += k
	if k < 0 {
		p.gone -= k
	}
	if p.ready[n] < 0 {
		p.t.Errorf("%d tasks of node %d are gone, %d too many", -k, n, -p.ready[n])
	}
}

func (p *nodePolicy) NewestFirst() bool { return p.newest }

func (p *nodePolicy) AnyOrder() bool { return p.lenient }

func (p *nodePolicy) Choose() (recorder.NodeID, int, uint64) {
	p.closed("Choose")
	if p.hold {
		return 0, 0, 0
	}
	n := recorder.NodeNone
	for m, k := range p.ready {
		if k > 0 && (n == recorder.NodeNone || m > n) {
			n = m
		}
	}
	if n == recorder.NodeNone {
		p.t.Error("Choose while nothing is ready")
		return recorder.NodeStart, 1, 1
	}
	if p.pick != nil {
		n = p.pick(p.ready)
	}
	p.open, p.node, p.steps = true, n, max(p.most, 1)
	return n, p.steps, cmp.Or(p.cycles, ^uint64(0))
}

func (p *nodePolicy) Ran(n recorder.NodeID, tasks int, cycles uint64, o Outcome) {
	if p.open {
		if n != p.node || tasks == 0 && n != recorder.NodeStart || tasks > p.steps || tasks > p.ready[n] {
			p.t.Errorf("%d tasks of node %d have run after %d of node %d were chosen, with %d ready", tasks, n, p.steps, p.node, p.ready[n])
		}
	} else if tasks > 0 {
		p.t.Errorf("%d tasks of node %d have run although none was chosen", tasks, n)
	}
	p.open = false
	p.ready[n] -= tasks
	p.longest = max(p.longest, tasks)
	p.ran[n] += tasks
	for _, each := range []Outcome{WokenForNothing, GaveWay} {
		if o&each != 0 {
			p.outcomes[each] = append(p.outcomes[each], n)
		}
	}
}

func (p *nodePolicy) Tick(time.Duration) { p.closed("Tick") }

func (p *nodePolicy) closed(call string) {
	if p.open {
		p.t.Errorf("%s while there is a batch", call)
	}
}

// A reasonPolicy shows a policy the reason of the waits at a node in place of the node, or a greater number if there is
// another node with that reason. NodeStart remains.
type reasonPolicy struct {
	Policy
	g      *recorder.Graph
	number map[recorder.NodeID]recorder.NodeID // by node
	node   map[recorder.NodeID]recorder.NodeID // by number
}

// sameReason is by how much the numbers of two nodes with the same reason differ.
const sameReason = 100

// byReason has c learn a graph, and the policies that newPolicy makes see reasons.
func byReason(c *Config, newPolicy func(*Loop) Policy) {
	c.Graph = recorder.New(recorder.Config{})
	c.NewPolicy = func(l *Loop) Policy {
		start := map[recorder.NodeID]recorder.NodeID{recorder.NodeStart: recorder.NodeStart}
		return &reasonPolicy{Policy: newPolicy(l), g: c.Graph, number: start, node: maps.Clone(start)}
	}
}

func (p *reasonPolicy) of(n recorder.NodeID) recorder.NodeID {
	if r, ok := p.number[n]; ok {
		return r
	}
	reason := p.g.Snapshot().Node(p.g.Key(n)).Reason
	r := ReasonNone
	for r.String() != reason {
		r++
	}
	number := recorder.NodeID(r)
	for p.node[number] != recorder.NodeStart {
		number += sameReason
	}
	p.number[n], p.node[number] = number, n
	return number
}

func (p *reasonPolicy) Choose() (recorder.NodeID, int, uint64) {
	n, steps, cycles := p.Policy.Choose()
	return p.node[n], steps, cycles
}

func (p *reasonPolicy) Count(n recorder.NodeID, k int) { p.Policy.Count(p.of(n), k) }
func (p *reasonPolicy) Ran(n recorder.NodeID, tasks int, cycles uint64, o Outcome) {
	p.Policy.Ran(p.of(n), tasks, cycles, o)
}

// nodeOf is the node where a task of l waits for that reason.
func nodeOf(l *Loop, why Reason) recorder.NodeID {
	for t := l.roster.tasks; t != nil; t = t.allNext {
		if t.state == stateParked && t.why == why {
			return t.Node()
		}
	}
	return recorder.NodeNone
}

// Each wait is recorded once, and so is its end, whatever ends it; also of tasks that panic or end themselves.
func TestLivesAreRecordedWhole(t *testing.T) {
	for _, loops := range []int{1, 2} {
		g := newGraph()
		rt := newRuntime(t, loops, panicsPass, learn(g))
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
		waits := wholeLives(t, g)
		for _, why := range []Reason{ReasonYield, ReasonMutex, ReasonRead, ReasonOffload, ReasonSleep} {
			testenv.AtLeast(t, waits[why.String()], 1, "waits for %v", why)
		}
	}
}

// wholeLives checks that all waits and tasks have ended, and returns how many waits there were for each reason.
func wholeLives(t *testing.T, g *recorder.Graph) map[string]uint64 {
	t.Helper()
	s := g.Snapshot()
	waits := map[string]uint64{}
	for _, n := range s.Nodes {
		testenv.Equal(t, n.Departures, n.Arrivals, "%s: N departures, not as many as arrivals", n.Name())
		waits[n.Reason] += n.Arrivals
	}
	ended := s.Node(bgraph.KeyEnd).Arrivals
	testenv.AtLeast(t, ended, 1, "tasks that have ended")
	testenv.Equal(t, ended, s.Node(bgraph.KeyStart).Departures, "tasks that have ended, not as many as have started")
	return waits
}

func TestPolicyChoosesTheOrder(t *testing.T) {
	var p *nodePolicy
	rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, false, 0))
	var order []string
	run(t, rt, func() {
		reasons := []Reason{ReasonCond, ReasonSemaphore, ReasonCond}
		why := func(i int) Reason { return reasons[i] }
		var wg WaitGroup
		waiters := parkEach(&wg, 3, why, func(i int) { order = append(order, why(i).String()) })
		wg.Go(func() { order = append(order, "new") })
		wake(waiters[0], waiters[2], waiters[1])
		wg.Wait()
	})
	// The node numbers are the reasons: semaphore after cond after start.
	testenv.EqualSlices(t, order, []string{"semaphore", "cond", "cond", "new"}, "order")
	rt.Close()
	testenv.Equal(t, p.ran[recorder.NodeID(ReasonCond)], 2, "tasks of node cond that have run, by what the policy is told")
}

func TestOldestOfNodeStartRunsFirstUnderAPolicy(t *testing.T) {
	rt := newRuntime(t, 1, policy(func() Policy { return newNodePolicy(t) }))
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
			policies[l.Index()] = newNodePolicy(t)
			return policies[l.Index()]
		}
	})
	for range 30 {
		var elsewhere atomic.Int32
		var all sync.WaitGroup
		all.Add(20)
		hog := GoOn(rt.Loop(0), func() {
			for range 20 {
				Go(func() {
					if CurrentLoop().Index() == 1 {
						elsewhere.Add(1)
					}
					all.Done()
				})
			}
			spinUntil(func() bool { return elsewhere.Load() > 0 }) // until some are taken
		})
		hog.Join()
		all.Wait()
	}
	for i := range policies { // a loop may end before it counts the tasks that another loop has taken last
		l, told := rt.Loop(i), make(chan struct{})
		l.Post(func() { l.TellPolicy(); close(told) })
		<-told
	}
	rt.Close()
	for i, p := range policies {
		left := 0
		for _, n := range p.ready {
			left += n
		}
		testenv.Equal(t, left, 0, "loop %d: N tasks announced but neither taken nor gone", i)
	}
}

func TestPolicyThatNamesAnEmptyNode(t *testing.T) {
	l := new(Loop)
	l.setPolicy(func(*Loop) Policy {
		p := newNodePolicy(t)
		p.pick = func(map[recorder.NodeID]int) recorder.NodeID { return 7 }
		return p
	})
	l.enqueue(new(Task))
	testenv.MustPanic(t, "a node where no task is ready", func() { l.chooseBatch() })
}

// A cycle counter that goes back a little, from one processor to another, charges nothing.
func TestChargeWhenTheCounterGoesBack(t *testing.T) {
	p := &chargePolicy{}
	l := &Loop{plugs: plugs{policy: p}}
	l.batch.begin(1, 0, 1)
	l.batch.from = coro.Cycles() + 1<<40
	l.endBatch()
	testenv.EqualSlices(t, p.charged, []uint64{0}, "charged")
	l.batch.begin(1, 0, 1)
	for before := l.batch.from; coro.Cycles() <= before; {
	}
	l.endBatch()
	testenv.AtLeast(t, p.charged[1], 1, "charged for the next step")
	testenv.AtMost(t, p.charged[1], 1<<40, "charged for the next step")
}

// A chargePolicy keeps what it is told of costs.
type chargePolicy struct {
	Policy
	charged []uint64
}

func (p *chargePolicy) Ran(_ recorder.NodeID, _ int, cycles uint64, _ Outcome) {
	p.charged = append(p.charged, cycles)
}

func TestWorkersThatSwitchThroughTheLoopArePlain(t *testing.T) {
	for _, hub := range []bool{false, true} {
		rt := newRuntime(t, 1, func(c *Config) { c.NoHandOver = hub })
		run(t, rt, func() {
			testenv.Equal(t, rt.Loop(0).cur.worker.Plain(), hub, "NoHandOver %v: plain", hub)
		})
	}
}

// The policy hears of a task that yields again and again at one place, also within a batch, but not of one
// that yields elsewhere or waits.
func TestPolicyHearsOfYields(t *testing.T) {
	for _, most := range []int{0, 4} {
		var p *nodePolicy
		rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, most))
		for name, does := range map[string]func(int){
			"nothing": func(int) {},
			"yields":  func(int) { Yield() },
			"yields and sleeps": func(i int) {
				if i%2 == 0 {
					Yield()
				} else {
					Sleep(1)
				}
			},
		} {
			run(t, rt, func() {
				delete(p.outcomes, GaveWay)
				var wg WaitGroup
				wg.Go(func() {
					for i := range 10 {
						does(i)
					}
				})
				wg.Wait()
				gave := p.outcomes[GaveWay]
				if name != "yields" {
					testenv.Equal(t, len(gave), 0, "%s, batches of %d: nodes that gave way", name, most)
				} else if len(gave) < 2 || gave[0] != recorder.NodeID(ReasonYield) {
					t.Errorf("batches of %d: %v gave way, want node %d", most, gave, ReasonYield)
				}
			})
		}
	}
}
