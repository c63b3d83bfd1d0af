package bgraph

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestValidateAcceptsTheSamples(t *testing.T) {
	for _, s := range []*Snapshot{{}, smallSnapshot(), sampleSnapshot(), docExample()} {
		testenv.Check(t, s.Validate())
	}
}

// changes are what can be done to a Snapshot, and what Validate says of it. If it is "",
// it is still valid; if it is "text", Encode puts it right.
var changes = []struct {
	want  string
	spoil func(s *Snapshot)
}{
	{"taken is in the year", func(s *Snapshot) { s.Taken = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
	{"program.started is in the year", func(s *Snapshot) { s.Program.Started = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) }},
	{"program.pid is -1", func(s *Snapshot) { s.Program.PID = -1 }},
	{"span_ns is -1", func(s *Snapshot) { s.Span = -1 }},
	{"sampling is -1", func(s *Snapshot) { s.Sampling = -1 }},
	{"heap_every is -1", func(s *Snapshot) { s.HeapEvery = -1 }},
	{"overflow.max_nodes is -1", func(s *Snapshot) { s.Overflow.MaxNodes = -1 }},
	{"overflow.max_edges is -1", func(s *Snapshot) { s.Overflow.MaxEdges = -1 }},
	{"overflow.nodes is 18446744073709551615", func(s *Snapshot) { s.Overflow.Nodes = math.MaxUint64 }},
	{"overflow.edges is 18446744073709551615", func(s *Snapshot) { s.Overflow.Edges = math.MaxUint64 }},
	{"loops: 65537 is too many", func(s *Snapshot) { s.Loops = make([]LoopStat, graphlimits.Loops+1) }},
	{"loops[0]: index is -1", func(s *Snapshot) { s.Loops[0].Index = -1 }},
	{"loops[0]: index: 65536 is too many", func(s *Snapshot) { s.Loops[0].Index = graphlimits.Loops }},
	{"loops[0]: tasks is -1", func(s *Snapshot) { s.Loops[0].Tasks = -1 }},
	{"loops[0]: steps is", func(s *Snapshot) { s.Loops[0].Steps = 1<<62 + 1 }},
	{"loops[1]: index 0 comes after 0", func(s *Snapshot) { s.Loops = append(s.Loops, s.Loops[0]) }},
	{"loops[1]: up to here, steps of loops add up", func(s *Snapshot) {
		s.Loops[0].Steps = 1 << 62
		s.Loops = append(s.Loops, LoopStat{Index: 1, Steps: 1 << 62})
	}},
	{"resources: 65 is too many", func(s *Snapshot) { s.Resources = make([]Resource, graphlimits.Resources+1) }},
	{"resources[0]: acquired is", func(s *Snapshot) { s.Resources[0].Acquired = 1<<62 + 1 }},
	{"resources[0]: released is", func(s *Snapshot) { s.Resources[0].Released = 1<<62 + 1 }},
	{"resources[0]: in_use is", func(s *Snapshot) { s.Resources[0].InUse = -1<<62 - 1 }},
	{"resources[0]: limit is -1", func(s *Snapshot) { s.Resources[0].Limit = -1 }},
	{"nodes: 65537 is too many", func(s *Snapshot) { s.Nodes = make([]Node, graphlimits.Nodes+1) }},
	{"nodes[0] (0000000000000000): no node has the key 0", func(s *Snapshot) { s.Nodes[0].Key = 0 }},
	{"nodes[1] (0000000000000001): it comes after 0000000000000001", func(s *Snapshot) { s.Nodes[1].Key = KeyStart }},
	{"ascending order", func(s *Snapshot) { s.Nodes[1], s.Nodes[2] = s.Nodes[2], s.Nodes[1] }},
	{"now is -1", func(s *Snapshot) { s.Nodes[1].Now = -1 }},
	{"peak is -1", func(s *Snapshot) { s.Nodes[1].Peak = -1 }},
	{"arrivals is", func(s *Snapshot) { s.Nodes[1].Arrivals = 1<<62 + 1 }},
	{"departures is", func(s *Snapshot) { s.Nodes[1].Departures = 1<<62 + 1 }},
	{"skew_ns is -9.2", func(s *Snapshot) { s.Sources = []Source{{Skew: math.MinInt64}} }},
	{"depth is 65", func(s *Snapshot) { s.Slowest = []Span{{Kind: "request", Path: []PathPart{{Depth: 65}}}} }},
	{"timeline: 129 is too many", func(s *Snapshot) {
		s.Slowest = []Span{{Kind: "request", Timeline: make([]PathPart, graphlimits.Timeline+1)}}
	}},
	{"wait is -1", func(s *Snapshot) { s.Slowest = []Span{{Kind: "request", Timeline: []PathPart{{Wait: -1}}}} }},
	{"slowest: 101 is too many", func(s *Snapshot) { s.Slowest = make([]Span, graphlimits.Slowest+1) }},
	{"share is 1.5", func(s *Snapshot) { s.Sources = []Source{{Places: []SourcePlace{{Share: 1.5}}}} }},
	{"cpu_ns is -1", func(s *Snapshot) { s.Starts = []Start{{CPU: -1}} }},
	{"oldest is -1", func(s *Snapshot) { s.Nodes[1].Oldest = -1 }},
	{"wait: count is", func(s *Snapshot) { s.Nodes[1].Wait.Count = 1<<62 + 1 }},
	{"wait: sum is -1", func(s *Snapshot) { s.Nodes[1].Wait.Sum = -1 }},
	{"wait: max is -1", func(s *Snapshot) { s.Nodes[1].Wait.Max = -1 }},
	{"ready: max is 9223372036854775807", func(s *Snapshot) { s.Nodes[1].Ready.Max = math.MaxInt64 }},
	{"hist", func(s *Snapshot) { s.Nodes[1].Wait.Hist = make([]uint64, buckets.Count+1) }},
	{"wait: up to here, counts of hist add up", func(s *Snapshot) { s.Nodes[1].Wait.Hist = []uint64{1 << 62, 1 << 62} }},
	{"up to here, arrivals at nodes", func(s *Snapshot) { s.Nodes[1].Arrivals, s.Nodes[2].Arrivals = 1<<62, 1<<62 }},
	{"up to here, departures", func(s *Snapshot) { s.Nodes[1].Departures, s.Nodes[2].Departures = 1<<62, 1<<62 }},
	{"up to here, tasks at nodes", func(s *Snapshot) { s.Nodes[1].Now, s.Nodes[2].Now = 1<<62, 1<<62 }},
	{"up to here, peaks", func(s *Snapshot) { s.Nodes[1].Peak, s.Nodes[2].Peak = 1<<62, 1<<62 }},
	{"up to here, waits", func(s *Snapshot) { s.Nodes[1].Wait.Count, s.Nodes[2].Wait.Count = 1<<62, 1<<62 }},
	{"up to here, ready", func(s *Snapshot) { s.Nodes[1].Ready.Count, s.Nodes[2].Ready.Count = 1<<62, 1<<62 }},
	{"stack", func(s *Snapshot) { s.Nodes[1].Stack = make([]Frame, graphlimits.Frames+1) }},
	{"stack[1]: line is -1", func(s *Snapshot) { s.Nodes[1].Stack[1].Line = -1 }},
	{"stack[1]: offset is -", func(s *Snapshot) { s.Nodes[1].Stack[1].Offset = math.MinInt32 }},
	{"loops[0]: loop 7 is not among the 1 loops", func(s *Snapshot) { s.Nodes[1].Loops[0].Loop = 7 }},
	{"loops[0]: now is -1", func(s *Snapshot) { s.Nodes[1].Loops[0].Now = -1 }},
	{"loops[0]: peak is -1", func(s *Snapshot) { s.Nodes[1].Loops[0].Peak = -1 }},
	{"loops[0]: arrivals is", func(s *Snapshot) { s.Nodes[1].Loops[0].Arrivals = 1<<62 + 1 }},
	{"loops[0]: departures is", func(s *Snapshot) { s.Nodes[1].Loops[0].Departures = 1<<62 + 1 }},
	{"loops[1]: loop 0 comes after 0", func(s *Snapshot) { s.Nodes[1].Loops = append(s.Nodes[1].Loops, s.Nodes[1].Loops[0]) }},
	{"edges: 262145 is too many", func(s *Snapshot) { s.Edges = make([]Edge, graphlimits.Edges+1) }},
	{"there is no node 0000000000000007", func(s *Snapshot) { s.Edges[0].From = 7 }},
	{"there is no node ffffffffffffffff", func(s *Snapshot) { s.Edges[1].To = math.MaxUint64 }},
	{"edges[1]", func(s *Snapshot) { s.Edges[0], s.Edges[1] = s.Edges[1], s.Edges[0] }},
	{"ascending order", func(s *Snapshot) { s.Edges[1] = s.Edges[0] }},
	{"count is", func(s *Snapshot) { s.Edges[1].Count = 1<<62 + 1 }},
	{"overruns is", func(s *Snapshot) { s.Edges[1].Overruns = 1<<62 + 1 }},
	{"cpu: sum is -5", func(s *Snapshot) { s.Edges[1].CPU.Sum = -5 }},
	{"recent: mean is NaN", func(s *Snapshot) { s.Edges[1].Recent.Mean = math.NaN() }},
	{"recent: mean is -Inf", func(s *Snapshot) { s.Edges[1].Recent.Mean = math.Inf(-1) }},
	{"recent.mean is -1", func(s *Snapshot) { s.Edges[1].Recent.Mean = -1 }},
	{"recent: mean is 1e+30", func(s *Snapshot) { s.Edges[1].Recent.Mean = 1e30 }},
	{"recent: variance is -1", func(s *Snapshot) { s.Edges[1].Recent.Variance = -1 }},
	{"recent: variance is 1e+300", func(s *Snapshot) { s.Edges[1].Recent.Variance = 1e300 }},
	{"heap: steps is", func(s *Snapshot) { s.Edges[1].Heap.Steps = 1<<62 + 1 }},
	{"heap: sum is", func(s *Snapshot) { s.Edges[1].Heap.Sum = math.MinInt64 }},
	{"heap: recent: variance is +Inf", func(s *Snapshot) { s.Edges[1].Heap.Recent.Variance = math.Inf(1) }},
	{"changes: 2 is too many; at most 1", func(s *Snapshot) { s.Edges[1].Changes = make([]Change, 2) }},
	{"changes: sum is", func(s *Snapshot) { s.Edges[1].Changes[0].Sum = math.MaxInt64 }},
	{"changes: steps is", func(s *Snapshot) { s.Edges[1].Changes[0].Steps = 1<<62 + 1 }},
	{"up to here, steps", func(s *Snapshot) { s.Edges[0].Count, s.Edges[1].Count = 1<<62, 1<<62 }},
	{"up to here, overruns", func(s *Snapshot) { s.Edges[0].Overruns, s.Edges[1].Overruns = 1<<62, 1<<62 }},
	{"up to here, CPU times", func(s *Snapshot) { s.Edges[0].CPU.Sum, s.Edges[1].CPU.Sum = 1<<62, 1<<62 }},
	{"up to here, bytes allocated", func(s *Snapshot) { s.Edges[0].Heap.Sum, s.Edges[1].Heap.Sum = 1<<62, -1<<62 }},
	{"up to here, changes of a resource", func(s *Snapshot) {
		s.Edges[0].Changes = []Change{{Sum: 1 << 62}}
		s.Edges[1].Changes[0].Sum = -1 << 62
	}},
	{"overruns: 33 is too many", func(s *Snapshot) { s.Overruns = make([]Overrun, graphlimits.Overruns+1) }},
	{"crossings: 262145 is too many", func(s *Snapshot) { s.Crossings = make([]Crossing, graphlimits.Edges+1) }},
	{"crossings[0]: loop 1 is not among", func(s *Snapshot) { s.Crossings = []Crossing{{To: KeyStart, ToLoop: 1}} }},
	{"crossings[0]: loop -2 is not among", func(s *Snapshot) { s.Crossings = []Crossing{{To: KeyStart, FromLoop: -2}} }},
	{"crossings[0]: there is no node 0000000000000000", func(s *Snapshot) { s.Crossings = []Crossing{{FromLoop: -1}} }},
	{"crossings[0]: there is no node 0000000000000009", func(s *Snapshot) { s.Crossings = []Crossing{{From: 9, To: KeyStart}} }},
	{"crossings[0]: count is", func(s *Snapshot) { s.Crossings = []Crossing{{To: KeyStart, Count: 1<<62 + 1}} }},
	{"crossings[1]: 0000000000000000 to 0000000000000001 comes after", func(s *Snapshot) { s.Crossings = []Crossing{{To: KeyStart}, {To: KeyStart}} }},
	{"crossings[1]: up to here, counts of crossings", func(s *Snapshot) {
		s.Crossings = []Crossing{{To: KeyStart, FromLoop: -1, Count: 1 << 62}, {To: KeyStart, Count: 1 << 62}}
	}},
	{"chunks.links is", func(s *Snapshot) { s.Chunks.Links = 1<<62 + 1 }},
	{"sampled.foreign is", func(s *Snapshot) { s.Sampled.Foreign = 1<<62 + 1 }},
	{"chunks.in_use is -1", func(s *Snapshot) { s.Chunks.InUse = -1 }},
	{"overflow.wakes is 18446744073709551615", func(s *Snapshot) { s.Overflow.Wakes = math.MaxUint64 }},
	{"sched.nodes[0]: cohorts is", func(s *Snapshot) { s.Sched.Nodes[0].Cohorts = 1<<62 + 1 }},
	{"sched.nodes[0]: ran is", func(s *Snapshot) { s.Sched.Nodes[0].Ran = 1<<62 + 1 }},
	{"overruns[0]: loop 1 is not among", func(s *Snapshot) { s.Overruns[0].Loop = 1 }},
	{"overruns[0]: held is -1", func(s *Snapshot) { s.Overruns[0].Held = -1 }},
	{"overruns[0]: at is in the year", func(s *Snapshot) { s.Overruns[0].At = time.Date(1e6, 1, 1, 0, 0, 0, 0, time.UTC) }},
	{"sched.admitted", func(s *Snapshot) { s.Sched.Admitted = 1<<62 + 1 }},
	{"sched.deferred", func(s *Snapshot) { s.Sched.Deferred = 1<<62 + 1 }},
	{"sched.refused", func(s *Snapshot) { s.Sched.Refused = 1<<62 + 1 }},
	{"sched.refusals", func(s *Snapshot) { s.Sched.Refusals = make([]SchedRefusal, graphlimits.Resources+1) }},
	{`sched.refusals[1]: the cause "x" is there twice`, func(s *Snapshot) { s.Sched.Refusals = []SchedRefusal{{"x", 2}, {"x", 1}} }},
	{"sched.refusals[0]: count", func(s *Snapshot) { s.Sched.Refusals = []SchedRefusal{{Count: 1<<62 + 1}} }},
	{"sched.resources", func(s *Snapshot) { s.Sched.Resources = make([]SchedResource, graphlimits.Resources+1) }},
	{"sched.nodes", func(s *Snapshot) { s.Sched.Nodes = make([]SchedNode, graphlimits.Edges+1) }},
	{"sched.resources[0]: utilisation is -0.5", func(s *Snapshot) { s.Sched.Resources[0].Utilisation = -0.5 }},
	{"sched.resources[0]: trend is NaN", func(s *Snapshot) { s.Sched.Resources[0].Trend = math.NaN() }},
	{"sched.nodes[0]: priority is NaN", func(s *Snapshot) { s.Sched.Nodes[0].Priority = math.NaN() }},
	{"sched.nodes[0]: tickets is -1", func(s *Snapshot) { s.Sched.Nodes[0].Tickets = -1 }},
	{"sched.nodes[0]: ready is -1", func(s *Snapshot) { s.Sched.Nodes[0].Ready = -1 }},
	{"sched.nodes[0]: loop -1 is not among", func(s *Snapshot) { s.Sched.Nodes[0].Loop = -1 }},
	{"sched.nodes[1]: 0000000000000001 on loop 0 comes after", func(s *Snapshot) { s.Sched.Nodes = append(s.Sched.Nodes, SchedNode{Key: KeyStart}) }},
	{"sched.nodes[1]: ", func(s *Snapshot) { s.Sched.Nodes = append(s.Sched.Nodes, s.Sched.Nodes[0]) }},
	{"", func(s *Snapshot) { s.Resources[0].InUse = -1 }},
	{"", func(s *Snapshot) { s.Nodes[1].Departures = s.Nodes[1].Arrivals + 1 }},
	{"", func(s *Snapshot) { s.Nodes[1].Wait.Sum, s.Nodes[2].Wait.Sum = 1<<62, 1<<62 }},
	{"", func(s *Snapshot) { s.Nodes[1].Stack[1].Offset = -3 }},
	{"", func(s *Snapshot) { s.Overruns[0].From = 99 }},
	{"", func(s *Snapshot) { s.Edges[1].Count = 1 << 61 }}, // of which few were timed
	{"", func(s *Snapshot) { s.Resources, s.Edges[1].Changes = nil, nil }},
	{"text", func(s *Snapshot) { s.Nodes[1].Label = strings.Repeat("x", graphlimits.Text+1) }},
	{"text", func(s *Snapshot) { s.Nodes[1].Stack[0].Function = "\x1b" }},
	{"text", func(s *Snapshot) { s.Overruns[0].Stack = strings.Repeat("\n", graphlimits.Stack+1) }},
}

// What is invalid is refused by Validate, Encode and, if JSON can express it, Decode.
func TestValidateRefuses(t *testing.T) {
	for _, c := range changes {
		s := smallSnapshot()
		c.spoil(s)
		err := s.Validate()
		if c.want == "text" {
			testenv.Fails(t, err, "valid: %+v", s)
			encoded(t, s)
			continue
		}
		if c.want == "" {
			testenv.Check(t, err, "refused")
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bgraph: ") {
			t.Errorf("error %v; want one with %q", err, c.want)
		}
		var b bytes.Buffer
		if err := s.Encode(&b); err == nil || b.Len() > 0 {
			t.Errorf("%s: encoded into %d bytes, error %v", c.want, b.Len(), err)
		}
		elements := len(s.Loops) + len(s.Nodes) + len(s.Edges) + len(s.Crossings) + len(s.Sched.Nodes)
		if elements > graphlimits.Nodes && !testenv.Full() {
			continue // megabytes of JSON; TestListsAreBoundedBeforeTheyAreDecoded has lists like these
		}
		if foreign, err := json.Marshal(s); err == nil {
			testenv.Fails(t, testenv.Err(Decode(strings.NewReader(dumpTitle+"1\n"+string(foreign)))), "%s: decoded", c.want)
		}
	}
	testenv.Fails(t, (*Snapshot)(nil).Validate(), "nil is valid")
}
