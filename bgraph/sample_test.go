package bgraph

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Keys of the sample's nodes.
const (
	sampleAccept  Key = 0x1f3a5c7e90b2d4f6
	sampleRead    Key = 0x2b4d6f8091a3c5e7
	sampleMutex   Key = 0x3c5e7f9102b4d6f8
	sampleRender  Key = 0x4d6f8a0213c5e7f9
	sampleOffload Key = 0x5e7f9b1324d6f80a
	sampleSleep   Key = 0x6f80ac2435e7f91b
	sampleWrite   Key = 0x7091bd3546f80a2c
	sampleRecv    Key = 0x81a2ce465709ab3d
	sampleDisk    Key = 0xf2b3df57681abc4e
)

var sampleTaken = time.Date(2026, time.March, 14, 3, 12, 45, 0, time.UTC)

// sampleSnapshot is the graph of a web shop of 2 loops after a minute under load: 1,021
// tasks wait for the lock of a session cache, a page is rendered in long steps now and
// then, and file descriptors are near their limit. What arrives at a node is the sum of
// the edges to it, what departs that of the edges from it. Every call makes it anew.
func sampleSnapshot() *Snapshot {
	s := &Snapshot{
		Program:   Program{Name: "shop", PID: 4711, Host: "web-3", Go: "go1.26.8", Started: sampleTaken.Add(-time.Minute)},
		Taken:     sampleTaken,
		Span:      Nanos(time.Minute),
		Sampling:  20,
		HeapEvery: 16,
		Loops: []LoopStat{
			{Index: 0, Tasks: 1893, Steps: 880_310},
			{Index: 1, Tasks: 1878, Steps: 871_203},
		},
		Resources: []Resource{
			{Name: "file descriptors", InUse: 3_771, Acquired: 44_211, Released: 40_440, Limit: 4_096},
			{Name: "connection buffers", Unit: "bytes", InUse: 15_433_728, Acquired: 181_075_968, Released: 165_642_240},
			{Name: "database connections", InUse: 32, Acquired: 40_000, Released: 39_968, Limit: 32},
		},
		Overflow: Overflow{MaxNodes: 4096, MaxEdges: 16384, Nodes: 12, Edges: 3},
		Sched:    sampleSched(),
	}
	s.Chunks = Chunks{Links: 88_410, Direct: 612_300, InPlace: 3, InUse: 65_536, Peak: 294_912, Most: 12}
	s.Crossings = []Crossing{
		{To: KeyStart, FromLoop: -1, ToLoop: 0, Count: 3},
		{To: sampleOffload, FromLoop: -1, ToLoop: 0, Count: 19_990},
		{To: sampleOffload, FromLoop: -1, ToLoop: 1, Count: 19_978},
		{From: sampleMutex, To: sampleMutex, FromLoop: 0, ToLoop: 1, Count: 61_203},
		{From: sampleMutex, To: sampleMutex, FromLoop: 1, ToLoop: 0, Count: 58_877},
		{From: sampleRender, To: sampleRecv, FromLoop: 1, ToLoop: 0, Count: 30_100},
	}
	s.Nodes = sampleNodes()
	s.Edges = sampleEdges()
	sampleFlow(s)
	s.Overruns = []Overrun{
		{From: sampleRender, To: sampleWrite, Task: "conn", Loop: 1, At: sampleTaken.Add(-41 * time.Second), Held: 18_400_000, Stack: sampleTrace},
		{From: sampleRender, To: sampleWrite, Task: "conn", Loop: 0, At: sampleTaken.Add(-3 * time.Second), Held: 31_700_000, Stack: sampleTrace},
	}
	return s
}

const sampleTrace = `goroutine 57 [running]:
example.com/shop/web.(*page).sortOffers(0xc0001a4000)
	/src/shop/web/page.go:212 +0x1a4
example.com/shop/web.(*page).render(0xc0001a4000, {0x7f21c0, 0xc0000b2000})
	/src/shop/web/page.go:91 +0x2f0
example.com/shop/web.(*conn).serve(0xc00012e000)
	/src/shop/web/conn.go:64 +0x88
`

const (
	sampleWeb = "example.com/shop/web."
	sampleOwn = "github.com/capriccio-go/capriccio/"
)

// sampleStack makes frames of "function file line offset", innermost first.
func sampleStack(calls ...string) []Frame {
	var out []Frame
	for i, call := range calls {
		file, line := "/src/shop/web/conn.go", 60+i*4
		if rest, ok := strings.CutPrefix(call, sampleOwn); ok {
			pkg, _, _ := strings.Cut(rest, ".")
			file, line = "/src/capriccio/"+pkg+"/"+pkg+".go", 120+i
		}
		out = append(out, Frame{Function: call, File: file, Line: line, Offset: 3 + i*2})
	}
	return out
}

func sampleNodes() []Node {
	serve, goFunc := sampleWeb+"(*conn).serve", sampleWeb+"(*Server).Run.func1"
	conn := func(calls ...string) []Frame { return sampleStack(append(calls, serve, goFunc)...) }
	sec, ms, µs := Nanos(time.Second), Nanos(time.Millisecond), Nanos(time.Microsecond)
	node := func(k Key, reason string, peak int64, oldest Nanos, wait, ready Times, stack []Frame) Node {
		return Node{Key: k, Reason: reason, Stack: stack, Peak: peak, Oldest: oldest, Wait: wait, Ready: ready}
	}
	nodes := []Node{
		node(KeyStart, "start", 96, 0, Times{}, sampleTimes(2_200, 21*µs, 1900*µs), nil),
		node(KeyEnd, "end", 0, 0, Times{}, Times{}, nil),
		node(KeyOverflow, "overflow", 1, 0, Times{}, Times{}, nil),
		node(sampleAccept, "accept", 2, 12*ms, sampleTimes(2_200, 1300*µs, 84*ms), sampleTimes(2_200, 9*µs, 850*µs),
			sampleStack(sampleOwn+"netpoll.(*Listener).Accept", sampleWeb+"(*Server).Run")),
		node(sampleRead, "read", 3_914, 29*sec, sampleTimes(23_000, 260*ms, 29*sec), sampleTimes(23_000, 55*µs, 32*ms),
			conn(sampleOwn+"netpoll.(*Conn).Read", "bufio.(*Reader).fill", "bufio.(*Reader).ReadSlice", sampleWeb+"(*conn).readHead")),
		node(sampleMutex, "mutex", 1_344, 910*ms, sampleTimes(22_700, 120*ms, 1020*ms), sampleTimes(22_700, 48*µs, 31*ms),
			conn(sampleOwn+"task.(*Mutex).Lock", sampleWeb+"(*sessions).find", sampleWeb+"(*conn).handle")),
		node(sampleRender, "yield", 211, 3*ms, sampleTimes(22_000, 0, 0), sampleTimes(22_000, 180*µs, 32*ms),
			conn(sampleOwn+"ressched.YieldAt", sampleWeb+"(*page).render", sampleWeb+"(*conn).handle")),
		node(sampleOffload, "offload", 402, 84*ms, sampleTimes(2_000, 11*ms, 240*ms), sampleTimes(2_000, 60*µs, 30*ms),
			conn(sampleOwn+"task.Offload", sampleWeb+"(*catalog).query", sampleWeb+"(*page).render", sampleWeb+"(*conn).handle")),
		node(sampleSleep, "sleep", 120, 48*ms, sampleTimes(1_000, 50*ms, 51*ms), sampleTimes(1_000, 75*µs, 29*ms),
			conn(sampleOwn+"task.Sleep", sampleWeb+"(*limiter).wait", sampleWeb+"(*conn).handle")),
		node(sampleWrite, "write", 233, 8*sec, sampleTimes(4_100, 2600*µs, 9*sec), sampleTimes(4_100, 52*µs, 31*ms),
			conn(sampleOwn+"netpoll.(*Conn).Writev", sampleWeb+"(*conn).reply", sampleWeb+"(*conn).handle")),
		node(sampleRecv, "channel receive", 1, 2*ms, sampleTimes(3_000, 19*ms, 160*ms), sampleTimes(3_000, 30*µs, 12*ms),
			sampleStack(sampleOwn+"task.(*Chan[...]).Recv", sampleWeb+"(*accessLog).drain")),
		node(sampleDisk, "disk", 1, 0, sampleTimes(3_000, 140*µs, 36*ms), sampleTimes(3_000, 28*µs, 9*ms),
			sampleStack(sampleOwn+"aio.(*File).Write", sampleWeb+"(*accessLog).flush", sampleWeb+"(*accessLog).drain")),
	}
	for i := range nodes {
		if nodes[i].Key == sampleRender {
			nodes[i].Label = "render page"
		}
	}
	return nodes
}

func sampleEdges() []Edge {
	µs, ms := Nanos(time.Microsecond), Nanos(time.Millisecond)
	edges := []Edge{
		sampleEdge(KeyStart, sampleAccept, 2, 14*µs, 15*µs, 5_120, 1, 0, 0),
		sampleEdge(KeyStart, sampleRead, 44_208, 9*µs, 310*µs, 2_304, 1, 4_096, 0),
		sampleEdge(KeyStart, sampleRecv, 1, 6*µs, 6*µs, 1_024, 1, 0, 0),
		sampleEdge(sampleAccept, sampleAccept, 44_208, 11*µs, 420*µs, 1_408, 0, 0, 0),
		sampleEdge(sampleRead, sampleMutex, 455_000, 5200, 380*µs, 96, 0, 0, 0),
		sampleEdge(sampleRead, KeyEnd, 38_100, 7*µs, 190*µs, 0, -1, -4_096, 0),
		sampleEdge(sampleRead, KeyOverflow, 12, 8*µs, 16*µs, 0, 0, 0, 0),
		sampleEdge(sampleMutex, sampleRender, 434_000, 1900, 210*µs, 240, 0, 0, 0),
		sampleEdge(sampleMutex, sampleSleep, 19_979, 1300, 90*µs, 48, 0, 0, 0),
		sampleEdge(sampleSleep, sampleRender, 19_933, 1600, 110*µs, 0, 0, 0, 0),
		sampleEdge(sampleRender, sampleRead, 372_100, 34*µs, 7*ms, 6_230, 0, 0, 0),
		sampleEdge(sampleRender, sampleWrite, 41_650, 92*µs, 33*ms, 18_400, 0, 0, 0),
		sampleEdge(sampleRender, sampleOffload, 40_000, 12*µs, 640*µs, 1_180, 0, 0, 1),
		sampleEdge(sampleOffload, sampleWrite, 39_968, 58*µs, 4*ms, 9_900, 0, 0, -1),
		sampleEdge(sampleWrite, sampleRead, 79_200, 4*µs, 160*µs, 0, 0, 0, 0),
		sampleEdge(sampleWrite, KeyEnd, 2_340, 6*µs, 140*µs, 0, -1, -4_096, 0),
		sampleEdge(KeyOverflow, sampleWrite, 12, 20*µs, 41*µs, 0, 0, 0, 0),
		sampleEdge(sampleRecv, sampleDisk, 60_400, 3*µs, 88*µs, 512, 0, 0, 0),
		sampleEdge(sampleDisk, sampleRecv, 60_400, 800, 61*µs, 0, 0, 0, 0),
	}
	for i := range edges {
		if edges[i].From == sampleRender && edges[i].To == sampleWrite {
			edges[i].Overruns = 2
		}
	}
	slices.SortFunc(edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return edges
}

// sampleEdge makes an edge whose steps take about mean, worst at most, allocate heap
// bytes each, and take a number of descriptors, bytes of buffers and database connections.
func sampleEdge(from, to Key, count uint64, mean, worst Nanos, heap int64, changes ...int64) Edge {
	e := Edge{From: from, To: to, Count: count, CPU: sampleTimes(max(count/20, 1), mean, worst)}
	e.Recent = Moments{Mean: float64(e.CPU.Mean()) * 1.02, Variance: float64(mean) * float64(mean) * 0.09}
	if steps := count / 320; heap != 0 && steps > 0 {
		e.Heap = Change{Steps: steps, Sum: heap * int64(steps), Recent: Moments{Mean: float64(heap), Variance: float64(heap) * 8}}
	}
	if slices.ContainsFunc(changes, func(c int64) bool { return c != 0 }) {
		for _, c := range changes {
			e.Changes = append(e.Changes, Change{Steps: count, Sum: c * int64(count), Recent: Moments{Mean: float64(c)}})
		}
	}
	return e
}

// sampleTimes makes count durations around typical of which the longest is worst: three
// quarters in the bucket of typical, the others fewer and fewer towards worst.
func sampleTimes(count uint64, typical, worst Nanos) Times {
	t := Times{Count: count, Max: worst, Hist: make(Histogram, BucketOf(worst)+1)}
	at, left := BucketOf(typical), count
	for b := at; b < len(t.Hist) && left > 0; b++ {
		n := max(left*3/4, 1)
		if b == len(t.Hist)-1 {
			n = left
			for above := at; above < b && n > 2; above++ { // the worst were few
				t.Hist[above] += n - 2
				n = 2
			}
		}
		t.Hist[b] += n
		left -= n
		t.Sum += Nanos(n) * max(min(BucketFrom(b)*4/3, worst), min(typical, worst))
	}
	if count == 1 {
		t.Hist[at], t.Hist[len(t.Hist)-1], t.Sum = 0, 1, worst
	}
	return t
}

// sampleFlow fills in what follows from the edges: arrivals and departures of the nodes,
// which tasks are there now, and each loop's half of it.
func sampleFlow(s *Snapshot) {
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Key, b.Key) })
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, e := range s.Edges {
			if e.To == n.Key {
				n.Arrivals += e.Count
			}
			if e.From == n.Key {
				n.Departures += e.Count
			}
		}
		switch n.Key {
		case KeyStart:
			n.Arrivals = n.Departures
		case KeyEnd:
			n.Departures = n.Arrivals
		default:
			n.Now = int64(n.Arrivals - n.Departures)
		}
		half := NodeLoop{Loop: 1, Now: n.Now / 2, Peak: n.Peak / 2, Arrivals: n.Arrivals / 2, Departures: n.Arrivals/2 - uint64(n.Now/2)}
		n.Loops = []NodeLoop{
			{Loop: 0, Now: n.Now - half.Now, Peak: n.Peak - half.Peak, Arrivals: n.Arrivals - half.Arrivals, Departures: n.Departures - half.Departures},
			half,
		}
	}
}

func sampleSched() *Sched {
	return &Sched{
		Policy: "resource", Admitted: 44_208, Deferred: 310, Refused: 17,
		Resources: []SchedResource{
			{Name: "cpu", Utilisation: 0.87, Trend: 0.012, State: "rising"},
			{Name: "file descriptors", Utilisation: 0.92, Trend: 0.004, State: "at limit"},
			{Name: "heap", Utilisation: 0.31, Trend: -0.002, State: "low"},
		},
		Nodes: []SchedNode{
			{Key: sampleAccept, Loop: 0, Priority: -0.8, Tickets: 10, Pass: 918_220, Ready: 1, Held: "file descriptors at limit"},
			{Key: sampleRead, Loop: 0, Priority: 0.4, Tickets: 140, Pass: 884_019, Ready: 6},
			{Key: sampleMutex, Loop: 0, Priority: 0.1, Tickets: 110, Pass: 884_133, Ready: 2, Cohorts: 20_010, Ran: 219_900},
			{Key: sampleRender, Loop: 0, Priority: 0.2, Tickets: 120, Pass: 884_102, Ready: 31, Cohorts: 14_020, Ran: 221_700},
			{Key: sampleWrite, Loop: 0, Priority: 0.9, Tickets: 190, Pass: 884_007, Ready: 0},
		},
	}
}
