package words

import (
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestTheHeadlineExplainsTheCPU: how much CPU the process used and how much of that the graph explains, or that it is not known.
func TestTheHeadlineExplainsTheCPU(t *testing.T) {
	most := bgraph.CPUSamples{Steps: 61, Calls: 20, Collector: 12, Tracer: 3, Scheduler: 4}
	foreign := bgraph.CPUSamples{Steps: 50, Foreign: 50}
	for _, c := range []struct {
		used    time.Duration // in 2 s
		sampled bgraph.CPUSamples
		want    string
	}{
		{2680 * time.Millisecond, most, "the process used about 1.34 processors; the graph explains 93.0% of it: 61.0% in steps, 20.0% in system calls, 12.0% in the collector; 4.0% is the Go scheduler's; 3.0% is the tracer's"},
		{time.Second, foreign, "the process used about 0.50 processors; the graph explains 50.0% of it: 50.0% in steps, 0% in system calls, 0% in the collector; 50.0% is of threads that Go has not started"},
		{0, most, "a CPU profile beside the trace has 100 samples; the graph explains 93.0% of them: 61.0% in steps, 20.0% in system calls, 12.0% in the collector; 4.0% is the Go scheduler's; 3.0% is the tracer's"},
		{time.Second, bgraph.CPUSamples{Steps: 24}, "the process used about 0.50 processors; the CPU profile beside the trace has too few samples to tell in what: 24"},
		{time.Second, bgraph.CPUSamples{}, "the process used about 0.50 processors; in what is not known: no CPU profile ran beside the trace"},
		{0, bgraph.CPUSamples{}, "how much CPU the process used is not known: no CPU profile ran beside the trace"},
	} {
		s := &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: bgraph.Nanos(2 * time.Second), ProcessCPU: bgraph.Nanos(c.used), Sampled: c.sampled}
		if head := Head(s); !slices.Contains(head, c.want) {
			t.Errorf("got\n%q\nwant a line\n%s", head, c.want)
		}
	}
	tasks := &bgraph.Snapshot{Span: 1e9, Loops: make([]bgraph.LoopStat, 2), ProcessCPU: 1e9, CollectorCPU: 1e8, Edges: []bgraph.Edge{{Count: 1, CPU: bgraph.Times{Count: 1, Sum: 8e8}}}}
	testenv.Contains(t, Head(tasks)[1], "the process used 1.00s: 80.0% in steps, 10.0% in the collector", "the head of a graph of tasks")
}
