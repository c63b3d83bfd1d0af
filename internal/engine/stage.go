package engine

import (
	"context"
	"errors"
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

	waiting int           // guarded by stageSettings: see SetThresholds
	longest time.Duration // likewise
	order   []*Stage      // likewise: see OrderStages

	gate   Mutex
	open   *Cond // on gate: enough has become false
	enough bool  // guarded by gate
}

// stageSettings guards what is set of stages.
var stageSettings sync.Mutex

// stages are those that tasks of a runtime have come to, by name. Of several of one name, which take turns as
// one in the eyes of schedulers, it is the first.
type stages struct {
	named sync.Map    // of *Stage
	any   atomic.Bool // there is one
}

func (s *stages) note(x *Stage) {
	if _, known := s.named.Load(x.name); !known {
		s.named.LoadOrStore(x.name, x)
		s.any.Store(true)
	}
}

// StageNamed is the stage of that name that tasks of rt have come to, nil if there is none. For schedulers.
func (rt *Runtime) StageNamed(name string) *Stage {
	if x, ok := rt.stages.named.Load(name); ok {
		return x.(*Stage)
	}
	return nil
}

// NewStage makes a stage. The name is that of its node in the blocking graph. The error says what is
// wrong.
func NewStage(name string) (*Stage, error) {
	if name == "" {
		return nil, errors.New("task: a stage without name")
	}
	s := &Stage{name: name}
	s.open = NewCond(&s.gate)
	return s, nil
}

// Do runs fn in the stage: on the calling task, when it is its turn.
func (s *Stage) Do(fn func()) {
	if l := comeBack(); l != nil {
		l.rt.stages.note(s)
	}
	YieldAt(s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	Outside(callPlain, fn)
}

// SetThresholds says when the scheduler cohort puts the stage in between although it is the
// turn of others: when more than that many tasks wait there, or one has waited for so long; 0 for
// either is the scheduler's own threshold (Cohort Scheduling, section 3.1).
func (s *Stage) SetThresholds(waiting int, longest time.Duration) {
	stageSettings.Lock()
	defer stageSettings.Unlock()
	s.waiting, s.longest = max(waiting, 0), max(longest, 0)
}

// Thresholds returns what SetThresholds was called with. For schedulers.
func (s *Stage) Thresholds() (waiting int, longest time.Duration) {
	stageSettings.Lock()
	defer stageSettings.Unlock()
	return s.waiting, s.longest
}

// Rank is the place in the order of OrderStages, from 1; 0: none. For schedulers.
func (s *Stage) Rank() int {
	stageSettings.Lock()
	defer stageSettings.Unlock()
	return slices.Index(s.order, s) + 1
}

// OrderStages gives these stages the order in which the scheduler cohort is to visit them.
func OrderStages(order []*Stage) error {
	stageSettings.Lock()
	defer stageSettings.Unlock()
	for i, s := range order {
		if slices.Contains(order[:i], s) {
			return fmt.Errorf("ressched: the stage %q is in the order twice", s.name)
		}
	}
	for _, s := range order {
		for _, other := range s.order {
			other.order = nil
		}
	}
	for _, s := range order {
		s.order = slices.Clone(order)
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
	t, err := Spawn(Options{Name: s.name, Dropped: c.left.Done}, func() {
		defer c.left.Done()
		s.Do(func() {
			r.value = Outside(call, fn)
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
