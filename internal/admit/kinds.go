package admit

import "math"

// kinds count for each kind of work, and for each detail of one, how many of its tasks were admitted, how many of them came
// to a node, and how many wait there. A kind has a place in each of two tables, so that it is hardly ever taken for
// another.
type kinds [2][1 << kindBits]kindCount

type kindCount struct {
	admitted, visited uint16
	waiting           int32
}

func (k *kinds) each(kind uint32, do func(*kindCount)) {
	for i, m := range [...]uint32{0x9e3779b1, 0x85ebca6b} {
		do(&k[i][kind*m>>(32-kindBits)])
	}
}

// likelyToVisit reports whether a task that does w is likely to come to the node. What is known of the detail counts more.
func (k *kinds) likelyToVisit(w *Work) bool {
	likely, known := k.likely(w.Detail)
	if !known {
		likely, _ = k.likely(w.Kind)
	}
	return likely
}

func (k *kinds) likely(kind uint32) (likely, known bool) {
	likely, known = true, true
	k.each(kind, func(c *kindCount) {
		likely = likely && c.visited > 0 && 2*int(c.visited) >= int(c.admitted)
		known = known && c.admitted >= knownFrom
	})
	return likely, known
}

// admitted records that a task of the kind was admitted.
func (k *kinds) admitted(kind uint32) {
	k.each(kind, func(c *kindCount) {
		if c.admitted++; c.admitted == 1<<15 {
			c.admitted /= 2
			c.visited /= 2
		}
	})
}

// visited records that a task of the kind has come to the node.
func (k *kinds) visited(kind uint32) {
	k.each(kind, func(c *kindCount) { c.visited = min(c.visited+1, 1<<15) })
}

// addWaiting records that n more tasks that do w wait at the node, and returns how many of its kind and detail do.
func (k *kinds) addWaiting(w *Work, n int32) (kind, detail int) {
	kind = k.addOne(w.Kind, n)
	if w.Detail == w.Kind {
		return kind, kind
	}
	return kind, k.addOne(w.Detail, n)
}

// waiting is how many tasks of the kind wait at the node.
func (k *kinds) waiting(kind uint32) int { return k.addOne(kind, 0) }

func (k *kinds) addOne(kind uint32, n int32) int {
	all := int32(math.MaxInt32)
	k.each(kind, func(c *kindCount) {
		c.waiting += n
		all = min(all, c.waiting)
	})
	return int(all)
}
