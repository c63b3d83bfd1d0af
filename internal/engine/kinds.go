package engine

import "math"

// kinds say of each kind of work, and of each detail of one, how many of those tasks have come in, how
// many have come to a node, and how many wait there. A kind has a place in each of two tables, so that it
// is hardly ever taken for another.
type kinds [2][1 << kindBits]kindCount

type kindCount struct {
	came, visited uint16
	waiting       int32
}

const (
	kindBits  = 10 // of a place in a table of kinds
	knownFrom = 4  // tasks of a kind
)

func (k *kinds) each(kind uint32, do func(*kindCount)) {
	for i, m := range [...]uint32{0x9e3779b1, 0x85ebca6b} {
		do(&k[i][kind*m>>(32-kindBits)])
	}
}

// lead reports whether the task of x is likely to come to the node. What is known of the detail
// counts more.
func (k *kinds) lead(x *extension) bool {
	likely, known := k.likely(x.detail)
	if !known {
		likely, _ = k.likely(x.kind)
	}
	return likely
}

func (k *kinds) likely(kind uint32) (likely, known bool) {
	likely, known = true, true
	k.each(kind, func(c *kindCount) {
		likely = likely && c.visited > 0 && 2*int(c.visited) >= int(c.came)
		known = known && c.came >= knownFrom
	})
	return likely, known
}

// goes notes that one of the kind was let in.
func (k *kinds) goes(kind uint32) {
	k.each(kind, func(c *kindCount) {
		if c.came++; c.came == 1<<15 {
			c.came /= 2
			c.visited /= 2
		}
	})
}

// comes notes that one of the kind has come to the node.
func (k *kinds) comes(kind uint32) {
	k.each(kind, func(c *kindCount) { c.visited = min(c.visited+1, 1<<15) })
}

// waits notes that n more tasks like that of x wait at the node, and returns how many of its kind and
// detail do.
func (k *kinds) waits(x *extension, n int32) (kind, detail int) {
	kind = k.wait(x.kind, n)
	if x.detail == x.kind {
		return kind, kind
	}
	return kind, k.wait(x.detail, n)
}

// wait notes that n more of the kind wait at the node, and returns how many do.
func (k *kinds) wait(kind uint32, n int32) int {
	all := int32(math.MaxInt32)
	k.each(kind, func(c *kindCount) {
		c.waiting += n
		all = min(all, c.waiting)
	})
	return int(all)
}
