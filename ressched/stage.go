package ressched

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Stage is an operation that tasks come to one after another, and that shares what it works
// on: an index, a log (Cohort Scheduling, section 3). Made by NewStage, once per program.
//
// It is exclusive: at most one task of the program is in it at a time, whatever the number
// of loops. With the schedulers cohort and resource, tasks that have come to it are run one
// after another on one loop, as many at a time as there are up to the size of a cohort,
// while other loops do other work: so its lock is free when they take it, and what it works on is
// in the cache of one processor. With fifo it is a lock.
type Stage engine.Stage

// Do runs fn in the stage: on the calling task, when it is its turn. It parks until then. If
// fn itself parks, nobody else gets in until it has returned. A plain goroutine waits for the
// lock only.
func (s *Stage) Do(fn func()) { (*engine.Stage)(s).Do(fn) }

// SetThresholds says when the scheduler cohort puts the stage in between although it is the turn of
// others: when more than waiting tasks wait there, or one has waited for longer than longest; 0 for
// either is the scheduler's own threshold (Cohort Scheduling, section 3.1). The cohort that is
// interrupted goes on after that; one that interrupts is not interrupted itself. It must be
// called before tasks come to the stage. Other schedulers take no notice. It never parks.
func (s *Stage) SetThresholds(waiting int, longest time.Duration) {
	(*engine.Stage)(s).SetThresholds(waiting, longest)
}

// Enough records whether the stage has enough to do: while it has, a
// caller of Invoke for it waits (Cohort Scheduling, section 3.1). It is mostly called by the
// stage's own operations, may be called from anywhere, and never parks for long.
func (s *Stage) Enough(enough bool) { (*engine.Stage)(s).Enough(enough) }

// OrderStages says in which order the scheduler cohort is to visit these stages, forwards and backwards
// in turn (Cohort Scheduling, section 4.1.2). Without it, or for stages that are not in it, that follows from
// where tasks have gone from where, which is learned as the program runs; what lies between the
// stages keeps the place that it has by that. It must be called before tasks come to the stages. Another
// call with one of them replaces the order in which that was. Other schedulers take no notice. The error names a stage that is there twice. It
// never parks.
func OrderStages(stages ...*Stage) error {
	order := make([]*engine.Stage, len(stages))
	for i, s := range stages {
		order[i] = (*engine.Stage)(s)
	}
	return engine.OrderStages(order)
}

// NewStage makes a stage. The name is that of its node in the blocking graph: stages of one name, which are
// exclusive each for itself, are one node. It is an error if the name is empty.
func NewStage(name string) (*Stage, error) {
	x, err := engine.NewStage(name)
	return (*Stage)(x), err
}

// Children are operations that a task has started in stages, and that it waits for together
// (Cohort Scheduling, section 3.2). The zero value has none. It must not be copied after first
// use.
type Children engine.Children

// Wait parks until all of them are done: once, however many they are. It does not end when the
// calling task is cancelled.
func (c *Children) Wait() { (*engine.Children)(c).Wait() }

// A Result is what an operation returns. It is made by Invoke.
type Result[T any] engine.Result[T]

// Get returns what the operation has returned. It must not be called before Wait of its
// Children has returned. There is an error if the operation did not return: it panicked and the
// runtime's panic handler let that pass, or the runtime was shut down.
func (r *Result[T]) Get() (T, error) { return (*engine.Result[T])(r).Get() }

// Invoke starts an operation in a stage, as a task of its own that runs fn when it is its turn,
// and goes on: c.Wait waits for it and the other children of c. It parks only while the stage
// has Enough, and then returns the error of the calling task's context if that ends; nothing
// has been started in that case.
func Invoke[T any](c *Children, s *Stage, fn func() T) (*Result[T], error) {
	r, err := engine.Invoke((*engine.Children)(c), (*engine.Stage)(s), fn)
	return (*Result[T])(r), err
}
