package graphview

import (
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
)

// words are what a kind of graph is about. In the texts of findings {task}, {tasks}, {loop}
// and {loops} stand for them.
type words struct {
	task, tasks string            // what waits
	loop, loops string            // what it runs on
	advice      map[string]string // by check, where the advice differs
}

func wordsOf(s *bgraph.Snapshot) words {
	if s.Kind == bgraph.KindGoroutines {
		return words{"goroutine", "goroutines", "P", "Ps", goroutineAdvice}
	}
	return words{"task", "tasks", "loop", "loops", nil}
}

var goroutineAdvice = map[string]string{
	CheckLongStep:   "While it computes it has a P for itself, 10 ms at a time. Look at it with a CPU profile; do less per request, or bound how many such goroutines run at a time.",
	CheckSaturated:  "There is more to do than the Ps can: raise GOMAXPROCS or the CPU limit of the container, do less, or turn work away earlier.",
	CheckStarvation: "Either very many goroutines became ready at once, or a long step was in the way: see what ran meanwhile with go tool trace.",
}

func (w *words) fill(text string) string {
	capital := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	return strings.NewReplacer("{task}", w.task, "{tasks}", w.tasks, "{loop}", w.loop, "{loops}", w.loops,
		"{Task}", capital(w.task), "{Tasks}", capital(w.tasks), "{Loop}", capital(w.loop)).Replace(text)
}
