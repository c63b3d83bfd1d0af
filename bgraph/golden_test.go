package bgraph

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// sampleSnapshot is the graph of a web shop of 2 loops after a minute under load: 1,021 tasks wait for the lock of a
// session cache, a page is rendered in long steps now and then, and file descriptors are near their limit.
func sampleSnapshot() *Snapshot {
	s, err := ReadFile("../internal/graphcases/sample.bgraph")
	if err != nil {
		panic(err)
	}
	return s
}

// The sample keeps what every graph of a collector keeps: what came in went out or is
// still there, and the loops' parts add up.
func TestSampleAddsUp(t *testing.T) {
	s := sampleSnapshot()
	testenv.Golden(t, "../../internal/graphcases/sample.bgraph", encoded(t, s))
	var tasks, waiting int64
	for _, l := range s.Loops {
		tasks += l.Tasks
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Now < 0 || n.Now > n.Peak && n.Key > KeyOverflow {
			t.Errorf("%s: %d now, peak %d", n.Name(), n.Now, n.Peak)
		}
		if i > 0 && s.Nodes[i-1].Key >= n.Key {
			t.Errorf("nodes not in order at %s", n.Name())
		}
		var sum NodeLoop
		for _, l := range n.Loops {
			sum.Now, sum.Arrivals, sum.Departures, sum.Peak = sum.Now+l.Now, sum.Arrivals+l.Arrivals, sum.Departures+l.Departures, sum.Peak+l.Peak
		}
		if want := (NodeLoop{Now: n.Now, Arrivals: n.Arrivals, Departures: n.Departures, Peak: n.Peak}); sum != want {
			t.Errorf("%s: loops add up to %+v, want %+v", n.Name(), sum, want)
		}
		for _, times := range []Times{n.Wait, n.Ready} {
			checkSampleTimes(t, n.Name(), times)
		}
		waiting += n.Now
	}
	testenv.Equal(t, waiting, tasks, "tasks wait, of those on the loops")
	for i := range s.Edges {
		e := &s.Edges[i]
		if s.Node(e.From) == nil || s.Node(e.To) == nil {
			t.Errorf("edge %v to %v: no such node", e.From, e.To)
		}
		checkSampleTimes(t, s.NameOf(e.From)+" → "+s.NameOf(e.To), e.CPU)
	}
}

func checkSampleTimes(t *testing.T, of string, times Times) {
	t.Helper()
	var sum uint64
	for _, n := range times.Hist {
		sum += n
	}
	if sum != times.Count || times.Mean() > times.Max || len(times.Hist) > buckets.Count {
		t.Errorf("%s: %+v does not fit together (histogram holds %d)", of, times, sum)
	}
}
