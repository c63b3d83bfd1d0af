package task

import (
	"context"
	"iter"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Chan carries values between tasks and goroutines, first in, first out. Make it
// with NewChan.
type Chan[T any] engine.Chan[T]

// RecvCase is a Case that receives into *into, which may be nil. With a nil Chan it is never
// ready, as in a select statement.
func (c *Chan[T]) RecvCase(into *T) Case { return (*engine.Chan[T])(c).RecvCase(into) }

// SendCase is a Case that sends v. With a nil Chan it is never ready.
func (c *Chan[T]) SendCase(v T) Case { return (*engine.Chan[T])(c).SendCase(v) }

// Send sends v and parks until it has been received or there is room for it. It
// returns ErrChanClosed if the channel is, or meanwhile gets, closed, and the error
// of the calling task's context if the task is cancelled; v has then not been sent.
func (c *Chan[T]) Send(v T) (err error) { return (*engine.Chan[T])(c).Send(v) }

// TrySend sends v if that is possible without waiting, and reports whether it did. The error is
// ErrChanClosed if the channel is closed. It never parks.
func (c *Chan[T]) TrySend(v T) (bool, error) { return (*engine.Chan[T])(c).TrySend(v) }

// Recv receives a value and parks until there is one. It returns ErrChanClosed if the
// channel is closed and empty, and the error of the calling task's context if the task
// is cancelled.
func (c *Chan[T]) Recv() (v T, err error) { return (*engine.Chan[T])(c).Recv() }

// TryRecv receives a value if there is one; ok reports whether there was. The error is
// ErrChanClosed if the channel is closed and empty. It never parks.
func (c *Chan[T]) TryRecv() (v T, ok bool, err error) { return (*engine.Chan[T])(c).TryRecv() }

// Close closes the channel: every Send that waits or comes later returns
// ErrChanClosed, and so does every Recv once the channel is empty. It panics if the
// channel is closed already. It never parks.
func (c *Chan[T]) Close() { (*engine.Chan[T])(c).Close() }

// Len is the number of values that the channel holds now; those of Sends that wait are not counted.
func (c *Chan[T]) Len() int { return (*engine.Chan[T])(c).Len() }

// Cap is the number of values that the channel can hold.
func (c *Chan[T]) Cap() int { return (*engine.Chan[T])(c).Cap() }

// All receives until the channel is closed or the calling task is cancelled; Err tells which. It parks
// as Recv does.
func (c *Chan[T]) All() iter.Seq[T] { return (*engine.Chan[T])(c).All() }

// NewChan returns a channel that holds up to capacity values, which may be 0: then a
// Send waits for its Recv. It panics if capacity is negative.
func NewChan[T any](capacity int) *Chan[T] { return (*Chan[T])(engine.NewChan[T](capacity)) }

// ErrChanClosed is returned by Send on a closed channel, and by Recv on a closed one
// that is empty.
var ErrChanClosed = engine.ErrChanClosed

// A Case is one of the things that a Select waits for. Make it with the methods RecvCase and
// SendCase of a channel, or with DoneCase or AfterCase; it may be used again, by several at once,
// and may stand more than once in one Select. A nil Case makes Select panic.
type Case = engine.Case

// Select waits until one of the cases can go on, does it, and returns its index. If
// several can, one of them is chosen at random. It parks. The error is ErrChanClosed
// if the channel of the case is closed (and empty, for a receive), or, with index -1,
// that of the calling task's context. Without cases it waits for the latter.
func Select(cases ...Case) (int, error) { return engine.Select(cases...) }

// TrySelect is Select that does not wait: it returns -1 and no error if none of the
// cases can go on. It never parks.
func TrySelect(cases ...Case) (int, error) { return engine.TrySelect(cases...) }

// DoneCase is a Case that can go on when ctx has ended; the error of Select is then that of ctx, and
// its cause. The end of the calling task's own context needs no case: it ends every Select. It panics
// if ctx is nil.
func DoneCase(ctx context.Context) Case { return engine.DoneCase(ctx) }

// AfterCase is a Case that can go on when the Select has waited for d, of the runtime's clock and with
// the resolution of Sleep; at once if d ≤ 0, unless another case can.
// TrySelect does not wait for it.
func AfterCase(d time.Duration) Case { return engine.AfterCase(d) }
