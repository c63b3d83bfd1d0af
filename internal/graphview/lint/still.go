package lint

import (
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// stillLimit is how long a task must have waited for a lock for that to count while
// nothing else goes on in the program.
const stillLimit = 2 * time.Second

// heldWaits are for what another task holds.
var heldWaits = []string{"mutex", "rwmutex read", "rwmutex write", "once"}

// restWaits are the other waits that end only if a task does something, or by what begins
// new work. In all others something is under way: time, a disk, a client.
var restWaits = []string{"cond", "channel send", "channel receive", "join", "waitgroup", "semaphore", "select", "accept", "context", "start", "end"}

// deadlocked finds locks that are waited for while all tasks wait for each other or listen, and
// returns their nodes.
func (l *linter) deadlocked() map[bgraph.Key]bool {
	found := make(map[bgraph.Key]bool)
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		switch {
		case n.Reason == "running" && n.Arrivals > 0:
			return nil // of a trace: one computes
		case n.Now <= 0:
		case slices.Contains(heldWaits, n.Reason) && n.Oldest >= bgraph.Nanos(stillLimit):
			found[n.Key] = !l.foreign(n)
		case slices.Contains(restWaits, n.Reason) || l.isMain(n):
		default:
			return nil
		}
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if !found[n.Key] {
			continue
		}
		f := Finding{Severity: SeverityError, Check: CheckStuck, Node: n.Key}
		f.Message = fmt.Sprintf("It looks like a deadlock: %s of the {tasks} wait here, one for %v, and every other {task} waits for a {task} too, or for new clients.",
			words.Count(n.Now), n.Oldest)
		f.Advice = "The log names the tasks and what holds what they wait for. Take locks in the same order everywhere, and hold none across a wait for another task."
		l.add(float64(n.Oldest), f)
	}
	return found
}

// isMain reports whether the tasks at n have been there from the beginning, as a main
// function that has handed its wait for a signal to an ordinary goroutine.
func (l *linter) isMain(n *bgraph.Node) bool {
	return n.Reason == "offload" && n.Departures == 0 && n.Now == 1 && l.fromTheBeginning(n)
}

// fromTheBeginning reports whether a task has been at n for nearly as long as there is a graph.
func (l *linter) fromTheBeginning(n *bgraph.Node) bool {
	age := l.s.Span
	if l.s.Period {
		age = max(age, bgraph.Nanos(l.s.Taken.Sub(l.s.Program.Started)))
	}
	return n.Oldest >= age/10*9
}
