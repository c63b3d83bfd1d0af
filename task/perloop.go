package task

import (
	"sync"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A PerLoop holds a value for each loop, so that tasks of different loops share none, and need neither locks nor
// wake-ups from one processor to another. The zero value, with New set if need be, is ready. It must not be copied.
type PerLoop[T any] struct {
	// New makes the value of a loop, when it is first asked for; nil: the zero value. Callers at the same time may each
	// call it; one result is kept.
	New func() T

	values sync.Map // *Loop to *T; of nil: for plain goroutines
}

// Get returns the value of the calling task's loop. Between two waits no other task of the loop runs, so the value may
// be used without a lock; after a native wait, call Get again first. All plain goroutines share one more value, and
// must lock it. It never parks.
func (p *PerLoop[T]) Get() *T {
	l := engine.CurrentLoop()
	if v, ok := p.values.Load(l); ok {
		return v.(*T)
	}
	v := new(T)
	if p.New != nil {
		*v = engine.Outside(engine.Call, p.New)
	}
	got, loaded := p.values.LoadOrStore(l, v)
	if l != nil && !loaded {
		l.DeleteAtEnd(&p.values)
	}
	return got.(*T)
}
