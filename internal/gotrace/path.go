package gotrace

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// The path of a task of package runtime/trace leads from its end back to its begin: through what its
// goroutine did, and where that waited, through what the goroutine that woke it did in that time, and so on. So
// each moment of the task is counted once.
//
// Goroutines leave a trail for that while tasks or requests are open: pieces that each know the one before and, if
// it is a wait, the trail of what ended it. They lie in a ring of blocks, so that what is too long ago is forgotten.

// A piece is a part of the time of a goroutine.
type piece struct {
	prev, via uint64 // numbers of pieces: what came before, and what the waker did; 0: nothing known
	from, to  trace.Time
	node      *node
	by        *place // what ended a wait; nil: the scheduler
	who       uint32 // the lower half of the goroutine's id
	kind      pieceKind
}

type pieceKind uint8

const (
	pieceStep pieceKind = iota // from the node on
	pieceWait                  // there
	pieceReady
)

// Limits of paths.
const (
	maxPieces  = 1 << 18 // that are remembered
	blockSize  = 1 << 12 // pieces that memory is taken for at a time
	deepestWay = 64      // wakers of wakers
	longestWay = 1 << 14 // pieces of one task
)

type trails struct {
	ring [maxPieces / blockSize]*[blockSize]piece
	next uint64 // number of the next piece, from 1
}

// at returns the slot of that piece, and takes memory for its block if there is none yet.
func (t *trails) at(number uint64) *piece {
	i := (number - 1) % maxPieces
	block := &t.ring[i/blockSize]
	if *block == nil {
		*block = new([blockSize]piece)
	}
	return &(*block)[i%blockSize]
}

func (t *trails) add(p piece) uint64 {
	t.next++
	*t.at(t.next) = p
	return t.next
}

// get returns a piece, nil if it is forgotten.
func (t *trails) get(number uint64) *piece {
	if number == 0 || t.next >= number+maxPieces {
		return nil
	}
	return t.at(number)
}

// trail adds to the trail of g what it did up to a time; via is the trail of the goroutine that ended it, by the place where it
// did so. While no task and no request is open trail does nothing: time from before a task began does not count.
func (m *model) trail(g *goroutine, kind pieceKind, to trace.Time, via uint64, by *place) {
	if len(m.tasks)+m.serving.open > 0 {
		m.addTrail(g, kind, to, via, by)
	}
}

func (m *model) addTrail(g *goroutine, kind pieceKind, to trace.Time, via uint64, by *place) {
	if !g.start.system && to > g.trailed {
		p := piece{g.trail, via, g.trailed, to, g.at, by, g.id, kind}
		g.trail = m.trails.add(p)
		if g.req.state != requestNone {
			m.own(g, p)
		}
	}
	g.trailed = to
}

// trailOf is the trail of the goroutine that an event is about, up to now; 0 if the scheduler ended the wait.
func (m *model) trailOf(e *trace.Event, byScheduler bool) uint64 {
	if len(m.tasks)+m.serving.open == 0 || byScheduler {
		return 0
	}
	w := m.all.get(e.Goroutine())
	if w == nil || w.start.system || w.state != stateRunning && w.state != stateCalling {
		return 0
	}
	m.trail(w, pieceStep, m.now, 0, nil)
	return w.trail
}

// A way follows the path of one task or request.
type way struct {
	m     *model
	left  int       // pieces
	whole bool      // waits count with what others did meanwhile, and that again by itself
	parts pathParts // nil: they are not added up
	line  *timeline // nil: waits are not kept one by one
}

type pathParts map[partKey]*bgraph.PathPart

type partKey struct {
	*node
	depth int
}

func (m *model) newWay(parts pathParts) *way {
	return &way{m: m, left: longestWay, parts: parts}
}

// level appends the pieces of a trail between two moments, the latest first, up to where it is not known any more.
func (w *way) level(out []piece, number uint64, from, to trace.Time) []piece {
	for to > from {
		p := w.m.trails.get(number)
		if p == nil || w.left == 0 || p.from >= p.to {
			break
		}
		w.left--
		number = p.prev
		if p.from >= to {
			continue
		}
		if p.to < to { // nothing is known of the time between
			break
		}
		cut := *p
		cut.from, cut.to = max(p.from, from), to
		out = append(out, cut)
		to = cut.from
	}
	return out
}

// add adds what a trail tells of the time between two moments, and returns from where on it is known.
func (w *way) add(number uint64, from, to trace.Time, depth int, into *visits) trace.Time {
	levels := &w.m.serving.levels
	for depth >= len(*levels) {
		*levels = append(*levels, nil)
	}
	pieces := w.level((*levels)[depth][:0], number, from, to)
	for i := len(pieces) - 1; i >= 0; i-- {
		w.piece(pieces[i], depth, into)
	}
	(*levels)[depth] = pieces[:0]
	if len(pieces) == 0 {
		return to
	}
	return pieces[len(pieces)-1].from
}

// piece adds a piece: its own time, and what the goroutine that ended it did meanwhile.
func (w *way) piece(p piece, depth int, into *visits) {
	var at *visits
	if into != nil {
		at = into.at(&p)
	}
	if w.line != nil {
		w.line.add(&p)
	}
	until := p.to
	if p.kind == pieceWait && p.via != 0 && depth+1 < deepestWay && w.follows(p.via) {
		until = w.add(p.via, p.from, p.to, depth+1, at)
	}
	if at != nil {
		at.count(&p, until)
	}
	if w.parts == nil {
		return
	}
	key := partKey{p.node, 0}
	if w.whole {
		key.depth = min(depth, 1)
	}
	if w.whole && depth == 0 {
		until = p.to
	}
	part := w.parts[key]
	if part == nil {
		part = &bgraph.PathPart{Node: p.node.Key, Depth: key.depth}
		w.parts[key] = part
	}
	d := bgraph.Nanos(until - p.from)
	switch p.kind {
	case pieceStep:
		part.Step += d
	case pieceWait:
		part.Wait += d
		part.Count += p.visits()
	default:
		part.Ready += d
	}
}

// writtenBy tells the client of net/http that its request is written: it goes on waiting for the answer, in the same call.
const writtenBy = "net/http.(*persistConn).writeLoop"

// visits is 0 if the wait of p is only the first part of a call of net/http's client, else 1.
func (p *piece) visits() uint64 {
	if p.by != nil && p.by.function == writtenBy {
		return 0
	}
	return 1
}

// follows reports whether the trail of a goroutine says more than the wait that it ended. The trails of goroutines of the
// standard library do not, such as those that serve the connections of a client of net/http.
func (w *way) follows(number uint64) bool {
	p := w.m.trails.get(number)
	return p != nil && p.node != w.m.unknown && (len(p.node.Stack) == 0 || w.m.placeOf(p.node) != nil)
}

// partsOf are the parts of the path of all tasks or requests of that name; nil if there is no room.
func (m *model) partsOf(kind, name string) pathParts {
	k := [2]string{kind, name}
	all := m.paths[k]
	if all == nil && len(m.paths) < graphlimits.Spans {
		all = pathParts{}
		m.paths[k] = all
	}
	return all
}

// ended adds the path of a task that g has just ended.
func (m *model) ended(g *goroutine, t openTask) {
	if parts := m.partsOf("task", t.name); parts != nil {
		m.newWay(parts).add(g.trail, t.begun, m.now, 0, nil)
	}
	took := bgraph.Nanos(m.now.Sub(t.begun))
	if !m.isSlow(took) {
		return
	}
	tree, w := newVisits(t.begun), m.newWay(nil)
	w.line = newTimeline(t.begun)
	w.add(g.trail, t.begun, m.now, 0, tree)
	slow := tree.span("task", t.name, t.begun.Sub(m.first), m.now.Sub(t.begun))
	slow.Timeline = w.line.longest()
	m.addSlow(slow)
}

// path is that of all tasks or requests of a name, what took most time first.
func (m *model) path(kind, name string) []bgraph.PathPart {
	var out []bgraph.PathPart
	for part := range maps.Values(m.paths[[2]string{kind, name}]) {
		out = append(out, *part)
	}
	slices.SortFunc(out, func(a, b bgraph.PathPart) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Depth, b.Depth))
	})
	return out[:min(len(out), graphlimits.Path)]
}
