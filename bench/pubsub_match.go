package main

import "math/bits"

// Matching events against subscriptions as in "Filtering Algorithms and Implementation
// for Very Fast Publish/Subscribe Systems" (Fabret et al., SIGMOD 2001). A subscription
// is a conjunction of predicates such as attribute 3 = 17 or attribute 5 <= 20; an event
// gives values to attributes.
//
// First the indexes on predicates set, for the event's values, the bits of all predicates
// that hold. Subscriptions are clustered by one equality predicate each has, its access
// predicate, and within that by size. Only the clusters whose access predicate holds are
// looked at. There the further predicates of the subscriptions stand in columns, the most
// selective first: a column is read in order, and the next one only where the bits of
// those before are set.

const (
	pubsubAttributes = 32
	pubsubValues     = 35
	fewestTerms      = 4 // of a subscription, beside the access predicate
	mostTerms        = 12
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

// holds says whether p is true of an attribute's value.
func (p predicate) holds(values *[pubsubAttributes]uint8) bool {
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

type eventBits [2 * pubsubAttributes]uint64

func (b *eventBits) has(p predicate) bool {
	return b[p>>6%predicate(len(b))]>>(p&63)&1 != 0
}

// predicateIndex has for each value the predicates on an attribute that hold.
var predicateIndex = func() (index [pubsubValues][2]uint64) {
	for v := range index {
		values := [pubsubAttributes]uint8{uint8(v)}
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
func (b *eventBits) fill(values *[pubsubAttributes]uint8) {
	for a, v := range values {
		words := [2]uint64{}
		if v != absent {
			words = predicateIndex[v]
		}
		b[2*a], b[2*a+1] = words[0], words[1]
	}
}

// lot draws numbers: a multiplicative congruential generator, its output mixed.
type lot uint64

func newLot(seed uint64) lot { return lot(seed*0x9e3779b97f4a7c15 | 1) }

// below draws a number from 0 to n-1.
func (l *lot) below(n int) int {
	*l = *l*6364136223846793005 + 1442695040888963407
	v := uint64(*l)
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	hi, _ := bits.Mul64(v^v>>33, uint64(n))
	return int(hi)
}

// A subscription's terms are the predicates beside its access predicate, equalities first:
// few events satisfy those.
type subscription struct {
	attribute, value int // of the access predicate
	terms            [mostTerms]predicate
	n                int // terms
}

// subscriptionAt draws subscription i; always the same.
func subscriptionAt(i int) (s subscription) {
	l := newLot(uint64(i))
	s.attribute, s.value = l.below(pubsubAttributes), l.below(pubsubValues)
	s.n = fewestTerms + l.below(mostTerms-fewestTerms+1)
	used := uint64(1) << s.attribute
	equal, other := 0, s.n
	for equal < other {
		a := l.below(pubsubAttributes)
		if used>>a&1 != 0 {
			continue
		}
		used |= 1 << a
		v := l.below(pubsubValues)
		switch l.below(4) {
		case 0:
			other--
			s.terms[other] = newPredicate(a, opAtMost, v)
		case 1:
			other--
			s.terms[other] = newPredicate(a, opAtLeast, v)
		default:
			s.terms[equal] = newPredicate(a, opEqual, v)
			equal++
		}
	}
	return s
}

// eventAt draws event i; always the same. Three attributes in four have a value.
func eventAt(i int) (values [pubsubAttributes]uint8) {
	l := newLot(uint64(i) + 1<<40)
	for a := range values {
		values[a] = absent
		if l.below(4) != 0 {
			values[a] = uint8(l.below(pubsubValues))
		}
	}
	return values
}

// A cluster holds subscriptions with the same access predicate and the same number of
// terms: term k of subscription i is terms[k*len(ids)+i].
type cluster struct {
	terms []predicate
	ids   []uint32
}

// match appends the ids of the subscriptions whose terms hold.
func (c *cluster) match(b *eventBits, found []uint32) []uint32 {
	n := len(c.ids)
	for i := range n {
		at := i
		for at < len(c.terms) && b.has(c.terms[at]) {
			at += n
		}
		if at >= len(c.terms) {
			found = append(found, c.ids[i])
		}
	}
	return found
}

// subscriptions are all subscriptions, by access predicate. Read-only once made.
type subscriptions struct {
	clusters [pubsubAttributes][pubsubValues][]cluster
	bytes    int
}

// newSubscriptions clusters the first n subscriptions. Clusters that events visit one
// after another, those of one attribute, lie beside each other in memory.
func newSubscriptions(n int) *subscriptions {
	var counts [pubsubAttributes][pubsubValues][mostTerms + 1]int
	words := 0
	for i := range n {
		s := subscriptionAt(i)
		counts[s.attribute][s.value][s.n]++
		words += s.n
	}
	terms, ids := make([]predicate, words), make([]uint32, n)
	all := &subscriptions{bytes: 4 * (words + n)}
	for a := range counts {
		for v := range counts[a] {
			for k, count := range counts[a][v] {
				if count > 0 {
					c := cluster{terms[: k*count : k*count], ids[:0:count]}
					terms, ids = terms[k*count:], ids[count:]
					all.clusters[a][v] = append(all.clusters[a][v], c)
				}
			}
		}
	}
	for i := range n {
		s := subscriptionAt(i)
		all.clusterOf(&s).add(uint32(i), &s)
	}
	return all
}

// clusterOf is where s belongs; it exists.
func (all *subscriptions) clusterOf(s *subscription) *cluster {
	list := all.clusters[s.attribute][s.value]
	for i := range list {
		if len(list[i].terms) == s.n*cap(list[i].ids) {
			return &list[i]
		}
	}
	panic("no cluster for a subscription")
}

// add puts s into the next free place.
func (c *cluster) add(id uint32, s *subscription) {
	at, n := len(c.ids), cap(c.ids)
	c.ids = append(c.ids, id)
	for k, p := range s.terms[:s.n] {
		c.terms[k*n+at] = p
	}
}

// match appends the ids of the subscriptions with an access predicate on the attribute
// that are satisfied.
func (all *subscriptions) match(attribute int, values *[pubsubAttributes]uint8, b *eventBits, found []uint32) []uint32 {
	list := all.clusters[attribute][values[attribute]]
	for i := range list {
		found = list[i].match(b, found)
	}
	return found
}
