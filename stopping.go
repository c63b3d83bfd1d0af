package capriccio

import (
	"log/slog"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// stopPatience is how long after a signal Run may go on without a word.
var stopPatience = 5 * time.Second

const namedTasks = 5 // at most, that tellWaits names

// tellWaits logs what the tasks of rt wait for, the main one first, for the operator
// whose signal seems to do nothing. It blocks.
func tellWaits(rt *task.Runtime, log *slog.Logger) {
	var waits []string
	n := 0
	for _, t := range (*engine.Runtime)(rt).Tasks() {
		n++
		line := "\n  " + t.String()
		switch {
		case t.Name == "main":
			waits = append([]string{line}, waits[:min(len(waits), namedTasks-1)]...)
		case len(waits) < namedTasks:
			waits = append(waits, line)
		}
	}
	log.Info("capriccio: still stopping; a second signal ends the process at once", "tasks", n, "waits", strings.Join(waits, ""))
}
