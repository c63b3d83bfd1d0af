//go:build linux

package simserver

// A queue is bytes that have come and have not been taken yet. Its memory is used again, as memory that
// is new to the process takes longer than what is done with it. Guarded by World.mu.
type queue struct {
	buf []byte
	at  int // what is before has been taken
}

// spare is memory of queues that are empty: of one simulation at a time, guarded by its World.mu.
var spare [][]byte

const (
	sparesMost = 256
	spareSize  = 256 << 10
	spareLeast = 32 << 10 // for fewer bytes there is memory enough
)

func (q *queue) len() int { return len(q.buf) - q.at }

// bytes is what there is, until the next call of add or drop.
func (q *queue) bytes() []byte { return q.buf[q.at:] }

func (q *queue) add(b []byte) {
	if need := q.len() + len(b); len(q.buf)+len(b) > cap(q.buf) {
		to := q.buf[:0]
		switch {
		case q.at >= q.len() && need <= cap(q.buf):
		case need > spareLeast && need <= spareSize:
			to = newSpare()
		default:
			to = make([]byte, 0, max(need, min(2*need, spareSize)))
		}
		from := q.buf
		*q = queue{buf: append(to, q.bytes()...)}
		if cap(to) != cap(from) {
			reuse(from)
		}
	}
	q.buf = append(q.buf, b...)
}

// drop takes the first k bytes away. Of connections that have ended nothing is kept: there are thousands in a second.
func (q *queue) drop(k int) {
	if q.at += k; q.at < len(q.buf) {
		return
	}
	if cap(q.buf) >= spareSize {
		reuse(q.buf)
		q.buf = nil
	}
	q.buf, q.at = q.buf[:0], 0
}

// take is drop of all, which stay where they are until they are given to reuse.
func (q *queue) take() []byte {
	b := q.bytes()
	*q = queue{}
	return b
}

func newSpare() []byte {
	if n := len(spare); n > 0 {
		b := spare[n-1]
		spare = spare[:n-1]
		return b
	}
	return make([]byte, 0, spareSize)
}

// reuse is for what take has returned, once nothing uses it any more.
func reuse(b []byte) {
	if cap(b) == spareSize && len(spare) < sparesMost {
		spare = append(spare, b[:0])
	}
}
