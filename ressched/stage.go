package ressched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// A Stage is an operation that tasks come to one after another, and that shares what it works
// on: an index, a log (Cohort Scheduling, section 3). Made by NewStage, once per program.
//
// It is exclusive: at most one task of the program is in it at a time, whatever the number
// of loops. With the schedulers cohort and resource, tasks that have come to it are run one
// after another on one loop, as many at a time as there are up to the size of a cohort,
// while other loops do other work: so its lock is free when they take it, and what it works on is
// in the cache of one processor. With fifo it is a lock.
type Stage struct {
	name     string
	mu       task.Mutex
	settings stageSettings

	gate   task.Mutex
	open   *task.Cond // on gate: enough has become false
	enough bool       // guarded by gate
}

// stageSettings are what the scheduler asks of a Stage.
type stageSettings struct {
	waiting int              // guarded by settingsMu: see SetThresholds
	longest time.Duration    // guarded by settingsMu
	order   []*stageSettings // guarded by settingsMu: see OrderStages
}

var settingsMu sync.Mutex

// Thresholds implements engine.Stage.
func (s *stageSettings) Thresholds() (waiting int, longest time.Duration) {
	settingsMu.Lock()
	defer settingsMu.Unlock()
	return s.waiting, s.longest
}

// Rank implements engine.Stage.
func (s *stageSettings) Rank() int {
	settingsMu.Lock()
	defer settingsMu.Unlock()
	return slices.Index(s.order, s) + 1
}

// NewStage makes a stage. The name is that of its node in the blocking graph: stages of one name, which are
// exclusive each for itself, are one node. It is an error if the name is empty.
func NewStage(name string) (*Stage, error) {
	if name == "" {
		return nil, errors.New("task: a stage without name")
	}
	s := &Stage{name: name}
	s.open = task.NewCond(&s.gate)
	return s, nil
}

// Do runs fn in the stage: on the calling task, when the stage's turn has come. It parks until then. If
// fn itself parks, no other task runs in the stage until fn has returned. A plain goroutine waits for
// the stage's lock only.
func (s *Stage) Do(fn func()) {
	if l := engine.CurrentLoop(); l != nil {
		l.Runtime().NoteStage(s.name, &s.settings)
	}
	engine.YieldAt(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	engine.Outside(engine.CallPlain, fn)
}

// SetThresholds says when the scheduler cohort puts the stage in between although it is the turn of
// others: when more than waiting tasks wait there, or one has waited for longer than longest; 0 for
// either is the scheduler's own threshold (Cohort Scheduling, section 3.1). The cohort that is
// interrupted goes on after that; one that interrupts is not interrupted itself. It must be
// called before tasks come to the stage. Other schedulers take no notice. It never parks.
func (s *Stage) SetThresholds(waiting int, longest time.Duration) {
	settingsMu.Lock()
	defer settingsMu.Unlock()
	s.settings.waiting, s.settings.longest = max(waiting, 0), max(longest, 0)
}

// OrderStages says in which order the scheduler cohort is to visit these stages, forwards and backwards
// in turn (Cohort Scheduling, section 4.1.2). Without it, or for stages that are not in it, that follows from
// where tasks have gone from where, which is learned as the program runs; what lies between the
// stages keeps the place that it has by that. It must be called before tasks come to the stages. Another
// call with one of them replaces the order in which that was. Other schedulers take no notice. The error names a stage that is there twice. It
// never parks.
func OrderStages(stages ...*Stage) error {
	settingsMu.Lock()
	defer settingsMu.Unlock()
	order := make([]*stageSettings, len(stages))
	for i, s := range stages {
		if slices.Contains(order[:i], &s.settings) {
			return fmt.Errorf("ressched: the stage %q is in the order twice", s.name)
		}
		order[i] = &s.settings
	}
	for _, s := range order {
		for _, other := range s.order {
			other.order = nil
		}
	}
	for _, s := range order {
		s.order = order
	}
	return nil
}

// Enough records whether the stage has enough to do: while it has, a
// caller of Invoke for it waits (Cohort Scheduling, section 3.1). It is mostly called by the
// stage's own operations, may be called from anywhere, and never parks for long.
func (s *Stage) Enough(enough bool) {
	s.gate.Lock()
	s.enough = enough
	if !enough {
		s.open.Broadcast()
	}
	s.gate.Unlock()
}

// Children are operations that a task has started in stages, and that it waits for together
// (Cohort Scheduling, section 3.2). The zero value has none. It must not be copied after first
// use.
type Children struct{ left task.WaitGroup }

// Wait parks until all of them are done: once, however many they are. It does not end when the
// calling task is cancelled.
func (c *Children) Wait() { c.left.Wait() }

// A Result is what an operation returns. It is made by Invoke.
type Result[T any] struct {
	value T
	err   error
}

// Get returns what the operation has returned. It must not be called before Wait of its
// Children has returned. There is an error if the operation did not return: it panicked and the
// runtime's panic handler let that pass, or the runtime was shut down.
func (r *Result[T]) Get() (T, error) { return r.value, r.err }

// Invoke starts an operation in a stage, as a task of its own that runs fn when it is its turn,
// and goes on: c.Wait waits for it and the other children of c. It parks only while the stage
// has Enough, and then returns the error of the calling task's context if that ends; nothing
// has been started in that case.
func Invoke[T any](c *Children, s *Stage, fn func() T) (*Result[T], error) {
	s.gate.Lock()
	for s.enough {
		if err := s.open.WaitContext(context.Background()); err != nil {
			s.gate.Unlock()
			return nil, err
		}
	}
	s.gate.Unlock()
	r := &Result[T]{err: fmt.Errorf("task: an operation of stage %q has not returned", s.name)}
	c.left.Add(1)
	t, err := engine.Spawn(engine.Options{Name: s.name, Dropped: c.left.Done}, func() {
		defer c.left.Done()
		s.Do(func() {
			r.value = engine.Outside(engine.Call, fn)
			r.err = nil
		})
	})
	if err != nil {
		if t == nil { // else it was dropped
			c.left.Done()
		}
		return nil, err
	}
	return r, nil
}
