package knot

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	clockTick = 50 * time.Millisecond
	// idleTicks is how many ticks without a reader stop the clock: a server
	// that nobody asks anything does not wake up.
	idleTicks = 40
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
// It is late by a tick at most, or two on a busy machine. It ticks only while
// somebody reads it. The zero value is ready. Safe from anywhere.
type clock struct {
	// passed is nanoseconds since base, 0 while the clock stands. atomic
	passed atomic.Int64
	// read is set by readers and cleared by ticks. atomic
	read    atomic.Bool
	current atomic.Pointer[stamp]

	mu     sync.Mutex
	base   time.Time   // guarded by mu until passed is not 0, then fixed
	timer  *time.Timer // guarded by mu
	unread int         // ticks; guarded by mu
	closed bool        // guarded by mu
}

// now is nanoseconds on the clock's own scale, never 0.
func (k *clock) now() int64 {
	passed := k.passed.Load()
	if passed == 0 {
		return k.start()
	}
	if !k.read.Load() {
		k.read.Store(true)
	}
	return passed
}

// stamp is the second of the latest tick; call now before.
func (k *clock) stamp() *stamp {
	if k.passed.Load() == 0 {
		k.start()
	}
	return k.current.Load()
}

// at is the time of a reading, with the monotonic part that timers want.
func (k *clock) at(reading int64) time.Time { return k.base.Add(time.Duration(reading)) }

func (k *clock) start() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if passed := k.passed.Load(); passed != 0 {
		return passed
	}
	if k.base.IsZero() {
		// One nanosecond back, so that no reading is 0.
		k.base = time.Now().Add(-1)
	}
	k.unread = 0
	if !k.closed {
		if k.timer == nil {
			k.timer = time.AfterFunc(clockTick, k.tick)
		} else {
			k.timer.Reset(clockTick)
		}
	}
	passed := k.advance()
	if k.closed {
		k.passed.Store(0)
	}
	return passed
}

func (k *clock) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read.Swap(false) {
		k.unread = 0
	} else if k.unread++; k.unread >= idleTicks {
		k.passed.Store(0)
		return
	}
	if k.closed {
		k.passed.Store(0)
		return
	}
	k.advance()
	k.timer.Reset(clockTick)
}

// advance needs mu.
func (k *clock) advance() int64 {
	now := time.Now()
	if s := k.current.Load(); s == nil || s.unix != now.Unix() {
		k.current.Store(newStamp(now))
	}
	passed := int64(now.Sub(k.base))
	k.passed.Store(passed)
	return passed
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
