package task

import "github.com/capriccio-go/capriccio/internal/engine"

// A Local is a variable with a value of its own for every task. Make it with NewLocal, once,
// in a package variable.
type Local[T any] struct {
	initial T
}

// NewLocal returns a Local whose value is initial in a task that has not set it.
func NewLocal[T any](initial T) *Local[T] { return &Local[T]{initial: initial} }

// Get returns the calling task's value. On a plain goroutine it is the initial one. It never parks.
func (v *Local[T]) Get() T {
	if t := engine.CurrentLoop().Running(); t != nil {
		if x, ok := t.Local(v); ok {
			value, _ := x.(T) // x is nil if T is an interface type and the value its nil
			return value
		}
	}
	return v.initial
}

// Set sets the calling task's value. It panics on a plain goroutine, and never parks.
func (v *Local[T]) Set(x T) {
	t := engine.CurrentLoop().Running()
	if t == nil {
		panic("task: Local.Set on a plain goroutine, which has no task-local variables")
	}
	t.SetLocal(v, x)
}
