package simfleet

import "time"

// A kind says what an event is about.
type kind uint8

const (
	userAsks      kind = iota // who: user
	reaches                   // at: the attempt has come to its server
	served                    // who: server, at: the processor has finished the attempt
	turns                     // who: server, asks its queue again
	looks                     // who: server, looks at its bottleneck
	queryReaches              // at: the attempt has come to the database
	queried                   // at: the database has finished the attempt
	queryAnswered             // at: the answer of the database is at the server
	queryTimesOut             // at: the server waits for the database no longer
	answered                  // at: the answer is at the balancer
	calls                     // fn
)

// An event is something that happens at a time.
type event struct {
	when   time.Duration
	number uint64 // the order among events of one time
	kind   kind
	who    int
	at     *attempt
	fn     func()
}

// A heap holds events, the next one first.
type heap []event

func (h heap) before(i, j int) bool {
	return h[i].when < h[j].when || h[i].when == h[j].when && h[i].number < h[j].number
}

func (h *heap) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 4
		if !q.before(i, up) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *heap) pop() event {
	q := *h
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for c := 4*i + 1; c < min(4*i+5, last); c++ {
			if q.before(c, least) {
				least = c
			}
		}
		if least == i {
			return first
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// A fifo is a queue, first in first out.
type fifo[T any] struct {
	all  []T
	from int
}

func (q *fifo[T]) len() int { return len(q.all) - q.from }

func (q *fifo[T]) push(x T) { q.all = append(q.all, x) }

func (q *fifo[T]) first() T { return q.all[q.from] }

func (q *fifo[T]) pop() T {
	var none T
	x := q.all[q.from]
	q.all[q.from] = none
	if q.from++; q.from > 64 && 2*q.from > len(q.all) {
		n := copy(q.all, q.all[q.from:])
		clear(q.all[n:])
		q.all, q.from = q.all[:n], 0
	}
	return x
}
