package knot

import "time"

const (
	// pacePieces is how many pieces a paced response sends in a second, as far as their size
	// allows.
	pacePieces = 8
	// paceLeast and paceMost bound the size of a piece, in bytes.
	paceLeast, paceMost = 1 << 10, 1 << 20
	// paceBehind is how far a response may fall behind its pace and still catch up.
	paceBehind = time.Second
)

// paceClock and paceSleep are for tests to replace.
var (
	paceClock = time.Now
	paceSleep = sleep
)

// A pace slows a response down. Every field is loop-private.
type pace struct {
	rate int64     // bytes in a second; 0: as fast as the client takes them
	free int64     // bytes that leave before that begins
	due  time.Time // when the next piece may leave; zero: at once
}

// SetRate slows down the rest of the response: after free bytes of its body no more than
// bytesPerSecond leave in a second, in about eight pieces. 0 or less lifts the limit. It is for
// what Write, WriteString and Files send, not for Send, which takes its whole body at once. The
// task sleeps in between, without keeping other requests out.
func (x *Ctx) SetRate(bytesPerSecond, free int64) {
	x.pace = pace{rate: max(bytesPerSecond, 0), free: max(free, 0)}
}

// next waits until some of the next left bytes may leave, and returns how many. It may park.
func (p *pace) next(x *Ctx, left int64) (int64, error) {
	if p.rate == 0 {
		return left, nil
	}
	if p.free > 0 {
		n := min(left, p.free)
		p.free -= n
		return n, nil
	}
	now := paceClock()
	if wait := p.due.Sub(now); wait > 0 {
		if err := x.flush(); err != nil {
			return 0, err
		}
		x.stepOut() // others may come in while it sleeps
		if err := paceSleep(wait); err != nil {
			return 0, x.sent(err) // the response is not complete, as after a write that has failed
		}
	} else if p.due.IsZero() || wait < -paceBehind {
		p.due = now
	}
	n := min(left, min(max(p.rate/pacePieces, paceLeast), paceMost))
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	return n, nil
}

// stepOut leaves, though the response goes on.
func (x *Ctx) stepOut() {
	if e := x.adapted; e != nil {
		e.stepOut(x.c)
		return
	}
	x.c.leave()
}

// streamPaced is stream at the pace of the response.
func (x *Ctx) streamPaced(p []byte) error {
	for len(p) > 0 {
		n, err := x.pace.next(x, int64(len(p)))
		if err != nil {
			return err
		}
		if err := x.stream(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
