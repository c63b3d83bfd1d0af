package knot

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	clockTick = 50 * time.Millisecond
	// manyReads is how many readings within a tick make the clock tick. A timer wakes a thread up
	// twice, which is more than they cost if they are fewer.
	manyReads = 64
	// tickFor is after how many ticks the clock stands again, to find out how often it is read.
	tickFor = 40
)

// stamp is the current second, ready to be copied.
type stamp struct {
	unix int64
	okay []byte // status line 200 and Date
	date []byte // "Date: ..." CR LF
	log  []byte // "[02/Jan/2006:15:04:05 -0700]"
	iso  []byte // RFC 3339
}

// clock is a coarse clock: reading it is one load, where time.Now is a call.
// It is late by a tick at most, or two on a busy machine. It ticks only while it is read
// often; else it stands, and a reading takes a lock and time.Now. The zero value is ready. Safe
// from anywhere.
type clock struct {
	// passed is nanoseconds since base, 0 while the clock stands. atomic
	passed  atomic.Int64
	current atomic.Pointer[stamp]

	mu     sync.Mutex
	base   time.Time   // guarded by mu until the first reading, then fixed
	timer  *time.Timer // guarded by mu
	reads  int         // since from, while it stands; guarded by mu
	from   int64       // nanoseconds since base; guarded by mu
	ticks  int         // since it stood; guarded by mu
	closed bool        // guarded by mu
}

// now is nanoseconds on the clock's own scale, never 0.
func (k *clock) now() int64 {
	if passed := k.passed.Load(); passed != 0 {
		return passed
	}
	return k.look()
}

// stamp is the second of the latest tick; call now before.
func (k *clock) stamp() *stamp {
	if k.passed.Load() == 0 {
		k.look()
	}
	return k.current.Load()
}

// at is the time of a reading, with the monotonic part that timers want.
func (k *clock) at(reading int64) time.Time { return k.base.Add(time.Duration(reading)) }

// look reads a clock that stands.
func (k *clock) look() int64 {
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
	if passed-k.from > int64(clockTick) {
		k.from, k.reads = passed, 0
	}
	if k.reads++; k.reads < manyReads || k.closed {
		return passed
	}
	k.ticks = 0
	k.passed.Store(passed)
	if k.timer == nil {
		k.timer = time.AfterFunc(clockTick, k.tick)
	} else {
		k.timer.Reset(clockTick)
	}
	return passed
}

func (k *clock) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ticks++; k.closed || k.ticks >= tickFor {
		k.reads = 0
		k.passed.Store(0)
		return
	}
	k.passed.Store(k.advance())
	k.timer.Reset(clockTick)
}

// advance returns what has passed, and sees to the stamp. It needs mu.
func (k *clock) advance() int64 {
	now := time.Now()
	if s := k.current.Load(); s == nil || s.unix != now.Unix() {
		k.current.Store(newStamp(now))
	}
	return int64(now.Sub(k.base))
}

// close stops the ticks for good; readings go on, each by a call of time.Now.
func (k *clock) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.passed.Store(0)
	if k.timer != nil {
		k.timer.Stop()
	}
}

const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

func newStamp(now time.Time) *stamp {
	s := &stamp{unix: now.Unix()}
	s.date = append(now.UTC().AppendFormat([]byte("Date: "), httpTime), "\r\n"...)
	s.okay = append(append(s.okay, statusLine(200)...), s.date...)
	s.iso = now.AppendFormat(nil, time.RFC3339)
	s.log = now.AppendFormat(nil, "[02/Jan/2006:15:04:05 -0700]")
	return s
}
