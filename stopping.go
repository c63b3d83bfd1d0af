package capriccio

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// stopPatience is how long a stop may take before the log says what tasks wait for.
var stopPatience = 5 * time.Second

const namedTasks = 5 // tasks that tellWaits names at most

// A stopping watches over a Run whose context has ended.
type stopping struct {
	rt       *task.Runtime
	log      *slog.Logger
	advice   string // of the log, what else to do
	patience time.Duration
	grace    time.Duration
	returned chan struct{} // closed when the runtime has ended
	watched  chan struct{} // closed when watch has returned
	deadlock string        // what main and others wait for; written before watched is closed
}

func newStopping(o *options, rt *task.Runtime) *stopping {
	s := &stopping{rt: rt, log: o.log(), patience: stopPatience, grace: o.cfg.Grace}
	if s.grace == 0 {
		s.grace = time.Second
	}
	if !o.noStop {
		s.advice = "; a second signal ends the process at once"
	}
	s.returned, s.watched = make(chan struct{}), make(chan struct{})
	return s
}

// watch tells what tasks wait for if the end takes long, and ends the runtime if main is in a deadlock.
func (s *stopping) watch() {
	defer close(s.watched)
	var seen string // of the last look
	for next, told := s.patience, false; ; told = true {
		select {
		case <-s.returned:
			return
		case <-time.After(next):
		}
		if !told {
			s.tellWaits()
		}
		now := (*engine.Runtime)(s.rt).DeadlockOf("main")
		if now != "" && now == seen {
			s.deadlock = now
			s.rt.Close()
			return
		}
		if seen, next = now, s.patience; now != "" {
			next = s.grace
		}
	}
}

// end returns the error of Run; err is that of the runtime. unwatched: watch has not begun.
func (s *stopping) end(unwatched bool, err error) error {
	close(s.returned)
	if unwatched {
		return err
	}
	<-s.watched
	if s.deadlock != "" {
		return errors.Join(fmt.Errorf("capriccio: the main task was in a deadlock when it was to stop, which has ended it: %s", s.deadlock), s.rt.Close())
	}
	return err
}

// tellWaits logs what the tasks wait for, the main one first, for the operator
// whose signal seems to do nothing. It blocks.
func (s *stopping) tellWaits() {
	var waits []string
	n := 0
	for _, t := range (*engine.Runtime)(s.rt).Tasks() {
		n++
		line := t.String()
		switch {
		case t.Name == "main":
			waits = append([]string{line}, waits[:min(len(waits), namedTasks-1)]...)
		case len(waits) < namedTasks:
			waits = append(waits, line)
		}
	}
	s.log.Info("capriccio: still stopping"+s.advice, "tasks", n, "waits", strings.Join(waits, "; "))
}
