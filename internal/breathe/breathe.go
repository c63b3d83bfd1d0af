//go:build linux

package breathe

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// inHand is how many goroutines do such work and may have to share a processor with a loop.
var inHand atomic.Int32

// loops is how many loops let others have a turn.
var loops atomic.Int32

// AddLoops is told how many loops have begun, or, if negative, ended to call Turn.
func AddLoops(n int) { loops.Add(int32(n)) }

// Turn is called by a loop once a turn.
func Turn() {
	if inHand.Load() != 0 {
		runtime.Gosched()
	}
}

// Begin announces that the caller is going to use a Breather; the function that it
// returns ends that.
func Begin() (done func()) {
	if runtime.GOMAXPROCS(0) > int(loops.Load()) {
		return func() {} // there is a processor to spare
	}
	inHand.Add(1)
	return func() { inHand.Add(-1) }
}

// A Breather lets others have the processor after every fifth of a millisecond of work. The
// zero value is ready for use.
type Breather struct {
	calls uint
	since uint64 // cycles
}

// Take is called after every small piece of work.
func (b *Breather) Take() {
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
