package proxy

import (
	"io"
	"math"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/task"
)

// A requestBody is the body of the request, and the task that sends it if it has not come with the head.
type requestBody struct {
	content    []byte    // body of the request, if ready
	ready      bool      // all of the body has come, or there is none
	repeatable bool      // the method may be repeated
	bodyTaken  bool      // the request can't be sent again
	chunked    bool      // the body is sent in chunks
	file       *aio.File // has the body, if its length was not known and it does not fit into memory
	fileSize   int64     // bytes of that

	source  io.Reader   // of the body, while another task sends it
	apart   ownctx.Body // source, if the body comes from the client
	sending task.WaitGroup
	done    atomic.Bool  // that task has ended; atomic
	sent    bool         // all of the body has been; written by that task, read after sending.Wait
	movedAt atomic.Int64 // when that task last sent something, see elapsed; MaxInt64: it waits for the client; atomic
}

// sendBody sends what has not come with the head, beside the task that waits for the response.
func (e *exchange) sendBody() {
	defer e.sending.Done()
	defer e.done.Store(true)
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	var out []byte
	for {
		buf := small[:]
		var large *[largeBuffer]byte
		if e.apart == nil || e.apart.Unread() { // else it may be held for long
			large = largeBuffers.Get().(*[largeBuffer]byte)
			buf = large[:largeBuffer/2]
		} else if cap(out) > smallBuffer {
			out = nil
		}
		e.movedAt.Store(math.MaxInt64) // a client that is slow is no fault of the backend
		n, err := e.source.Read(buf)
		e.movedAt.Store(elapsed())
		out = out[:0]
		if n > 0 {
			out = e.p.wire.frame(e, out, buf[:n])
		}
		if large != nil {
			largeBuffers.Put(large)
		}
		if err == io.EOF {
			var trailer []byte
			if e.apart != nil {
				trailer = e.apart.Trailer()
			}
			out = e.p.wire.finish(e, out, trailer)
		} else if err != nil {
			e.waits.interrupt(&clientError{err})
			return
		}
		if e.arm(e.u.SetWriteDeadline, elapsed(), e.p.IdleTimeout) != nil {
			return
		}
		if _, werr := e.u.Write(out); werr != nil {
			return // there may be a response all the same; the reader finds out
		}
		if e.movedAt.Store(elapsed()); err == io.EOF {
			e.sent = true
			return
		}
	}
}

// A clientError is an error of reading the client's body.
type clientError struct{ err error }

func (e *clientError) Error() string { return e.err.Error() }
func (e *clientError) Unwrap() error { return e.err }

// join ends the task that sends the body, if there is one.
func (e *exchange) join() {
	if e.source == nil {
		return
	}
	if !e.done.Load() {
		e.waits.interrupt(errOver)
	}
	if e.apart != nil {
		e.apart.End()
	}
	e.sending.Wait()
	e.source, e.apart = nil, nil
}
