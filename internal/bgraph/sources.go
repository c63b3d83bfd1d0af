package bgraph

import (
	"cmp"
	"slices"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A Source is one of the processes whose graphs were added up: what is its own is lost in the sum.
type Source struct {
	Name   string        `json:"name"`              // that the reader gave the process
	Failed string        `json:"failed,omitempty"`  // why the process has no part in the graph
	Skew   Nanos         `json:"skew_ns,omitempty"` // by how much its clock is ahead, if that is more than the time of asking
	Span   Nanos         `json:"span_ns"`           // the time that its counts cover
	Tasks  int64         `json:"tasks"`             // there at the end, goroutines too
	Steps  uint64        `json:"steps"`             // in Span
	CPU    Nanos         `json:"cpu_ns"`            // of these steps
	Places []SourcePlace `json:"places,omitempty"`  // where its tasks are more often than those of the other processes, the most first
}

// A SourcePlace is where tasks of a Source wait.
type SourcePlace struct {
	Node   Key     `json:"node"`   // key of the place
	Share  float64 `json:"share"`  // of the time of all its tasks, 0 to 1
	Others float64 `json:"others"` // the median of the other processes
}

func (s *Snapshot) checkSources() error {
	err := checkLength("sources", len(s.Sources), graphlimits.Sources)
	for i := range s.Sources {
		from := &s.Sources[i]
		err = cmp.Or(err, nameRule.check("name", from.Name), nameRule.check("failed", from.Failed), checkRange("skew_ns", float64(from.Skew), -graphlimits.Number, graphlimits.Number),
			checkNumber("span_ns", from.Span), checkNumber("tasks", from.Tasks), checkCount("steps", from.Steps), checkNumber("cpu_ns", from.CPU),
			checkLength("places", len(from.Places), graphlimits.Places))
		for _, p := range from.Places {
			err = cmp.Or(err, checkRange("share", p.Share, 0, 1), checkRange("others", p.Others, 0, 1))
		}
	}
	return err
}

func cloneSources(all []Source) []Source {
	out := slices.Clone(all)
	for i := range out {
		out[i].Places = slices.Clone(out[i].Places)
	}
	return out
}
