package gotrace

import (
	"cmp"
	"maps"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// The path of a task of package runtime/trace leads from its end back to its begin: through what its
// goroutine did, and where that waited, through what the goroutine that woke it did in that time, and so on. So
// each moment of the task is counted once.
//
// Goroutines leave a trail for that while tasks are open: pieces that each know the one before and, if
// it is a wait, the trail of what ended it. They lie in a ring, so that what is too long ago is forgotten.

// A piece is a part of the time of a goroutine.
type piece struct {
	prev, via uint64 // numbers of pieces: what came before, and what the waker did; 0: nothing known
	from, to  trace.Time
	node      *node
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
	deepestWay = 64      // wakers of wakers
	longestWay = 1 << 14 // pieces of one task
)

type trails struct {
	ring []piece
	next uint64 // number of the next piece, from 1
}

func (t *trails) add(p piece) uint64 {
	if t.next++; t.next <= maxPieces {
		t.ring = append(t.ring, p)
	} else {
		t.ring[(t.next-1)%maxPieces] = p
	}
	return t.next
}

// get returns a piece, nil if it is forgotten.
func (t *trails) get(number uint64) *piece {
	if number == 0 || t.next >= number+maxPieces {
		return nil
	}
	return &t.ring[(number-1)%maxPieces]
}

// trail adds to the trail of g what it did up to a time; via is the trail of what ended it. While no
// task is open it does nothing: what a piece has from before its task began does not count.
func (m *model) trail(g *goroutine, kind pieceKind, to trace.Time, via uint64) {
	if len(m.tasks) > 0 {
		m.addTrail(g, kind, to, via)
	}
}

func (m *model) addTrail(g *goroutine, kind pieceKind, to trace.Time, via uint64) {
	if !g.start.system && to > g.trailed {
		g.trail = m.trails.add(piece{g.trail, via, g.trailed, to, g.at, kind})
	}
	g.trailed = to
}

// trailOf is the trail of the goroutine that an event is about, up to now; 0 if the scheduler ended the wait.
func (m *model) trailOf(e *trace.Event, byScheduler bool) uint64 {
	if len(m.tasks) == 0 || byScheduler {
		return 0
	}
	w := m.all.get(e.Goroutine())
	if w == nil || w.start.system || w.state != stateRunning && w.state != stateCalling {
		return 0
	}
	m.trail(w, pieceStep, m.now, 0)
	return w.trail
}

// A way adds up the path of one task.
type way struct {
	*trails
	left  int // pieces
	parts map[*node]*bgraph.PathPart
}

// add adds what a trail tells of the time between two moments, and returns up to where, from the
// end, it is known.
func (w *way) add(number uint64, from, to trace.Time, depth int) trace.Time {
	for to > from {
		p := w.get(number)
		if p == nil || w.left == 0 || p.from >= p.to {
			return to
		}
		w.left--
		if p.from >= to {
			number = p.prev
			continue
		}
		begin, end := max(p.from, from), min(p.to, to)
		if end < to { // nothing is known of the time between
			return to
		}
		at := end
		if p.kind == pieceWait && p.via != 0 && depth < deepestWay {
			at = w.add(p.via, begin, end, depth+1)
		}
		part := w.parts[p.node]
		if part == nil {
			part = &bgraph.PathPart{Node: p.node.Key}
			w.parts[p.node] = part
		}
		d := bgraph.Nanos(at - begin)
		switch p.kind {
		case pieceStep:
			part.Step += d
		case pieceWait:
			part.Wait += d
		default:
			part.Ready += d
		}
		to, number = begin, p.prev
	}
	return to
}

// ended adds the path of a task that g has just ended.
func (m *model) ended(g *goroutine, t openTask) {
	w := way{trails: &m.trails, left: longestWay, parts: map[*node]*bgraph.PathPart{}}
	w.add(g.trail, t.begun, m.now, 0)
	all := m.paths[t.name]
	if all == nil {
		if len(m.paths) >= graphlimits.Spans {
			return
		}
		all = map[*node]*bgraph.PathPart{}
		m.paths[t.name] = all
	}
	for n, part := range w.parts {
		if all[n] == nil {
			all[n] = &bgraph.PathPart{Node: n.Key}
		}
		all[n].Step, all[n].Wait, all[n].Ready = all[n].Step+part.Step, all[n].Wait+part.Wait, all[n].Ready+part.Ready
	}
}

// path is that of all tasks of a type, what took most time first.
func (m *model) path(name string) []bgraph.PathPart {
	var out []bgraph.PathPart
	for part := range maps.Values(m.paths[name]) {
		out = append(out, *part)
	}
	slices.SortFunc(out, func(a, b bgraph.PathPart) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Node, b.Node))
	})
	return out[:min(len(out), graphlimits.Path)]
}
