package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
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
	name string
	mu   Mutex

	waiting int           // guarded by stages.mu: see SetThresholds
	longest time.Duration // likewise

	gate   Mutex
	open   *Cond // on gate: enough has become false
	enough bool  // guarded by gate
}

// MaxStages is how many stages a process may have.
const MaxStages = 64

var stages struct {
	mu  sync.Mutex
	all []*Stage // guarded by mu
}

// NewStage makes a stage. The name is that of its node in the blocking graph, and must be
// its own. The error says what is wrong.
func NewStage(name string) (*Stage, error) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	if name == "" {
		return nil, fmt.Errorf("task: a stage without name")
	}
	for _, s := range stages.all {
		if s.name == name {
			return nil, fmt.Errorf("task: there is a stage %q already", name)
		}
	}
	if len(stages.all) == MaxStages {
		return nil, fmt.Errorf("task: stage %q is one too many; there may be %d", name, MaxStages)
	}
	s := &Stage{name: name}
	s.open = NewCond(&s.gate)
	stages.all = append(stages.all, s)
	return s, nil
}

// StageNames returns the names of all stages. For schedulers.
func StageNames() []string {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	names := make([]string, len(stages.all))
	for i, s := range stages.all {
		names[i] = s.name
	}
	return names
}

// Do runs fn in the stage: on the calling task, when it is its turn. It parks until then. If
// fn itself parks, nobody else gets in until it has returned. A plain goroutine waits for the
// lock only.
func (s *Stage) Do(fn func()) {
	YieldAt(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	Outside(callPlain, fn)
}

// SetThresholds says when the scheduler cohort puts the stage in between although it is the turn of
// others: when more than so many tasks wait there, or one has waited for so long; 0 for either
// is the scheduler's own threshold (Cohort Scheduling, section 3.1). The cohort that is
// interrupted goes on after that; one that interrupts is not interrupted itself. It must be
// called before tasks come to the stage. Other schedulers take no notice. It never parks.
func (s *Stage) SetThresholds(waiting int, longest time.Duration) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	s.waiting, s.longest = max(waiting, 0), max(longest, 0)
}

// StageThresholds returns what SetThresholds was called with for the stage of that name, 0 if
// there is none. For schedulers.
func StageThresholds(name string) (waiting int, longest time.Duration) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	for _, s := range stages.all {
		if s.name == name && name != "" {
			return s.waiting, s.longest
		}
	}
	return 0, 0
}

// Enough says that the stage has enough to do, or that it has not any more: while it has, who
// calls Invoke for it waits (Cohort Scheduling, section 3.1). It is mostly called by the
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
type Children struct{ left WaitGroup }

// Wait parks until all of them are done: once, however many they are. It does not end when the
// calling task is cancelled.
func (c *Children) Wait() { c.left.Wait() }

// A Result is what an operation returns. It is made by Invoke.
type Result[T any] struct {
	value T
	err   error
}

// Get returns what the operation has returned. It must not be called before Wait of its
// Children has returned. The error says that the operation did not return: it panicked and the
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
	if _, err := Spawn(Options{Name: s.name}, func() {
		defer c.left.Done()
		s.Do(func() {
			r.value = fn()
			r.err = nil
		})
	}); err != nil {
		c.left.Done()
		return nil, err
	}
	return r, nil
}
