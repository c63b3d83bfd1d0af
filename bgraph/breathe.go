//go:build linux

package bgraph

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// breathing is how many goroutines take a snapshot or write one and may have to share a
// processor with a loop. Meanwhile the observed loops let others have theirs once a turn:
// the Go scheduler alone would let a busy loop have it for 10 ms at a time, and then the
// dump.
var breathing atomic.Int32

// observedLoops is how many loops run and are observed.
var observedLoops atomic.Int32

// breathe announces that the caller is going to use a breather; the function that it
// returns ends that.
func breathe() (done func()) {
	if runtime.GOMAXPROCS(0) > int(observedLoops.Load()) {
		return func() {} // there is a processor to spare
	}
	breathing.Add(1)
	return func() { breathing.Add(-1) }
}

// A breather lets others have the processor after every fifth of a millisecond of work. The
// zero value is ready for use.
type breather struct {
	calls uint
	since uint64 // cycles
}

// take is called after every small piece of work.
func (b *breather) take() {
	if b.calls++; b.calls%16 != 0 {
		return
	}
	now := coro.Cycles()
	if b.since == 0 {
		b.since = now
	}
	if float64(now-b.since) > coro.CyclesPerSecond()*breath.Seconds() {
		runtime.Gosched()
		b.since = coro.Cycles()
	}
}

// breath leaves most of a millisecond for the pieces of work that can't be divided.
const breath = 200 * time.Microsecond
