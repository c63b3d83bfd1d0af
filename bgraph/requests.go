package bgraph

import (
	"cmp"
	"slices"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A Request is a request that net/http served, or a task of package runtime/trace: one of the slowest.
type Request struct {
	Kind    string  `json:"kind"`              // "request" or "task"
	Name    string  `json:"name"`              // the function that handles it, or the type of the task
	Begun   Nanos   `json:"begun"`             // after the begin of the trace
	Took    Nanos   `json:"took"`              // as far as it is in the trace
	Earlier bool    `json:"earlier,omitempty"` // it began before the trace
	Open    bool    `json:"open,omitempty"`    // it had not ended when the trace did
	Visits  []Visit `json:"visits,omitempty"`  // in the order of time, each followed by what other goroutines did meanwhile
	Left    uint64  `json:"left,omitempty"`    // visits that found no room
}

// A Visit is a wait of a request and what its goroutine did after it, or several at one place, shortly one after the other. The times
// of visits add up to that of the request: what another goroutine did during a wait is no part of the wait.
type Visit struct {
	Node  Key    `json:"node"`        // need not be in the graph
	Depth int    `json:"depth"`       // 0: of the request's own goroutine; 1: of one that ended a wait of that, and so on
	Count uint64 `json:"count"`       // visits
	From  Nanos  `json:"from"`        // of the first, after the begin of the request
	Wait  Nanos  `json:"wait"`        // for what no goroutine has done, or none that is known
	Ready Nanos  `json:"ready"`       // until it ran
	Step  Nanos  `json:"step"`        // running, in short system calls and the like, until the next wait
	By    Frame  `json:"by,omitzero"` // what ended the longest wait; no function: the network, or time
}

// Total is all of it.
func (v *Visit) Total() Nanos { return addNanos(v.Step, addNanos(v.Wait, v.Ready)) }

// sortRequests brings the slowest requests into order, and within the limit.
func (s *Snapshot) sortRequests() {
	slices.SortStableFunc(s.Slowest, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Begun, b.Begun), cmp.Compare(a.Name, b.Name))
	})
	s.Slowest = s.Slowest[:min(len(s.Slowest), graphlimits.Slowest)]
}

func (s *Snapshot) checkRequests() error {
	err := checkLength("slowest", len(s.Slowest), graphlimits.Slowest)
	for i := range s.Slowest {
		r := &s.Slowest[i]
		err = first(err, nameRule.check("kind", r.Kind), nameRule.check("name", r.Name), checkNumber("begun", r.Begun), checkNumber("took", r.Took),
			checkCount("left", r.Left), checkLength("visits", len(r.Visits), graphlimits.Visits))
		for j := range r.Visits {
			v := &r.Visits[j]
			err = first(err, checkRange("depth", float64(v.Depth), 0, graphlimits.Visits), checkCount("count", v.Count), checkNumber("from", v.From),
				checkNumber("wait", v.Wait), checkNumber("ready", v.Ready), checkNumber("step", v.Step),
				nameRule.check("function", v.By.Function), nameRule.check("file", v.By.File), checkLine(v.By.Line), checkLine(v.By.Offset))
		}
	}
	return err
}

func cloneRequests(all []Request) []Request {
	out := slices.Clone(all)
	for i := range out {
		out[i].Visits = slices.Clone(out[i].Visits)
	}
	return out
}
