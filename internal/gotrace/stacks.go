package gotrace

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A stack is what has been found out about one of a generation, so that its frames are
// looked at once.
type stack struct {
	nodes  []nodeAt // of waits there, by reason and label: mostly one
	waker  *place   // nil: not known, or it has none
	sample *place   // nil: not known
	start  *start   // of goroutines that begin at its outermost frame, which is at that line; nil: not known
	line   int
	known  answers
}

type nodeAt struct {
	reason, label string
	*node         // nil: waits there end no step
}

// answers are bits: which questions have been asked of a stack, and to which the answer is yes.
type answers uint8

const (
	wakerAsked answers = 1 << iota
	polls
	broadcasts
	replyAsked
	isReply
	bySync // the waker is package sync
)

// ask answers a question about a stack from what is known, or by fn.
func (s *stack) ask(asked, yes answers, of trace.Stack, fn func(trace.Stack) bool) bool {
	if s.known&asked == 0 {
		s.known |= asked
		if fn(of) {
			s.known |= yes
		}
	}
	return s.known&yes != 0
}

// A nearStack is one that events of goroutines at a node had of late.
type nearStack struct {
	of trace.Stack
	*stack
}

// stack returns what is known of a stack of an event that is about a goroutine at n. What comes
// after a node is mostly the same, so that the map is hardly ever needed.
func (m *model) stack(n *node, of trace.Stack) *stack {
	for i := range n.near {
		if near := &n.near[i]; near.of == of && near.stack != nil {
			return near.stack
		}
	}
	s := m.stacks[of]
	if s == nil {
		s = new(stack)
		m.stacks[of] = s
	}
	n.near[n.nearTurn] = nearStack{of, s}
	n.nearTurn = (n.nearTurn + 1) % uint8(len(n.near))
	return s
}

// node returns the node of a wait with that reason and stack, of a goroutine that was last at
// from; nil if such waits end no step.
func (m *model) node(from *node, reason, label string, of trace.Stack) *node {
	s := m.stack(from, of)
	for i := range s.nodes {
		if at := &s.nodes[i]; at.reason == reason && at.label == label {
			return at.node
		}
	}
	if !m.o.Raw && isFolded(reason, of) {
		s.nodes = append(s.nodes, nodeAt{reason, label, nil})
		return nil
	}
	frames := framesOf(of)
	kind := refine(reason, frames)
	frames = trim(frames)
	if kind == responseReason {
		index := func(function string) int {
			return slices.IndexFunc(frames, func(f bgraph.Frame) bool { return f.Function == function })
		}
		if i := index(replyFunction); i >= 0 {
			frames = frames[i:] // however it was written
		} else if i := index(serveFunction); i >= 0 { // the handler has written it
			frames = append([]bgraph.Frame{{Function: replyFunction, File: frames[i].File}}, frames[i:]...)
		}
	}
	k := keyOf(kind, label, frames)
	n := m.keep(k, kind, label, frames)
	if n.Key != bgraph.KeyOverflow {
		n.outside = kind == "sleep" || kind == "network" || slices.Contains(pollWaits, kind)
		s.nodes = append(s.nodes, nodeAt{reason, label, n})
	}
	return n
}

// keep returns the node with that key, or the overflow node if there is no room for it.
func (m *model) keep(k bgraph.Key, reason, label string, frames []bgraph.Frame) *node {
	n := m.nodes[k]
	if n == nil {
		if len(m.nodes) >= m.o.MaxNodes {
			m.overflow.Nodes++
			return m.special[bgraph.KeyOverflow]
		}
		n = &node{Node: bgraph.Node{Key: k, Reason: clean(reason), Label: clean(label), Stack: frames}}
		m.nodes[k] = n
		m.setRole(n)
	}
	return n
}

// runningReason is that of places which are no waits: where a goroutine was in the middle of a long
// step when the trace began or ended.
const runningReason = "running"

// running returns the node of goroutines that began at st and computed when the trace began or ended.
func (m *model) running(st *start) *node {
	if st.running == nil {
		at := bgraph.Frame{Function: clean(st.Function), File: clean(st.File), Line: st.Line}
		key := keyOf(runningReason, at.Function, nil) // without the line, which is that of any moment
		st.running = m.keep(key, runningReason, "", []bgraph.Frame{at})
	}
	return st.running
}

// pollWaits are for the network and the like. They end when the scheduler looks there, which
// it may do wherever it is called; or when the program sets a deadline or closes.
var pollWaits = []string{"read", "write", "accept", "connect"}

// waker is the place that ended a wait at n; nil if the scheduler did.
func (m *model) waker(e *trace.Event, n *node) *place {
	if e.Goroutine() == trace.NoGoroutine {
		return nil
	}
	of := e.Stack()
	s := m.stack(n, of)
	if s.known&wakerAsked == 0 {
		s.known |= wakerAsked
		frames := framesOf(of)
		if slices.ContainsFunc(frames, func(f bgraph.Frame) bool { return strings.HasPrefix(f.Function, "internal/poll.") }) {
			s.known |= polls
		}
		if slices.ContainsFunc(frames, func(f bgraph.Frame) bool { return f.Function == "sync.(*Cond).Broadcast" }) {
			s.known |= broadcasts
		}
		n := bgraph.Node{Stack: trim(frames)}
		if f := n.Place(); f != nil && !ofRuntime(f.Function) {
			s.waker = m.intern(place{f.Function, f.File, f.Line})
			if strings.HasPrefix(f.Function, "sync.") {
				s.known |= bySync
			}
		}
	}
	if n.outside && s.known&polls == 0 {
		return nil
	}
	if s.known&bySync != 0 {
		if w := m.all.get(e.Goroutine()); w != nil && w.at != nil {
			if at := m.placeOf(w.at); at != nil {
				return at
			}
		}
	}
	return s.waker
}

// placeOf is the outermost function of the program on the stack of a wait at n, nil if there is none. It stands for a goroutine that
// has come from there if the end of a wait tells nothing itself, as that of a sync.WaitGroup by its method Go.
func (m *model) placeOf(n *node) *place {
	if n.place == nil {
		n.place = &scheduler
		if f := n.Place(); f != nil && !funcname.OfStandardLibrary(f.Function) {
			f = cmp.Or(words.Outermost(n.Stack), f)
			n.place = m.intern(place{f.Function, f.File, f.Line})
		}
	}
	if n.place == &scheduler {
		return nil
	}
	return n.place
}

// sampled is the innermost function that a sample of a CPU profile was in, but for those of the
// Go runtime.
func (m *model) sampled(g *goroutine, of trace.Stack) *place {
	s := m.stack(g.at, of)
	if s.sample == nil {
		at := place{function: "not known"}
		if frames := trim(framesOf(of)); len(frames) > 0 {
			at = place{frames[0].Function, frames[0].File, frames[0].Line}
		}
		s.sample = m.intern(at)
	}
	return s.sample
}

// isReply reports whether a system call is part of the end of a response of net/http.
func (m *model) isReply(g *goroutine, of trace.Stack) bool {
	return m.stack(g.at, of).ask(replyAsked, isReply, of, func(of trace.Stack) (is bool) {
		for f := range of.Frames() {
			is = is || f.Func == replyFunction
		}
		return is
	})
}

// isFolded reports whether a wait ends no step, as what is waited for is the Go runtime.
func isFolded(reason string, of trace.Stack) bool {
	switch reason {
	case "preempted", "wait for debug call":
		return true
	case "sync":
		return waitsForCollector(of)
	}
	return strings.HasPrefix(reason, "GC ") || strings.HasPrefix(reason, "wait until GC")
}

// waitsForCollector looks for what called the semaphore of the runtime.
func waitsForCollector(of trace.Stack) bool {
	for f := range of.Frames() {
		switch {
		case f.Func == "runtime.gopark", f.Func == "runtime.goparkunlock", strings.HasPrefix(f.Func, "runtime.sem"):
		default:
			return strings.HasPrefix(f.Func, "runtime.gc") || strings.HasPrefix(f.Func, "runtime.stopTheWorld") || strings.HasPrefix(f.Func, "runtime.mallocgc")
		}
	}
	return false
}

// goroutines are those alive, by id. The few that run at a time are found without the map.
type goroutines struct {
	byID  map[trace.GoID]*goroutine
	ended []*goroutine // to be used again
	near  [256]struct {
		id trace.GoID
		g  *goroutine // nil: empty
	}
}

func newGoroutines() goroutines { return goroutines{byID: map[trace.GoID]*goroutine{}} }

func (a *goroutines) get(id trace.GoID) *goroutine {
	at := &a.near[uint64(id)%uint64(len(a.near))]
	if at.id != id || at.g == nil {
		g := a.byID[id]
		if g == nil {
			return nil
		}
		at.id, at.g = id, g
	}
	return at.g
}

func (a *goroutines) add(id trace.GoID) *goroutine {
	var g *goroutine
	if last := len(a.ended) - 1; last >= 0 {
		g, a.ended = a.ended[last], a.ended[:last]
		*g = goroutine{id: uint32(id), sampled: g.sampled[:0], regions: g.regions[:0], req: request{own: g.req.own[:0]}}
	} else {
		g = &goroutine{id: uint32(id)}
	}
	a.byID[id] = g
	return g
}

func (a *goroutines) remove(id trace.GoID, g *goroutine) {
	delete(a.byID, id)
	a.ended = append(a.ended, g)
	if at := &a.near[uint64(id)%uint64(len(a.near))]; at.id == id {
		at.g = nil
	}
}
