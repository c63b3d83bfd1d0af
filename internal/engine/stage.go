package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Stage is an operation that tasks come to one after another, and that shares what it works
// on: an index, a log (Cohort Scheduling, section 3).
type Stage struct {
	name string
	mu   Mutex

	waiting int           // guarded by stages.mu: see SetThresholds
	longest time.Duration // likewise
	rank    int           // likewise: see OrderStages

	gate   Mutex
	open   *Cond // on gate: enough has become false
	enough bool  // guarded by gate
}

// MaxStages is how many stages a process may have.
const MaxStages = 64

// stages are of the process: they are declared in package variables, before there is a runtime.
var stages struct {
	mu  sync.Mutex
	all []*Stage    // guarded by mu
	any atomic.Bool // there is one
}

// anyStage reports whether there is a stage.
func anyStage() bool { return stages.any.Load() }

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
	stages.any.Store(true)
	return s, nil
}

// Do runs fn in the stage: on the calling task, when it is its turn.
func (s *Stage) Do(fn func()) {
	YieldAt(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	Outside(callPlain, fn)
}

// SetThresholds says when the scheduler cohort puts the stage in between although it is the
// turn of others: when more than that many tasks wait there, or one has waited for so long; 0 for
// either is the scheduler's own threshold (Cohort Scheduling, section 3.1).
func (s *Stage) SetThresholds(waiting int, longest time.Duration) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	s.waiting, s.longest = max(waiting, 0), max(longest, 0)
}

// StageNamed is the stage of that name, nil if there is none. For schedulers.
func StageNamed(name string) *Stage {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	if i := slices.IndexFunc(stages.all, func(s *Stage) bool { return s.name == name }); i >= 0 {
		return stages.all[i]
	}
	return nil
}

// Thresholds returns what SetThresholds was called with. For schedulers.
func (s *Stage) Thresholds() (waiting int, longest time.Duration) {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	return s.waiting, s.longest
}

// Rank is the place in the order of OrderStages, from 1; 0: none. For schedulers.
func (s *Stage) Rank() int {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	return s.rank
}

// OrderStages gives these stages the order in which the scheduler cohort is to visit them.
func OrderStages(order []*Stage) error {
	stages.mu.Lock()
	defer stages.mu.Unlock()
	for i, s := range order {
		if slices.Contains(order[:i], s) {
			return fmt.Errorf("ressched: the stage %q is in the order twice", s.name)
		}
	}
	for _, s := range stages.all {
		s.rank = slices.Index(order, s) + 1
	}
	return nil
}

// Enough records that the stage has enough to do, or that it no longer has: while it has, a
// caller of Invoke for it waits (Cohort Scheduling, section 3.1).
func (s *Stage) Enough(enough bool) {
	s.gate.Lock()
	s.enough = enough
	if !enough {
		s.open.Broadcast()
	}
	s.gate.Unlock()
}

// Children are operations that a task has started in stages, and that it waits for together
// (Cohort Scheduling, section 3.2).
type Children struct{ left WaitGroup }

// Wait parks until all of them are done: once, however many they are. It does not end when the
// calling task is cancelled.
func (c *Children) Wait() { c.left.Wait() }

// A Result is what an operation returns. It is made by Invoke.
type Result[T any] struct {
	value T
	err   error
}

// Get returns what the operation has returned.
func (r *Result[T]) Get() (T, error) { return r.value, r.err }

// Invoke starts an operation in a stage, as a task of its own that runs fn when it is its turn,
// and goes on: c.Wait waits for it and the other children of c.
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
