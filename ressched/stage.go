package ressched

import (
	"errors"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// A Stage is an operation that tasks do one after another on shared data: an index, a log (Cohort Scheduling, section
// 3). Made by NewStage, once per program.
//
// It is exclusive: at most one task of the program is in it at a time, whatever the number of loops. With the
// schedulers cohort and resource, the tasks that wait for it run one after another on one loop, up to the size of a
// cohort at a time, while other loops do other work. So its lock is free when they take it, and its data is in the
// cache of one processor. With fifo it is a lock.
type Stage struct {
	name string
	mu   task.Mutex
}

// NewStage makes a stage. The name is that of its node in the blocking graph: stages of one name, which are
// exclusive each for itself, are one node. It is an error if the name is empty.
func NewStage(name string) (*Stage, error) {
	if name == "" {
		return nil, errors.New("ressched: a stage without name")
	}
	return &Stage{name: name}, nil
}

// Do runs fn in the stage: on the calling task, when the stage's turn has come. It parks until then. If
// fn itself parks, no other task runs in the stage until fn has returned. A plain goroutine waits for
// the stage's lock only.
func (s *Stage) Do(fn func()) {
	if l := engine.CurrentLoop(); l != nil {
		l.Runtime().NoteStage(s.name)
	}
	engine.YieldAt(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	engine.Outside(engine.CallPlain, fn)
}
