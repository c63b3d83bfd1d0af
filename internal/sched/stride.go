package sched

// Stride is stride scheduling (Waldspurger and Weihl, 1995) with quanta of any length.
// Among the nodes that take part, it names the one that has had least for its tickets.
// The zero value is ready to use.
//
// Every node has a pass: the cycles that it has used, divided by its tickets. The node with the lowest pass runs next;
// that lowest pass is the virtual time. A node that joins starts at the virtual time, or at its own pass if that is
// later: a lead that it had when it left is kept, but time away earns nothing. So
//
//   - no node's pass is ever further from the virtual time than one quantum of its own;
//   - between two nodes that both take part, the cycles per ticket differ by no more
//     than a quantum of the one and a quantum of the other;
//   - a node waits for at most (T/t + n) quanta, for t of T tickets among n nodes.
//
// Passes are integers, and what a division leaves over is carried, so that these
// bounds hold however long it runs.
type Stride struct {
	// tree is a tournament: tree[1] is the least of all keys, tree[i] the lesser of
	// tree[2i] and tree[2i+1], and tree[len/2+n] the key of node n. A key is the pass
	// with the node in its low bits, noKey for a node that does not take part.
	tree  []uint64
	nodes []strideNode
	now   uint64 // the virtual time
}

type strideNode struct {
	pass    uint64
	rest    uint64 // of the last division: the exact pass is pass + rest/tickets
	tickets uint64
}

const (
	nodeBits = 20
	noKey    = ^uint64(0)

	passScale     = 1 << 8    // units of pass in a cycle per ticket
	maxQuantum    = 1<<32 - 1 // cycles; longer ones are charged as this
	maxLead       = 1 << 41   // of a pass before the virtual time
	renormaliseAt = 1 << 42   // when the virtual time has come so far, renormalise lowers all passes
	maxPass       = 1<<44 - 1 // what fits into a key
)

// Tickets of a node: those it has at first, and the most it can have.
const (
	DefaultTickets = 256
	MaxTickets     = 1 << 16
)

// No pass overflows: the virtual time, a lead and one more quantum fit into a key.
const _ = uint64(maxPass - renormaliseAt - maxLead - maxQuantum*passScale)

// SetTickets gives n that many tickets, at least 1 and at most MaxTickets. The lead of n is kept as work, so with twice
// the tickets it is used up in half the time.
func (s *Stride) SetTickets(n Node, tickets int) {
	nd := s.node(n)
	t := uint64(min(max(tickets, 1), MaxTickets))
	if t == nd.tickets {
		return
	}
	s.catchUp(nd)
	ahead := (nd.pass-s.now)*nd.tickets + nd.rest
	nd.tickets = t
	nd.pass, nd.rest = s.now+min(ahead/t, maxLead), ahead%t
	if s.takesPart(n) {
		s.set(n, nd.pass<<nodeBits|uint64(n))
	}
}

// Join makes n take part. Nothing happens if it does already.
func (s *Stride) Join(n Node) {
	nd := s.node(n)
	if s.takesPart(n) {
		return
	}
	s.catchUp(nd)
	s.set(n, nd.pass<<nodeBits|uint64(n))
}

// Leave makes n take part no longer. Nothing happens if it does not.
func (s *Stride) Leave(n Node) {
	if int(n) < len(s.nodes) && s.takesPart(n) {
		s.set(n, noKey)
	}
}

// Other is Min without n, which takes part.
func (s *Stride) Other(n Node) (other Node, ok bool) {
	least := noKey
	for i := len(s.nodes) + int(n); i > 1; i >>= 1 {
		least = min(least, s.tree[i^1])
	}
	return Node(least & (MaxNodes - 1)), least != noKey
}

// PassOver has n, if it takes part, go behind Other, if there is one: it loses what it was owed.
func (s *Stride) PassOver(n Node) {
	if int(n) >= len(s.nodes) || !s.takesPart(n) {
		return
	}
	if other, ok := s.Other(n); ok && s.nodes[n].pass <= s.nodes[other].pass {
		nd := &s.nodes[n]
		nd.pass, nd.rest = s.nodes[other].pass+1, 0
		s.set(n, nd.pass<<nodeBits|uint64(n))
	}
}

// Min is the node with the lowest pass; of several, that with the lowest number. ok is
// false if no node takes part.
func (s *Stride) Min() (n Node, ok bool) {
	if len(s.tree) == 0 || s.tree[1] == noKey {
		return 0, false
	}
	return Node(s.tree[1] & (MaxNodes - 1)), true
}

// Charge says how many cycles n has used. It may take part or have left meanwhile.
func (s *Stride) Charge(n Node, cycles uint64) {
	nd := s.node(n)
	work := min(cycles, maxQuantum)*passScale + nd.rest
	strides := work / nd.tickets
	nd.rest = work - strides*nd.tickets
	nd.pass = min(nd.pass+strides, s.now+maxLead)
	if s.takesPart(n) {
		s.set(n, nd.pass<<nodeBits|uint64(n))
	}
}

// Tickets is how many tickets n has.
func (s *Stride) Tickets(n Node) int {
	if int(n) >= len(s.nodes) {
		return DefaultTickets
	}
	return int(s.nodes[n].tickets)
}

// Pass is the pass of n, in units of 1/256 of a cycle per ticket. Only differences
// between nodes mean something.
func (s *Stride) Pass(n Node) uint64 {
	if int(n) >= len(s.nodes) {
		return s.now
	}
	return max(s.nodes[n].pass, s.now)
}

func (s *Stride) takesPart(n Node) bool { return s.tree[len(s.nodes)+int(n)] != noKey }

// catchUp brings a node that was away to the virtual time.
func (s *Stride) catchUp(nd *strideNode) {
	if nd.pass < s.now {
		nd.pass, nd.rest = s.now, 0
	}
}

// set gives the leaf of n a key and plays its matches again.
func (s *Stride) set(n Node, key uint64) {
	tree := s.tree
	i := uint(len(s.nodes)) + uint(n)
	if i >= uint(len(tree)) {
		return // never; spares the loop its bounds checks
	}
	tree[i] = key
	for i > 1 {
		key = min(key, tree[i^1])
		i >>= 1
		if tree[i] == key {
			return // and so is all above, including the virtual time
		}
		tree[i] = key
	}
	if key != noKey {
		s.now = key >> nodeBits
		if s.now >= renormaliseAt {
			s.renormalise()
		}
	}
}

// renormalise lowers all passes so that the virtual time is maxLead. A node that is
// further behind has been away and would be brought to the virtual time in any case; one
// that has just left and is yet to be charged is never so far behind.
func (s *Stride) renormalise() {
	by := s.now - maxLead
	for i := range s.nodes {
		if nd := &s.nodes[i]; nd.pass >= by {
			nd.pass -= by
		} else {
			nd.pass, nd.rest = 0, 0
		}
	}
	for i, key := range s.tree[1:] {
		if key != noKey {
			s.tree[i+1] = key - by<<nodeBits
		}
	}
	s.now -= by
}

// node returns the state of n, making the tables large enough.
func (s *Stride) node(n Node) *strideNode {
	if int(n) >= len(s.nodes) {
		s.grow(n)
	}
	return &s.nodes[n]
}

// grow makes the tables large enough for n.
func (s *Stride) grow(n Node) {
	mustBeNode(n)
	old := s.nodes
	size := max(len(old), 8)
	for size <= int(n) {
		size *= 2
	}
	s.nodes = make([]strideNode, size)
	copy(s.nodes, old)
	for i := len(old); i < size; i++ {
		s.nodes[i].tickets = DefaultTickets
	}
	leaves := s.tree[len(old):]
	s.tree = make([]uint64, 2*size)
	copy(s.tree[size:], leaves)
	for i := size + len(old); i < 2*size; i++ {
		s.tree[i] = noKey
	}
	for i := size - 1; i > 0; i-- {
		s.tree[i] = min(s.tree[2*i], s.tree[2*i+1])
	}
}
