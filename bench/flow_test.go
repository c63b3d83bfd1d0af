package main

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/google/pprof/profile"
)

func TestPhasesGoUpAndDown(t *testing.T) {
	p := phases{10 * time.Second, 2 * time.Second, 5 * time.Second, 100, 300, 2}
	for at, want := range map[time.Duration]float64{
		0: 100, 10 * time.Second: 100, 11 * time.Second: 200, 12 * time.Second: 300, 17 * time.Second: 300, 18 * time.Second: 200,
		19 * time.Second: 100, 30 * time.Second: 200,
	} {
		testenv.Equal(t, p.rate(at), want, "a second after %v", at)
	}
	testenv.Equal(t, p.length(), 48*time.Second, "length")
}

func TestSharesOfAFlowGraph(t *testing.T) {
	stack := func(value int64, names ...string) *profile.Sample {
		s := &profile.Sample{Value: []int64{1, value}}
		for _, name := range names {
			s.Location = append(s.Location, &profile.Location{Line: []profile.Line{{Function: &profile.Function{Name: name}}}})
		}
		return s
	}
	const flow = "github.com/capriccio-go/capriccio/flow."
	got := valuesOf(flowShares(&profile.Profile{Sample: []*profile.Sample{
		stack(10, "runtime.mallocgc", flow+"(*Instance[go.shape.int]).put", flow+"(*Out[go.shape.int]).Send", "main.run"),
		stack(20, "github.com/capriccio-go/capriccio/internal/adapt.(*Sizer).Served", flow+"(*Instance[...]).done"),
		stack(30, "os.put", "main.run"),
		stack(40, flow+"(*Vars[...]).Of", "main.run"),
	}}))
	for metric, want := range map[string]float64{"enqueue": 10, "statistics": 20, "give-back": 0, "per-flow": 40, "all": 70} {
		testenv.Equal(t, got[metric], want, "%s in %%", metric)
	}
}
