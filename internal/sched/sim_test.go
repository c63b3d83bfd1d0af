package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A simLoop simulates one loop: tasks walk over the nodes of a graph, take and give back
// resources on the way, sometimes wait for something outside; a policy chooses which runs.
// What is known of the nodes is learned while it runs.
type simLoop struct {
	rng       *rand.Rand
	policy    Policy
	ledger    *admit.Ledger
	admission *admit.Admission
	resources []admit.ResourceID
	limits    []float64
	nodes     []simNode
	edges     map[[2]Node]*learnedEdge
	learned   []Prediction

	now       time.Duration
	nextTick  time.Duration
	nextLook  time.Duration // at the resources
	nextLearn time.Duration
	sleeping  timeline[*simTask]
	used      []float64
	over      []time.Duration // since when used exceeds the limit; -1: it does not
	completed int
	batches   bool // of more than one task

	// What the tests look at.
	longestOver time.Duration
	worstOver   float64       // used, in parts of the limit
	longestWait time.Duration // of a node with ready tasks for one of them to run
	idle        time.Duration // while tasks were ready
}

type simNode struct {
	queue    []*simTask
	edges    []simEdge
	entrance bool
	gate     *admit.ConcurrencyLimit // of an entrance
	line     int                     // tasks of queue that were not let in: the policy does not know of them
	lastRun  time.Duration           // or since when there are ready tasks
}

type simEdge struct {
	to     Node
	weight float64
	cpu    time.Duration
	change []float64
	varied float64       // changes are uniform in 1-varied to 1+varied of change
	wait   time.Duration // outside, after the step
	pool   bool          // what is taken or given back belongs to all, not to the task
}

type simTask struct {
	node   Node
	held   []float64
	since  time.Duration // ready
	inside bool
}

type learnedEdge struct {
	count         float64
	sumCPU, sqCPU float64
	sum, square   []float64
}

// The end of a task is the node after the last.
func (s *simLoop) end() Node { return Node(len(s.nodes)) }

func newSimLoop(rng *rand.Rand, limits []float64, nodes []simNode) *simLoop {
	s := &simLoop{rng: rng, limits: limits, nodes: nodes, edges: map[[2]Node]*learnedEdge{}}
	s.ledger = admit.NewLedger()
	for i, limit := range limits {
		r, err := s.ledger.Add(admit.Spec{Name: fmt.Sprint("resource ", i), Limit: limit, Unknown: limit / 4})
		if err != nil {
			panic(err)
		}
		s.resources = append(s.resources, r)
		s.over = append(s.over, -1)
	}
	s.used = make([]float64, len(limits))
	s.admission = admit.NewAdmission(0, false, func(n int) *admit.ConcurrencyLimit { return nodes[n].gate })
	for n := range nodes {
		if nodes[n].entrance {
			nodes[n].gate = s.ledger.NewLimit("requests")
		}
	}
	s.policy = NewResource(ResourceConfig{Ledger: s.ledger, Predictions: func() []Prediction { return s.learned }})
	return s
}

func (s *simLoop) ready(t *simTask, n Node) {
	t.node, t.since = n, s.now
	nd := &s.nodes[n]
	if len(nd.queue) == 0 {
		nd.lastRun = s.now
	}
	nd.queue = append(nd.queue, t)
	s.policy.Count(n, 1)
}

// batch runs the tasks that the policy chooses. It reports false if these are none. Tasks at an entrance run one by one, as
// the loop decides on each.
func (s *simLoop) batch() bool {
	n, steps, cycles := s.policy.Choose()
	if steps == 0 {
		return false
	}
	if !s.batches || s.nodes[n].entrance {
		steps = 1
	}
	ran, began := 0, s.now
	end := min(s.now+time.Duration(min(cycles, uint64(time.Second))), s.nextTick)
	for ran == 0 || ran < steps && len(s.nodes[n].queue) > 0 && s.now < end {
		s.step(n)
		ran++
	}
	s.policy.Ran(n, ran, uint64(s.now-began), 0)
	return true
}

// run simulates a while. Every turn is 200 µs, or as long as something runs.
func (s *simLoop) run(d time.Duration) {
	for end := s.now + d; s.now < end; {
		for len(s.sleeping) > 0 && s.sleeping[0].at <= s.now {
			task := s.sleeping.pop()
			s.ready(task, task.node)
		}
		if s.now >= s.nextLook {
			s.look()
		}
		if s.now >= s.nextTick {
			s.policy.Tick(s.now)
			for n := range s.nodes {
				s.nextInLine(Node(n))
			}
			s.nextTick = s.now + 200*time.Microsecond
		}
		if !s.batch() {
			next := min(s.nextTick, s.nextLook)
			if len(s.sleeping) > 0 {
				next = min(next, s.sleeping[0].at)
			}
			if s.anyReady() {
				s.idle += max(next-s.now, 0)
			}
			s.now = max(next, s.now+1)
		}
	}
}

func (s *simLoop) anyReady() bool {
	for n := range s.nodes {
		if len(s.nodes[n].queue) > 0 {
			return true
		}
	}
	return false
}

// look lets the ledger see the resources, and learns.
func (s *simLoop) look() {
	s.nextLook = s.now + 10*time.Millisecond
	for i, r := range s.resources {
		s.ledger.Observe(s.now, r, s.used[i])
	}
	s.ledger.Tick(s.now)
	for n := range s.nodes {
		if nd := &s.nodes[n]; len(nd.queue) > 0 {
			s.longestWait = max(s.longestWait, s.now-nd.lastRun)
		}
	}
	if s.now < s.nextLearn {
		return
	}
	if s.nextLearn = s.now; s.now > 100*time.Millisecond {
		s.nextLearn += 100 * time.Millisecond
	}
	var edges []Edge
	for ends, e := range s.edges {
		edge := Edge{From: ends[0], To: ends[1], Count: e.count, CPU: momentsOf(e.count, e.sumCPU, e.sqCPU)}
		for i := range e.sum {
			edge.Changes = append(edge.Changes, momentsOf(e.count, e.sum[i], e.square[i]))
		}
		edges = append(edges, edge)
	}
	s.learned = Predict(edges, len(s.resources), func(n Node) bool { return n == s.end() || s.nodes[n].entrance })
	for n := range s.nodes {
		if g := s.nodes[n].gate; g != nil && n < len(s.learned) {
			g.SetDemand(s.learned[n].Peak)
		}
	}
}

func momentsOf(n, sum, square float64) admit.Moments {
	mean := sum / n
	return admit.Moments{Mean: mean, Variance: max(square/n-mean*mean, 0)}
}

// nextInLine has the policy choose one more of those that were not let in.
func (s *simLoop) nextInLine(n Node) {
	if nd := &s.nodes[n]; nd.line > 0 {
		nd.line--
		s.policy.Count(n, 1)
	}
}

// step runs the oldest task of n.
func (s *simLoop) step(n Node) {
	nd := &s.nodes[n]
	t := nd.queue[0]
	if nd.entrance {
		if s.admission.Next(s.now, int(n), &admit.QueueState{Waiting: len(nd.queue), Oldest: s.now - t.since}) == admit.Defer {
			nd.line++
			return
		}
		t.inside = true
		s.nextInLine(n)
	}
	s.longestWait = max(s.longestWait, s.now-nd.lastRun)
	nd.lastRun = s.now
	nd.queue = nd.queue[1:]
	e := s.choose(nd)
	cpu := time.Duration(float64(e.cpu) * (0.5 + s.rng.Float64()))
	s.now += cpu
	change := make([]float64, len(s.used))
	for r := range s.used {
		switch {
		case e.pool && r < len(e.change):
			change[r] = max(e.change[r], -s.used[r])
			s.use(r, change[r])
			continue
		case e.to == s.end(): // it gives everything back
			change[r] = -t.held[r]
		case r < len(e.change):
			change[r] = max(e.change[r]*(1+e.varied*(2*s.rng.Float64()-1)), -t.held[r])
		}
		t.held[r] += change[r]
		s.use(r, change[r])
	}
	s.learn(n, e.to, float64(cpu), change)
	switch {
	case e.to == s.end():
		s.completed++
		for entrance := range s.nodes { // closed loop: it comes again
			if t.inside && s.nodes[entrance].entrance {
				s.admission.Left(s.now, entrance)
				t.inside = false
				t.node = Node(entrance)
				break
			}
		}
		s.sleeping.push(s.now+e.wait, t)
	case e.wait > 0:
		t.node = e.to
		s.sleeping.push(s.now+e.wait, t)
	default:
		s.ready(t, e.to)
	}
}

func (s *simLoop) choose(nd *simNode) *simEdge {
	total := 0.0
	for i := range nd.edges {
		total += nd.edges[i].weight
	}
	x := s.rng.Float64() * total
	for i := range nd.edges {
		if x -= nd.edges[i].weight; x < 0 {
			return &nd.edges[i]
		}
	}
	return &nd.edges[len(nd.edges)-1]
}

func (s *simLoop) use(r int, change float64) {
	s.used[r] += change
	if s.used[r] <= s.limits[r]*1.000001 {
		s.over[r] = -1
		return
	}
	s.worstOver = max(s.worstOver, s.used[r]/s.limits[r])
	if s.over[r] < 0 {
		s.over[r] = s.now
	}
	s.longestOver = max(s.longestOver, s.now-s.over[r])
}

func (s *simLoop) learn(from, to Node, cpu float64, change []float64) {
	e := s.edges[[2]Node{from, to}]
	if e == nil {
		e = &learnedEdge{sum: make([]float64, len(change)), square: make([]float64, len(change))}
		s.edges[[2]Node{from, to}] = e
	}
	e.count++
	e.sumCPU += cpu
	e.sqCPU += cpu * cpu
	for r, c := range change {
		e.sum[r] += c
		e.square[r] += c * c
	}
}

// randomGraph makes a graph of requests: an entrance, nodes with edges that mostly lead
// forward, some back, and from everywhere a way to the end. Tasks take of resources
// early and late, give some back on the way, and all in the end.
func randomGraph(rng *rand.Rand, resources int) []simNode {
	nodes := make([]simNode, 3+rng.IntN(10))
	nodes[0].entrance = true
	for n := range nodes {
		for range 1 + rng.IntN(3) {
			to := n + 1 + rng.IntN(3)
			if n > 0 && rng.IntN(6) == 0 {
				to = 1 + rng.IntN(n)
			}
			e := simEdge{to: Node(min(to, len(nodes))), weight: 1 + rng.Float64()*9, cpu: time.Duration(2+rng.IntN(60)) * time.Microsecond, varied: rng.Float64() * 0.5}
			if rng.IntN(3) == 0 {
				e.wait = time.Duration(rng.IntN(5000)) * time.Microsecond
			}
			for range resources {
				c := 0.0
				switch rng.IntN(4) {
				case 0, 1:
					c = rng.Float64() * 10
				case 2:
					c = -rng.Float64() * 10
				}
				e.change = append(e.change, c)
			}
			nodes[n].edges = append(nodes[n].edges, e)
		}
		nodes[n].edges = append(nodes[n].edges, simEdge{to: Node(len(nodes)), weight: 0.5 + float64(n), cpu: 5 * time.Microsecond})
	}
	return nodes
}

// Bounds that hold for all random graphs. What a task holds in the end may be a third of
// a limit, and nothing is known in the beginning.
const (
	learning = 300 * time.Millisecond
	maxWait  = 100 * time.Millisecond // for a node with ready tasks
)

func TestRandomGraphs(t *testing.T) {
	eachSeed(t, 2000, func(t *testing.T, rng *rand.Rand) {
		resources := 1 + rng.IntN(3)
		limits := make([]float64, resources)
		for r := range limits {
			limits[r] = 200 + 2000*rng.Float64()
		}
		s := newSimLoop(rng, limits, randomGraph(rng, resources))
		s.batches = rng.IntN(2) == 0
		for range 20 + rng.IntN(400) {
			s.ready(&simTask{held: make([]float64, resources)}, 0)
		}
		check := func(longest time.Duration, most float64) {
			t.Helper()
			if s.longestOver > longest || s.worstOver > most {
				t.Errorf("a resource was over its limit for %v at a time, %.2f of it", s.longestOver, s.worstOver)
			}
			testenv.AtMost(t, s.longestWait, maxWait, "a node with ready tasks had to wait for")
			s.longestOver, s.worstOver = 0, 0
		}
		s.run(learning)
		check(100*time.Millisecond, 2.5)
		for window := range 2 {
			before := s.completed
			s.run(100 * time.Millisecond)
			if s.completed == before {
				t.Errorf("window %d: no task completed", window)
			}
			check(50*time.Millisecond, 1.6)
		}
	})
}

// Producers add to a pool for as long as they may, consumers take from it (Capriccio,
// section 5.3). There are more producers than consumers.
func TestProducersAndConsumers(t *testing.T) {
	const item, limit = 1.0, 1000.0
	for _, c := range []struct {
		name string
		wait time.Duration // of a consumer, after each item
		best float64       // items per second
	}{
		{"processor is scarce", 0, 1 / 40e-6},
		{"consumers are slow", time.Millisecond, 10 / 1.02e-3},
		{"consumers are very slow", 20 * time.Millisecond, 10 / 20.02e-3},
	} {
		cpu := 20 * time.Microsecond
		nodes := []simNode{{}, // nobody is ever at node 0
			{edges: []simEdge{{to: 1, weight: 1, cpu: cpu, change: []float64{item}, pool: true}}},
			{edges: []simEdge{{to: 2, weight: 1, cpu: cpu, change: []float64{-item}, pool: true, wait: c.wait}}},
		}
		s := newSimLoop(rand.New(rand.NewPCG(*seedFlag, 5)), []float64{limit}, nodes)
		for i := range 30 {
			s.ready(&simTask{held: []float64{0}}, Node(1+i%3/2))
		}
		s.run(time.Second)
		s.worstOver = 0
		least, most := limit, 0.0
		consumed := s.edges[[2]Node{2, 2}].count
		for range 500 {
			s.run(10 * time.Millisecond)
			least, most = min(least, s.used[0]), max(most, s.used[0])
		}
		rate := (s.edges[[2]Node{2, 2}].count - consumed) / 5
		t.Logf("%s: %.0f items per second of %.0f, pool %.0f to %.0f of %.0f, worst %.2f", c.name, rate, c.best, least, most, limit, s.worstOver)
		testenv.AtLeast(t, rate, 0.9*c.best, "%s: items per second", c.name)
		testenv.AtMost(t, s.worstOver, 1, "%s: the pool exceeded its limit, times", c.name)
		testenv.AtLeast(t, least, 0.5*limit, "%s: of %.0f the pool fell to", c.name, limit)
		testenv.AtMost(t, s.longestWait, 1200*time.Millisecond, "%s: a node was held for, longer than the floor", c.name)
	}
}
