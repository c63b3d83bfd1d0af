package export

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// WriteJSON writes the Snapshot as indented JSON for people and programs. Lists are
// never null, and times are in UTC; the names are those in the struct tags of Snapshot.
// Figures that are no numbers (NaN) are an error. It does not park.
func WriteJSON(w io.Writer, s *bgraph.Snapshot) error {
	out := *s
	out.Taken, out.Program.Started = s.Taken.UTC(), s.Program.Started.UTC()
	out.Loops, out.Resources, out.Overruns = orEmpty(s.Loops), orEmpty(s.Resources), orEmpty(s.Overruns)
	out.Nodes = append([]bgraph.Node{}, s.Nodes...)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.Stack, n.Loops = orEmpty(n.Stack), orEmpty(n.Loops)
		n.Wait.Hist, n.Ready.Hist = orEmpty(n.Wait.Hist), orEmpty(n.Ready.Hist)
	}
	out.Edges = append([]bgraph.Edge{}, s.Edges...)
	for i := range out.Edges {
		out.Edges[i].CPU.Hist = orEmpty(out.Edges[i].CPU.Hist)
	}
	if s.Sched != nil {
		sched := *s.Sched
		sched.Resources, sched.Nodes = orEmpty(sched.Resources), orEmpty(sched.Nodes)
		out.Sched = &sched
	}
	text, err := json.MarshalIndent(&out, "", "  ")
	if err != nil {
		return fmt.Errorf("bgraph: JSON: %w", err)
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func orEmpty[S ~[]E, E any](list S) S {
	if list == nil {
		return S{}
	}
	return list
}
