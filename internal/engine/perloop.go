package engine

import "sync"

// A PerLoop holds a value for each loop: what tasks of all loops would otherwise share, and pay
// for with locks and with wake-ups from one processor to another.
type PerLoop[T any] struct {
	// New makes the value of a loop, when it is first asked for; nil: the zero value.
	New func() T

	values sync.Map // *Loop to *T; of nil: for plain goroutines
}

// Get returns the value of the calling task's loop.
func (p *PerLoop[T]) Get() *T {
	l := comeBack()
	if v, ok := p.values.Load(l); ok {
		return v.(*T)
	}
	v := new(T)
	if p.New != nil {
		*v = Outside(call, p.New)
	}
	got, _ := p.values.LoadOrStore(l, v)
	return got.(*T)
}
