package sched

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Each turn of a node is a cohort, of as many steps as were taken, whether one by one or several at a time.
func TestReportOfCohorts(t *testing.T) {
	for name, p := range map[string]Policy{"cohort": NewCohort(CohortConfig{}), "resource": NewResource(ResourceConfig{})} {
		for range 2 {
			for _, n := range []Node{2, 7, 2, 7, 2} {
				p.Count(n, 1)
			}
			for left := 5; left > 0; {
				n, steps, _ := p.Choose()
				steps = min(steps, 2)
				p.Ran(n, steps, 10, 0)
				left -= steps
			}
			p.Tick(time.Second)
		}
		var r Report
		p.Report(&r)
		testenv.Equal(t, r.Policy, name, "%T says it", p)
		got := map[Node]Turns{}
		for _, n := range r.Nodes {
			got[n.Node] = n.Turns
		}
		if got[2] != (Turns{2, 6}) || got[7] != (Turns{2, 4}) {
			t.Errorf("%s: %+v; want 2 cohorts of 3 at node 2, and of 2 at node 7", name, got)
		}
	}
}
