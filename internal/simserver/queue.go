//go:build linux

package simserver

// A queue is bytes that have come and have not been taken yet. Guarded by World.mu.
type queue struct {
	buf []byte
	at  int // what is before has been taken
}

func (q *queue) len() int { return len(q.buf) - q.at }

// bytes is what there is, until the next call of add or drop.
func (q *queue) bytes() []byte { return q.buf[q.at:] }

func (q *queue) add(b []byte) {
	if q.at > 0 && len(q.buf)+len(b) > cap(q.buf) { // room for it may be where bytes have been taken
		q.buf, q.at = append(q.buf[:0], q.bytes()...), 0
	}
	q.buf = append(q.buf, b...)
}

// drop takes the first k bytes away.
func (q *queue) drop(k int) {
	if q.at += k; q.at == len(q.buf) {
		q.buf, q.at = q.buf[:0], 0
	}
}

// take is drop of all, which are the caller's.
func (q *queue) take() []byte {
	b := q.bytes()
	*q = queue{}
	return b
}

// joined is what has come before with b behind it, which is the result's from then on.
func joined(before, b []byte) []byte {
	if len(before) == 0 {
		return b
	}
	return append(before, b...)
}
