package main

import (
	"math/bits"
	"strconv"
)

// Matching events against subscriptions as in "Filtering Algorithms and Implementation
// for Very Fast Publish/Subscribe Systems" (Fabret et al., SIGMOD 2001). A subscription
// is a conjunction of predicates such as attribute 3 = 17 or attribute 5 <= 20; an event
// gives values to attributes.
//
// First the indexes on predicates set, for the event's values, the bits of all predicates
// that hold. Subscriptions are clustered by a pair of equality predicates that each of them
// has, its access predicate, and within that by size; the clusters are found by hashing, a
// table for each pair of attributes. Only clusters whose access predicate holds are looked
// at. There the further predicates of the subscriptions stand in columns: a column is read
// in order, and the next one only where the bits of those before are set.

const (
	pubsubAttributes = 32
	pubsubValues     = 35
	fewestTerms      = 2 // of a subscription, beside the access predicate
	mostTerms        = 10
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

// A subscription has two equality predicates, of which the one with the lower attribute
// comes first, and further terms.
type subscription struct {
	equal [2]predicate
	terms [mostTerms]predicate
	n     int // terms
}

// subscriptionAt draws subscription i; always the same.
func subscriptionAt(i int) (s subscription) {
	l := newLot(uint64(i))
	used := uint64(0)
	draw := func() int {
		for {
			if a := l.below(pubsubAttributes); used>>a&1 == 0 {
				used |= 1 << a
				return a
			}
		}
	}
	a, b := draw(), draw()
	s.equal[0] = newPredicate(min(a, b), opEqual, l.below(pubsubValues))
	s.equal[1] = newPredicate(max(a, b), opEqual, l.below(pubsubValues))
	s.n = fewestTerms + l.below(mostTerms-fewestTerms+1)
	for k := range s.n {
		op := opAtMost
		if l.below(2) == 0 {
			op = opAtLeast
		}
		s.terms[k] = newPredicate(draw(), op, l.below(pubsubValues))
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

// A schema is what access predicates are about: the values of two attributes. Which of
// its subscriptions an event may satisfy is found in a table with an element for each
// pair of values.
type schema struct {
	a, b int
	// at says where the clusters of a pair of values begin in data, by value of a and value
	// of b; those of the next pair follow.
	at []uint32
}

// subscriptions are all subscriptions, by access predicate. Read-only once made.
//
// A cluster in data, all of whose subscriptions have the same access predicate and the
// same number of terms, is a header, n and the terms, then the terms, all first ones
// before all second ones, then the numbers of the subscriptions.
type subscriptions struct {
	schemas []schema
	data    []uint32
}

const headerTerms = 16 // bits of a header that n takes

const pairsOfValues = pubsubValues * pubsubValues

// newSubscriptions clusters the first n subscriptions.
func newSubscriptions(n int) *subscriptions {
	all := &subscriptions{}
	var number [pubsubAttributes][pubsubAttributes]int // of the schema
	for a := range pubsubAttributes {
		for b := a + 1; b < pubsubAttributes; b++ {
			number[a][b] = len(all.schemas)
			all.schemas = append(all.schemas, schema{a: a, b: b})
		}
	}
	key := func(s *subscription) int {
		x, y := s.equal[0], s.equal[1]
		return number[x>>7][y>>7]*pairsOfValues + int(x&127)*pubsubValues + int(y&127)
	}
	shapes := make([]clusterShape, len(all.schemas)*pairsOfValues)
	for i := range n {
		s := subscriptionAt(i)
		shapes[key(&s)].n[s.n]++
	}
	at := make([]uint32, len(shapes)+1)
	for i := range shapes {
		at[i+1] = at[i] + shapes[i].words(mostTerms+1)
	}
	for i := range all.schemas {
		all.schemas[i].at = at[i*pairsOfValues : (i+1)*pairsOfValues+1]
	}
	all.data = make([]uint32, at[len(shapes)])
	for i := range n {
		s := subscriptionAt(i)
		k := key(&s)
		all.add(uint32(i), &s, at[k], &shapes[k])
	}
	return all
}

// A clusterShape says how many subscriptions with the same access predicate have how many
// terms, and how many of them are in their places already.
type clusterShape struct{ n, filled [mostTerms + 1]uint16 }

// words is what the clusters with fewer terms than given take in data.
func (c *clusterShape) words(terms int) (words uint32) {
	for k, n := range c.n[:terms] {
		if n > 0 {
			words += 1 + uint32(n)*uint32(k+1)
		}
	}
	return words
}

// add puts s into its cluster; at is where the clusters of its access predicate begin.
func (all *subscriptions) add(id uint32, s *subscription, at uint32, shape *clusterShape) {
	n := uint32(shape.n[s.n])
	at += shape.words(s.n)
	all.data[at] = uint32(s.n)<<headerTerms | n
	at += 1 + uint32(shape.filled[s.n])
	shape.filled[s.n]++
	for _, p := range s.terms[:s.n] {
		all.data[at] = uint32(p)
		at += n
	}
	all.data[at] = id
}

// match appends the numbers of the subscriptions with an access predicate of this schema
// that an event satisfies. It must have values of both attributes.
func (all *subscriptions) match(of *schema, values *[pubsubAttributes]uint8, b *eventBits, found []uint32) []uint32 {
	key := int(values[of.a])*pubsubValues + int(values[of.b])
	list := all.data[of.at[key]:of.at[key+1]]
	for len(list) > 0 {
		n := int(list[0] & (1<<headerTerms - 1))
		terms := n * int(list[0]>>headerTerms)
		for i := 1; i <= n; i++ {
			at := i
			for at <= terms && b.has(predicate(list[at])) {
				at += n
			}
			if at > terms {
				found = append(found, list[at])
			}
		}
		list = list[1+terms+n:]
	}
	return found
}

// bytes is the size of tables and clusters.
func (all *subscriptions) bytes() int {
	return 4 * (len(all.data) + len(all.schemas)*pairsOfValues)
}

// A pubsubStage is a stage of the matching: schemas with the same first attribute whose
// tables and clusters take about as much memory as a processor's own cache has.
type pubsubStage struct {
	name    string
	a       int // first attribute
	schemas []schema
	bytes   int
}

// stages divides the schemas into stages of about so many bytes.
func (all *subscriptions) stages(wanted int) (stages []pubsubStage) {
	for rest := all.schemas; len(rest) > 0; {
		s := pubsubStage{name: "match " + strconv.Itoa(len(stages)), a: rest[0].a}
		n := 0
		for n < len(rest) && rest[n].a == s.a && (n == 0 || s.bytes+rest[n].bytes() <= wanted) {
			s.bytes += rest[n].bytes()
			n++
		}
		s.schemas, rest = rest[:n], rest[n:]
		stages = append(stages, s)
	}
	return stages
}

func (of *schema) bytes() int {
	return 4 * (len(of.at) - 1 + int(of.at[len(of.at)-1]-of.at[0]))
}
