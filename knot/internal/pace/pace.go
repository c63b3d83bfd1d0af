// Package pace is about how fast responses leave: a Pace works out when the pieces of a response may leave that is slowed down,
// a Wait counts for how long a client keeps a request waiting, and ToEnd says whose stalled responses end when there is no room
// for others. It neither reads a clock nor waits.
package pace

import "time"

const (
	// PiecesPerSecond is how many pieces leave in a second, as far as their size allows.
	PiecesPerSecond = 8
	// least and most bound the size of a piece, in bytes.
	least, most = 1 << 10, 1 << 20
	// behind is how far a response may fall behind its pace and still catch up.
	behind = time.Second
)

// A Pace slows a response down. The zero value does not.
type Pace struct {
	Rate int64 // bytes in a second; 0: as fast as the client takes them
	Free int64 // bytes that leave before that begins

	due time.Time // when the next piece may leave; zero: at once
}

// Next returns how many of the next left bytes may leave, and after which wait from now on.
func (p *Pace) Next(now time.Time, left int64) (n int64, wait time.Duration) {
	if p.Rate == 0 {
		return left, 0
	}
	if p.Free > 0 {
		n := min(left, p.Free)
		p.Free -= n
		return n, 0
	}
	if wait = p.due.Sub(now); wait < 0 {
		if p.due.IsZero() || wait < -behind {
			p.due = now
		}
		wait = 0
	}
	n = min(left, min(max(p.Rate/PiecesPerSecond, least), most))
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.Rate) * float64(time.Second)))
	return n, wait
}
