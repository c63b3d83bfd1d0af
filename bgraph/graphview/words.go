package graphview

import "github.com/capriccio-go/capriccio/bgraph"

// words are what a kind of graph is about.
type words struct {
	task, tasks string // what waits
	loop, loops string // what it runs on
}

func wordsOf(s *bgraph.Snapshot) words {
	if s.Kind == bgraph.KindGoroutines {
		return words{"goroutine", "goroutines", "P", "Ps"}
	}
	return words{"task", "tasks", "loop", "loops"}
}
