package web

import (
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A moment is a snapshot that is remembered. It is not changed once it is in a history.
type moment struct {
	id    uint64
	seen  time.Time // when it came, on this machine's clock
	snap  *bgraph.Snapshot
	bytes int // that this moment alone holds, see charge
	tasks int64
	steps uint64
}

// A history holds the latest moments of one run of a program. When it is full, moments
// are dropped from where they are closest together for their age, never the first nor
// the last; so the distance between two moments grows with how long ago they were.
type history struct {
	maxMoments int
	maxBytes   int

	mu      sync.Mutex
	era     uint64    // guarded by mu: runs of the program seen so far
	lastID  uint64    // guarded by mu
	moments []*moment // guarded by mu: oldest first; the array is replaced, not changed
	bytes   int       // guarded by mu: of all moments
}

// add remembers s, which from now on belongs to the history, and reports whether it was
// new: a source that has nothing new repeats itself.
func (h *history) add(s *bgraph.Snapshot, seen time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	var last *moment
	if n := len(h.moments); n > 0 {
		last = h.moments[n-1]
		if !sameRun(last.snap, s) {
			h.moments, h.bytes, last = nil, 0, nil
		} else if last.snap.Taken.Equal(s.Taken) {
			return false
		}
	}
	if last == nil {
		h.era++
	}
	h.lastID++
	m := &moment{id: h.lastID, seen: seen, snap: s}
	for i := range s.Loops {
		m.tasks += s.Loops[i].Tasks
		m.steps += s.Loops[i].Steps
	}
	for i := range s.Starts { // of a trace, whose Ps have no tasks
		m.tasks += s.Starts[i].Now
	}
	if last != nil {
		share(last.snap, s)
		m.bytes = charge(last.snap, s)
	} else {
		m.bytes = charge(nil, s)
	}
	h.bytes += m.bytes
	h.moments = append(slices.Clip(h.moments), m)
	for len(h.moments) > max(h.maxMoments, 2) || h.bytes > h.maxBytes && len(h.moments) > 2 {
		h.drop(h.victim())
	}
	return true
}

// victim is the index of the moment that is missed least.
func (h *history) victim() int {
	n := len(h.moments)
	newest := h.moments[n-1].seen
	best, least := 1, 0.0
	for i := 1; i < n-1; i++ {
		gap := h.moments[i+1].seen.Sub(h.moments[i-1].seen)
		age := newest.Sub(h.moments[i].seen) + time.Millisecond
		if missed := float64(gap) / float64(age); i == 1 || missed < least {
			best, least = i, missed
		}
	}
	return best
}

// drop forgets moment i, which is neither the first nor the last. What the next one
// shared with it is charged to that one.
func (h *history) drop(i int) {
	m, next := h.moments[i], *h.moments[i+1]
	h.bytes -= m.bytes + next.bytes
	next.bytes = charge(h.moments[i-1].snap, next.snap)
	h.bytes += next.bytes
	kept := make([]*moment, 0, len(h.moments))
	kept = append(append(kept, h.moments[:i]...), &next)
	h.moments = append(kept, h.moments[i+2:]...)
}

// all returns the moments, oldest first, and the era they belong to. They must not be
// changed.
func (h *history) all() ([]*moment, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moments, h.era
}

func sameRun(a, b *bgraph.Snapshot) bool {
	p, q := &a.Program, &b.Program
	return p.PID == q.PID && p.Name == q.Name && p.Host == q.Host && p.Started.Equal(q.Started)
}

// share lets cur use the slices of prev where they are equal: between two moments most
// nodes keep their stack, and many of them everything.
func share(prev, cur *bgraph.Snapshot) {
	for i := range cur.Nodes {
		n := &cur.Nodes[i]
		if was := prev.Node(n.Key); was != nil {
			shareSlice(was.Stack, &n.Stack)
			shareTimes(&was.Wait, &n.Wait)
			shareTimes(&was.Ready, &n.Ready)
			shareSlice(was.Loops, &n.Loops)
		}
	}
	eachEdge(prev, cur, func(was, e *bgraph.Edge) {
		if was != nil {
			shareTimes(&was.CPU, &e.CPU)
			shareSlice(was.Changes, &e.Changes)
		}
	})
	shareSlice(prev.Overruns, &cur.Overruns)
	shareSlice(prev.Resources, &cur.Resources)
}

func shareTimes(was, is *bgraph.Times) {
	shareSlice(was.Hist, &is.Hist)
	shareSlice(was.Fine, &is.Fine)
}

func ownedTimes(was, is *bgraph.Times) int {
	return owned(was.Hist, is.Hist) + owned(was.Fine, is.Fine)
}

func shareSlice[S ~[]E, E comparable](was S, is *S) {
	if slices.Equal(was, *is) {
		*is = was
	}
}

// eachEdge calls f with every edge of cur and the same edge of prev, nil if it has none.
func eachEdge(prev, cur *bgraph.Snapshot, f func(was, is *bgraph.Edge)) {
	at := 0
	for i := range cur.Edges {
		e := &cur.Edges[i]
		for at < len(prev.Edges) && (prev.Edges[at].From < e.From || prev.Edges[at].From == e.From && prev.Edges[at].To < e.To) {
			at++
		}
		if at < len(prev.Edges) && prev.Edges[at].From == e.From && prev.Edges[at].To == e.To {
			f(&prev.Edges[at], e)
		} else {
			f(nil, e)
		}
	}
}

// charge estimates the bytes that cur holds and prev, which may be nil, does not.
func charge(prev, cur *bgraph.Snapshot) int {
	if prev == nil {
		prev = new(bgraph.Snapshot)
	}
	total := int(unsafe.Sizeof(*cur)) + owned(nil, cur.Loops) + owned(nil, cur.Nodes) + owned(nil, cur.Edges) + owned(prev.Resources, cur.Resources)
	none := new(bgraph.Node)
	for i := range cur.Nodes {
		n, was := &cur.Nodes[i], none
		if found := prev.Node(n.Key); found != nil {
			was = found
		}
		if stack := owned(was.Stack, n.Stack); stack > 0 {
			total += stack + len(n.Label) + len(n.Reason)
			for j := range n.Stack {
				total += len(n.Stack[j].Function) + len(n.Stack[j].File)
			}
		}
		total += ownedTimes(&was.Wait, &n.Wait) + ownedTimes(&was.Ready, &n.Ready) + owned(was.Wakers, n.Wakers) + owned(was.Loops, n.Loops)
	}
	noEdge := new(bgraph.Edge)
	eachEdge(prev, cur, func(was, e *bgraph.Edge) {
		if was == nil {
			was = noEdge
		}
		total += ownedTimes(&was.CPU, &e.CPU) + owned(was.Changes, e.Changes) + owned(was.Functions, e.Functions)
	})
	if own := owned(prev.Overruns, cur.Overruns); own > 0 {
		total += own
		for i := range cur.Overruns {
			total += len(cur.Overruns[i].Stack) + len(cur.Overruns[i].Task)
		}
	}
	for _, all := range [][]bgraph.Span{cur.Spans, cur.Slowest} {
		total += owned(nil, all)
		for i := range all {
			total += owned(nil, all[i].Path) + owned(nil, all[i].Timeline)
		}
	}
	if s := cur.Sched; s != nil {
		total += int(unsafe.Sizeof(*s)) + owned(nil, s.Resources) + owned(nil, s.Nodes)
		for i := range s.Nodes {
			total += len(s.Nodes[i].Held)
		}
	}
	return total
}

// owned is the size of the array of s, 0 if it is that of was.
func owned[S ~[]E, E any](was, s S) int {
	if len(s) > 0 && len(was) == len(s) && &was[0] == &s[0] {
		return 0
	}
	var e E
	return cap(s) * int(unsafe.Sizeof(e))
}
