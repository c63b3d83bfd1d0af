// Package clock has the coarse clock of a server, and the texts of the current second: the Date line of responses, the
// times of access logs.
package clock

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

const (
	// Tick is how late the clock is at most, on a machine that is not busy.
	Tick = 50 * time.Millisecond
	// manyReads is how many readings within a tick make the clock tick. A timer wakes a thread up
	// twice, which is more than they cost if they are fewer.
	manyReads = 64
	// tickFor is after how many ticks the clock stands again, to find out how often it is read.
	tickFor = 40
)

// Stamp is the current second, ready to be copied.
type Stamp struct {
	Unix int64
	Okay []byte // status line 200 and Date
	Date []byte // "Date: ..." CR LF
	Log  []byte // "[02/Jan/2006:15:04:05 -0700]"
	ISO  []byte // RFC 3339
}

// Clock is a coarse clock: reading it is one load, where time.Now is a call.
// It is late by a tick at most, or two on a busy machine. It ticks only while it is read
// often; else it stands, and a reading takes a lock and time.Now. The zero value is ready. Safe
// from anywhere.
type Clock struct {
	// passed is nanoseconds since base, 0 while the clock stands. atomic
	passed  atomic.Int64
	current atomic.Pointer[Stamp]

	mu     sync.Mutex
	base   time.Time   // guarded by mu until the first reading, then fixed
	timer  *time.Timer // guarded by mu
	reads  int         // since from, while it stands; guarded by mu
	from   int64       // nanoseconds since base; guarded by mu
	ticks  int         // since it stood; guarded by mu
	closed bool        // guarded by mu
}

// Now is nanoseconds on the clock's own scale, never 0.
func (k *Clock) Now() int64 {
	if passed := k.passed.Load(); passed != 0 {
		return passed
	}
	return k.look()
}

// Stamp is the second of the latest tick; call now before.
func (k *Clock) Stamp() *Stamp {
	if k.passed.Load() == 0 {
		k.look()
	}
	return k.current.Load()
}

// Elapsed is now as time.Now has it, not late by a tick. It is for a clock that has been read before.
func (k *Clock) Elapsed() time.Duration { return time.Since(k.base) }

// Set has the clock read this until its next tick, for tests.
func (k *Clock) Set(reading int64) { k.passed.Store(reading) }

// At is the time of a reading, with the monotonic part that timers want.
func (k *Clock) At(reading int64) time.Time { return k.base.Add(time.Duration(reading)) }

// look reads a clock that stands.
func (k *Clock) look() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if passed := k.passed.Load(); passed != 0 {
		return passed
	}
	if k.base.IsZero() {
		// One nanosecond back, so that no reading is 0.
		k.base = time.Now().Add(-1)
	}
	passed := k.advance()
	if passed-k.from > int64(Tick) {
		k.from, k.reads = passed, 0
	}
	if k.reads++; k.reads < manyReads || k.closed {
		return passed
	}
	k.ticks = 0
	k.passed.Store(passed)
	if k.timer == nil {
		k.timer = time.AfterFunc(Tick, k.tick)
	} else {
		k.timer.Reset(Tick)
	}
	return passed
}

func (k *Clock) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ticks++; k.closed || k.ticks >= tickFor {
		k.reads = 0
		k.passed.Store(0)
		return
	}
	k.passed.Store(k.advance())
	k.timer.Reset(Tick)
}

// advance returns what has passed, and sees to the stamp. It needs mu.
func (k *Clock) advance() int64 {
	now := time.Now()
	if s := k.current.Load(); s == nil || s.Unix != now.Unix() {
		k.current.Store(newStamp(now))
	}
	return int64(now.Sub(k.base))
}

// Close stops the ticks for good; readings go on, each by a call of time.Now.
func (k *Clock) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.passed.Store(0)
	if k.timer != nil {
		k.timer.Stop()
	}
}

func newStamp(now time.Time) *Stamp {
	s := &Stamp{Unix: now.Unix()}
	s.Date = append(now.UTC().AppendFormat([]byte("Date: "), http.TimeFormat), "\r\n"...)
	s.Okay = append(append(s.Okay, h1.StatusLine(200)...), s.Date...)
	s.ISO = now.AppendFormat(nil, time.RFC3339)
	s.Log = now.AppendFormat(nil, "[02/Jan/2006:15:04:05 -0700]")
	return s
}

// maxTimeout is the longest timeout, in nanoseconds; a longer one is none at all. Twice it
// and the age of the server are still a reading of the clock.
const maxTimeout = time.Duration(1 << 61)

// Timeout is v as a timeout that a connection waits for: 0 for none, which a negative v asks for, or one that is too long;
// standard if v is 0.
func Timeout(v, standard time.Duration) time.Duration {
	if v == 0 {
		v = standard
	}
	if v < 0 || v > maxTimeout {
		return 0
	}
	return v
}
