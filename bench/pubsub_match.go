package main

import "math/bits"

// Matching events against subscriptions as in "Filtering Algorithms and Implementation
// for Very Fast Publish/Subscribe Systems" (Fabret et al., SIGMOD 2001). A subscription
// is a conjunction of predicates such as attribute 3 = 17 or attribute 5 <= 20; an event
// gives values to attributes.
//
// First the indexes on predicates set, for the event's values, the bits of all predicates
// that hold. Subscriptions are clustered by one equality predicate that each of them has,
// its access predicate, and within that by size. Only the clusters whose access predicate
// holds are looked at. There the further predicates of the subscriptions stand in columns,
// the most selective first: the first column is read in order, the others only where the
// bits of those before are set.

const (
	pubsubAttributes = 32
	pubsubValues     = 35
	attributeGroup   = 4 // attributes per group; an event has all attributes of a group or none
	equalities       = 2 // predicates of a subscription that are =, the access predicate too
	fewestPredicates = 8 // of a subscription
	mostPredicates   = 24
	absent           = 255 // in place of a value
)

// A predicate is a number: the bit that is set in eventBits when it holds. Each attribute
// has 128 of them.
type predicate uint32

const (
	opEqual   = 0
	opAtMost  = 40
	opAtLeast = 80
)

func newPredicate(attribute, op, value int) predicate {
	return predicate(attribute<<7 + op + value)
}

// eventValues are the values of an event's attributes.
type eventValues [pubsubAttributes]uint8

// holds reports whether p is true of an event.
func (p predicate) holds(values *eventValues) bool {
	v := int(values[p>>7])
	if v == absent {
		return false
	}
	switch c := int(p & 127); {
	case c >= opAtLeast:
		return v >= c-opAtLeast
	case c >= opAtMost:
		return v <= c-opAtMost
	default:
		return v == c
	}
}

// eventBits has a bit for each predicate.
type eventBits [2 * pubsubAttributes]uint64

// bit is 1 if the bit of p is set, else 0.
func (b *eventBits) bit(p uint32) uint64 {
	return b[p>>6%uint32(len(b))] >> (p & 63) & 1
}

// predicateIndex has for each value the predicates on an attribute that hold.
var predicateIndex = func() (index [pubsubValues][2]uint64) {
	for v := range index {
		values := eventValues{uint8(v)}
		for _, op := range []int{opEqual, opAtMost, opAtLeast} {
			for c := range pubsubValues {
				if p := newPredicate(0, op, c); p.holds(&values) {
					index[v][p>>6] |= 1 << (p & 63)
				}
			}
		}
	}
	return index
}()

// fill sets the bits of the predicates that hold.
func (b *eventBits) fill(values *eventValues) {
	for a, v := range values {
		words := [2]uint64{}
		if v != absent {
			words = predicateIndex[v]
		}
		b[2*a], b[2*a+1] = words[0], words[1]
	}
}

// An rng draws numbers: a linear congruential generator, its output mixed.
type rng uint64

func newRNG(seed uint64) rng { return rng(seed*0x9e3779b97f4a7c15 | 1) }

// below draws a number from 0 to n-1.
func (r *rng) below(n int) int {
	*r = *r*6364136223846793005 + 1442695040888963407
	v := uint64(*r)
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	hi, _ := bits.Mul64(v^v>>33, uint64(n))
	return int(hi)
}

// A subscription is a conjunction of predicates on different attributes, equalities first;
// the first is its access predicate.
type subscription struct {
	predicates [mostPredicates]predicate
	n          int
}

// subscriptionAt draws subscription i; always the same. Its ranges take in three quarters
// of the values.
func subscriptionAt(i int) (s subscription) {
	r := newRNG(uint64(i))
	used := uint64(0)
	s.n = fewestPredicates + r.below(mostPredicates-fewestPredicates+1)
	for k := 0; k < s.n; {
		a := r.below(pubsubAttributes)
		if used>>a&1 != 0 {
			continue
		}
		used |= 1 << a
		op, v := opEqual, r.below(pubsubValues)
		if k >= equalities {
			op, v = opAtLeast, v/2
			if r.below(2) == 0 {
				op, v = opAtMost, pubsubValues-1-v
			}
		}
		s.predicates[k] = newPredicate(a, op, v)
		k++
	}
	return s
}

// eventAt draws event i; always the same. It has three groups of attributes in four.
func eventAt(i int) (values eventValues) {
	r := newRNG(uint64(i) + 1<<40)
	for a := range values {
		if a%attributeGroup == 0 && r.below(4) == 0 || a%attributeGroup != 0 && values[a-1] == absent {
			values[a] = absent
		} else {
			values[a] = uint8(r.below(pubsubValues))
		}
	}
	return values
}

// subscriptions are all subscriptions, by access predicate. Read-only once made.
//
// A cluster in data is a header, n and the columns, then the columns, and last the numbers
// of the subscriptions. Clusters with the same access predicate follow each other.
type subscriptions struct {
	at   [pubsubAttributes*pubsubValues + 1]uint32 // where those of an access predicate begin
	data []uint32
}

const (
	headerColumns = 20 // bits of a header below the columns
	headerMask    = 1<<headerColumns - 1
)

// A clusterShape says how many subscriptions with the same access predicate have how many
// predicates, and how many of them are in their places already.
type clusterShape struct{ n, filled [mostPredicates + 1]uint32 }

// words is what the clusters with fewer predicates than given take in data.
func (c *clusterShape) words(predicates int) (words uint32) {
	for k, n := range c.n[:predicates] {
		if n > 0 {
			words += 1 + n*uint32(k) // as many columns as predicates, less one, and the numbers
		}
	}
	return words
}

// newSubscriptions clusters the first n subscriptions.
func newSubscriptions(n int) *subscriptions {
	all := &subscriptions{}
	shapes := make([]clusterShape, len(all.at)-1)
	for i := range n {
		s := subscriptionAt(i)
		shapes[s.access()].n[s.n]++
	}
	for i := range shapes {
		all.at[i+1] = all.at[i] + shapes[i].words(mostPredicates+1)
	}
	all.data = make([]uint32, all.at[len(shapes)])
	for i := range n {
		s := subscriptionAt(i)
		all.add(uint32(i), &s, &shapes[s.access()])
	}
	return all
}

// access is the place of the access predicate in subscriptions.at.
func (s *subscription) access() int {
	return int(s.predicates[0]>>7)*pubsubValues + int(s.predicates[0]&127)
}

// add puts s into its cluster.
func (all *subscriptions) add(id uint32, s *subscription, shape *clusterShape) {
	n := shape.n[s.n]
	at := all.at[s.access()] + shape.words(s.n)
	all.data[at] = uint32(s.n-1)<<headerColumns | n
	at += 1 + shape.filled[s.n]
	shape.filled[s.n]++
	for _, p := range s.predicates[1:s.n] {
		all.data[at] = uint32(p)
		at += n
	}
	all.data[at] = id
}

// clusters are those of the access predicate attribute = value.
func (all *subscriptions) clusters(attribute int, value uint8) []uint32 {
	key := attribute*pubsubValues + int(value)
	return all.data[all.at[key]:all.at[key+1]]
}

// blockOfColumn is how much of a first column is looked through at a time.
const blockOfColumn = 256

// match appends the numbers of the subscriptions in clusters, one after the other, that
// an event satisfies. It goes through a first column without a branch that depends on the
// event; few of its predicates hold.
func (b *eventBits) match(clusters, found []uint32) []uint32 {
	var hits [blockOfColumn]uint16
	for len(clusters) > 0 {
		n := int(clusters[0] & headerMask)
		ids := 1 + n*int(clusters[0]>>headerColumns)
		for base := 1; base <= n; base += blockOfColumn {
			k := 0
			for i, p := range clusters[base:min(base+blockOfColumn, n+1)] {
				hits[k%blockOfColumn] = uint16(i)
				k += int(b.bit(p))
			}
			for _, h := range hits[:k] {
				at := base + int(h) + n
				for at < ids && b.bit(clusters[at]) != 0 {
					at += n
				}
				if at >= ids {
					found = append(found, clusters[at])
				}
			}
		}
		clusters = clusters[ids+n:]
	}
	return found
}
