package capriccio

import (
	"slices"

	"github.com/capriccio-go/capriccio/task"
)

// Runs reports whether rt is among the runtimes that signals are for.
func Runs(rt *task.Runtime) bool {
	running.mu.Lock()
	defer running.mu.Unlock()
	return slices.ContainsFunc(running.all, func(m *member) bool { return m.rt == rt })
}
