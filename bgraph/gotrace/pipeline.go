package gotrace

import (
	"fmt"
	"io"

	"golang.org/x/exp/trace"
)

// A batch is how events go from the goroutine that decodes them to the one that owns the
// model, so that the two halves of the work use two cores.
type batch struct {
	events []trace.Event
	// ended are the tasks of the EventTaskEnds among them, in their order: the reader adds to the
	// table with the names of those while it reads on, so that only its goroutine may ask for them.
	ended []trace.Task
	err   error // that ended the trace, after these events; io.EOF: all was read
}

const (
	batchEvents  = 1024
	batchesAhead = 3
)

// readAll feeds the events to the model.
func (m *model) readAll(in io.Reader) error {
	free, full := make(chan *batch, batchesAhead), make(chan *batch, batchesAhead)
	for range batchesAhead {
		free <- &batch{events: make([]trace.Event, 0, batchEvents)}
	}
	go decode(in, free, full)
	defer func() { // after a panic or an early end, the other one must not go on
		close(free)
		for range full {
		}
	}()
	for b := range full {
		if err := m.take(b); err != nil {
			return err
		}
		if b.err == io.EOF {
			return nil
		}
		if b.err != nil {
			return b.err
		}
		free <- b
	}
	return nil
}

// take feeds one batch to the model. Package trace is not made for hostile input, so that a
// panic of its is an error.
func (m *model) take(b *batch) (err error) {
	defer recovered(&err)
	ended := b.ended
	for i := range b.events {
		ended = m.event(&b.events[i], ended)
	}
	return nil
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("invalid trace: %v", p)
	}
}

// decode fills batches until the trace ends or no free one comes any more.
func decode(in io.Reader, free <-chan *batch, full chan<- *batch) {
	defer close(full)
	r, err := newReader(in)
	for b := range free {
		b.events, b.ended, b.err = b.events[:0], b.ended[:0], err
		if err == nil {
			b.err = b.fill(r)
		}
		full <- b
		if b.err != nil {
			return
		}
	}
}

func newReader(in io.Reader) (r *trace.Reader, err error) {
	defer recovered(&err)
	return trace.NewReader(in)
}

func (b *batch) fill(r *trace.Reader) (err error) {
	defer recovered(&err)
	for n := len(b.events); n < cap(b.events); n++ {
		e := &b.events[:n+1][n] // an event is large: it is written once
		if *e, err = r.ReadEvent(); err != nil {
			return err
		}
		b.events = b.events[:n+1]
		if e.Kind() == trace.EventTaskEnd {
			b.ended = append(b.ended, e.Task())
		}
	}
	return nil
}
