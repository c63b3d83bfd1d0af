package engine

// A Local is a variable of which every task has its own. Make it with NewLocal, once,
// in a package variable.
type Local[T any] struct {
	initial T
}

// NewLocal returns a Local whose value is initial in a task that has not set it.
func NewLocal[T any](initial T) *Local[T] { return &Local[T]{initial: initial} }

// Get returns the calling task's value. On a plain goroutine it is the initial one.
func (v *Local[T]) Get() T {
	l := comeBack()
	if l == nil || l.cur == nil || l.cur.ext.Load() == nil {
		return v.initial
	}
	if x, ok := l.cur.extra().locals[v]; ok {
		value, _ := x.(T) // x is nil if T is an interface type and the value its nil
		return value
	}
	return v.initial
}

// Set sets the calling task's value. It panics on a plain goroutine.
func (v *Local[T]) Set(x T) {
	l := comeBack()
	if l == nil || l.cur == nil {
		panic("task: Local.Set on a plain goroutine, which has no task-local variables")
	}
	i := l.cur.extend()
	if i.locals == nil {
		i.locals = make(map[any]any)
	}
	i.locals[v] = x
}
