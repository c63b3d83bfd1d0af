package words

import (
	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// Terms are the nouns of a kind of graph, in lower case.
type Terms struct {
	Task, Tasks string // what waits
	Loop, Loops string // what it runs on
}

// TermsOf returns the terms of s: tasks on loops, or goroutines on Ps.
func TermsOf(s *bgraph.Snapshot) Terms {
	if s.Kind == bgraph.KindGoroutines {
		return Terms{"goroutine", "goroutines", "P", "Ps"}
	}
	return Terms{"task", "tasks", "loop", "loops"}
}
