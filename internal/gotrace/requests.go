package gotrace

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A request of net/http begins when its first bytes wake the goroutine of the connection, and ends when the last part
// of the response is written. If the handler writes that itself, the request ends when the handler has returned, or at the latest
// when the next handler begins. A request of HTTP/2 is as long as its goroutine.
//
//	none ─▶ open ─▶ (response) ─▶ next ─▶ open …
//
// After a response, the next request may be there already, so that nothing waits for it: whether it is shows when a handler begins or waits.
type request struct {
	state   requestState
	handled bool // its handler has begun
	earlier bool // it began before the trace
	begun   trace.Time
	route   *place // the function that handles it; nil: not known yet
	depth   int    // of that on the stack
	own     []piece
	lost    bool // pieces found no room
}

type requestState uint8

const (
	requestNone requestState = iota
	requestNext
	requestOpen
)

// A nodeRole is what a wait at a node says of the request of its goroutine.
type nodeRole uint8

const (
	roleNone      nodeRole = iota
	roleIdle               // the connection waits for a request
	roleHandler            // a handler waits
	roleReply              // the response has been sent
	roleNoRequest          // net/http/pprof, which serves as long as it is asked to, or a connection of HTTP/2, also below a handler (h2c)
)

const serveFunction = "net/http.(*conn).serve"

// Limits of requests.
const (
	usualSlowest = 10
	keptOwn      = 256 // pieces for which a goroutine keeps the memory
	mostSiblings = 4   // visits of one level that are looked at for the place of the next
)

// serving are the requests that are followed.
type serving struct {
	open    int // or may come next
	pieces  int // of all of them
	slowest []bgraph.Span
	levels  [][]piece // see way.level; used again
}

// setRole finds out what a wait at n says of requests.
func (m *model) setRole(n *node) {
	served := false
	for i := range n.Stack {
		switch f := n.Stack[i].Function; {
		case f == replyFunction:
			n.role = roleReply
			return
		case strings.HasPrefix(f, "net/http/pprof."), funcname.OfHTTP2(f) == funcname.HTTP2Connection:
			n.role = roleNoRequest
			return
		case f == "net/http.serverHandler.ServeHTTP", funcname.OfHTTP2(f) == funcname.HTTP2Request && i > 0 && funcname.OfHTTP2(n.Stack[i-1].Function) == "":
			served = true
		case f == serveFunction && n.Reason == "read" && !served:
			n.role = roleIdle
		}
	}
	if !served {
		return
	}
	n.role = roleHandler
	at := handlerIndex(n.Stack)
	f := &n.Stack[at]
	n.route, n.routeDepth = m.intern(place{function: f.Function, file: f.File}), len(n.Stack)-at
}

// handlerIndex is the position of the function that handles the request: the innermost that net/http calls as a handler. Of a
// router that is a module, and of an adapter of the program's, it is what they call.
func handlerIndex(stack []bgraph.Frame) int {
	at := len(stack) - 1
	for i := len(stack) - 1; i > 0 && !strings.HasPrefix(stack[i].Function, "net/http.(*Client)."); i-- {
		switch f := stack[i].Function; f {
		case "net/http.serverHandler.ServeHTTP", "net/http.HandlerFunc.ServeHTTP", "net/http.(*ServeMux).ServeHTTP":
			at = i - 1
		default:
			if funcname.OfHTTP2(f) == funcname.HTTP2Request {
				at = i - 1
			}
		}
	}
	next := func(from int) int { // the next frame of the program
		for i := from - 1; i >= 0 && !funcname.OfStandardLibrary(stack[i].Function); i-- {
			if funcname.OfProgram(stack[i].Function, stack[i].File) {
				return i
			}
		}
		return -1
	}
	f := &stack[at]
	if !funcname.OfProgram(f.Function, f.File) && !funcname.OfStandardLibrary(f.Function) {
		if inner := next(at); inner >= 0 {
			return inner
		}
		return at
	}
	for inner := next(at); inner >= 0 && isAdapter(stack[at].Function, stack[inner].Function); inner = next(at) {
		at = inner
	}
	return at
}

// isAdapter reports whether a function that handles requests seems to do so by another, which it was given.
func isAdapter(function, calls string) bool {
	name, literal := funcname.Enclosing(function)
	callee, calleeLiteral := funcname.Enclosing(calls)
	if literal {
		return calleeLiteral && name != callee
	}
	return name == "ServeHTTP" && (calleeLiteral || callee == "ServeHTTP")
}

// begin begins a request of g, at a moment up to which it has left a trail.
func (m *model) begin(g *goroutine, at trace.Time, state requestState) {
	m.drop(g)
	g.req = request{state: state, begun: at, own: g.req.own}
	g.trailed = at
	m.serving.open++
}

// drop forgets the request of g.
func (m *model) drop(g *goroutine) {
	if g.req.state == requestNone {
		return
	}
	m.serving.open--
	m.serving.pieces -= len(g.req.own)
	if g.req.own = g.req.own[:0]; cap(g.req.own) > keptOwn {
		g.req.own = nil
	}
	g.req = request{own: g.req.own}
}

// visit notes that g arrives at a node, after its trail up to that moment.
func (m *model) visit(g *goroutine, n *node, until trace.Time) {
	switch {
	case n.role == roleIdle || n.role == roleNoRequest:
		m.drop(g)
	case n.role == roleHandler:
		if g.req.state == requestNone {
			began := until
			if g.fresh && g.steps == 1 {
				began = g.born
			}
			m.begin(g, began, requestOpen)
			m.addTrail(g, pieceStep, until, 0, nil)
		}
		g.req.state, g.req.handled = requestOpen, true
		if n.routeDepth > g.req.depth {
			g.req.route, g.req.depth = n.route, n.routeDepth
		}
	}
}

// hasReplied reports whether the handler of g has sent all of the response itself, past the buffer of net/http, which then has nothing left
// to write: g comes to wait for the end of the read that net/http does meanwhile, or for the next request.
func (g *goroutine) hasReplied(n *node) bool {
	return g.req.state == requestOpen && (n.role == roleReply && n.Reason == "cond" || n.role == roleIdle && g.req.handled)
}

// beginHandler notes that a handler begins, if e creates the goroutine by which net/http reads the connection meanwhile. The response
// before has been sent then.
func (m *model) beginHandler(e *trace.Event) {
	g := m.all.get(e.Goroutine())
	if g == nil || g.req.state == requestNone || !precedesHandler(e.Stack()) {
		return
	}
	if g.req.state == requestOpen && g.req.handled {
		m.reply(g, e, e.Stack())
	}
	g.req.state, g.req.handled = requestOpen, true
}

// precedesHandler reports whether net/http begins to read the connection before it calls the handler. If the request has a body, the
// handler does so when it has read that.
func precedesHandler(of trace.Stack) bool {
	called := ""
	for f := range of.Frames() {
		if called == "net/http.(*connReader).startBackgroundRead" {
			return f.Func == serveFunction
		}
		called = f.Func
	}
	return false
}

// woken notes that a wait of g at its node is over.
func (m *model) woken(g *goroutine) {
	switch {
	case g.at.role == roleIdle:
		m.begin(g, m.now, requestOpen)
	case g.at.role == roleReply && g.req.state == requestNext:
		m.begin(g, m.now, requestNext)
	}
}

// found notes that g has waited at its node since before the trace began.
func (m *model) found(g *goroutine) {
	if g.at.role == roleHandler {
		m.begin(g, m.first, requestOpen)
		g.req.handled, g.req.earlier, g.req.route, g.req.depth = true, true, g.at.route, g.at.routeDepth
	}
}

// own adds a piece to those of the request of g.
func (m *model) own(g *goroutine, p piece) {
	if len(g.req.own) >= longestWay || m.serving.pieces >= maxPieces {
		g.req.lost = true
		return
	}
	g.req.own = append(g.req.own, p)
	m.serving.pieces++
}

// noRoute stands for handlers that don't wait, as nothing tells then which one it was.
const noRoute = "handlers that never wait"

func (r *request) name() string {
	if r.route == nil {
		return noRoute
	}
	return clean(r.route.function)
}

// endRequest counts the request of g, which ends now.
func (m *model) endRequest(g *goroutine) {
	r := &g.req
	if r.state != requestOpen {
		return
	}
	took := m.now.Sub(r.begun)
	if !r.earlier {
		m.span("request", r.name(), took)
		if parts := m.partsOf("request", r.name()); parts != nil {
			w := m.newWay(parts)
			w.whole = true
			for _, p := range r.own {
				w.piece(p, 0, nil)
			}
		}
	}
	if m.isSlow(bgraph.Nanos(took)) {
		m.addSlow(m.slowRequest(g))
	}
}

// slowRequest tells of the request of g, up to now.
func (m *model) slowRequest(g *goroutine) bgraph.Span {
	r := &g.req
	w := m.newWay(nil)
	w.line = newTimeline(r.begun)
	tree := newVisits(r.begun)
	for _, p := range r.own {
		w.piece(p, 0, tree)
	}
	begun := r.begun.Sub(m.first)
	if !r.earlier {
		begun = max(begun, 1)
	}
	slow := tree.span("request", r.name(), begun, m.now.Sub(r.begun))
	slow.Timeline = w.line.longest()
	return slow
}

// isSlow reports whether a request or task that took so long is one of the slowest so far.
func (m *model) isSlow(took bgraph.Nanos) bool {
	all := m.serving.slowest
	return len(all) < m.o.Slowest || took > all[len(all)-1].Times.Sum
}

func (m *model) addSlow(r bgraph.Span) {
	all := append(m.serving.slowest, r)
	slices.SortStableFunc(all, func(a, b bgraph.Span) int { return cmp.Compare(b.Times.Sum, a.Times.Sum) })
	m.serving.slowest = all[:min(len(all), m.o.Slowest)]
}

// openRequests adds the requests that have not ended when the trace does.
func (m *model) openRequests() {
	for _, g := range m.all.byID {
		if g.req.state != requestOpen || g.req.route == nil || !m.isSlow(bgraph.Nanos(m.now.Sub(g.req.begun))) {
			continue
		}
		kind := pieceStep
		switch {
		case g.folded || g.state == stateRunning || g.state == stateCalling:
		case g.state == stateReady:
			kind = pieceReady
		default:
			kind = pieceWait
		}
		m.addTrail(g, kind, m.now, 0, nil)
		r := m.slowRequest(g)
		r.Open = true
		m.addSlow(r)
	}
}

// visits are the places that a request has been at, as a tree: below each are those of the goroutines that ended its waits.
type visits struct {
	bgraph.PathPart
	base    trace.Time // of the request
	longest bgraph.Nanos
	above   *visits // nil: none
	below   []*visits
}

func newVisits(base trace.Time) *visits {
	return &visits{base: base, PathPart: bgraph.PathPart{Depth: -1}}
}

// at returns the visit for a piece: that of one of the latest places, if it is the same. Of a lock that many queue for, each has
// waited for the one before, which is one place.
func (v *visits) at(p *piece) *visits {
	for up := v; up != nil && up.Depth > 0; up = up.above {
		if up.Node == p.node.Key {
			return up
		}
	}
	for i := len(v.below) - 1; i >= max(len(v.below)-mostSiblings, 0); i-- {
		if v.below[i].Node == p.node.Key {
			return v.below[i]
		}
	}
	next := &visits{base: v.base, above: v, PathPart: bgraph.PathPart{Node: p.node.Key, Depth: v.Depth + 1, From: bgraph.Nanos(p.from.Sub(v.base))}}
	v.below = append(v.below, next)
	return next
}

// count adds what is known of a piece up to a moment.
func (v *visits) count(p *piece, until trace.Time) {
	d := bgraph.Nanos(until - p.from)
	switch p.kind {
	case pieceStep:
		v.Step += d
	case pieceReady:
		v.Ready += d
	default:
		v.Wait += d
		v.Count += p.visits()
		if whole := bgraph.Nanos(p.to - p.from); whole >= v.longest && p.by != nil {
			v.longest, v.By = whole, bgraph.Frame{Function: clean(p.by.function), File: clean(p.by.file), Line: p.by.line}
		}
	}
}

// span is the request with its visits. If there are too many it has the longest ones, and the others together.
func (v *visits) span(kind, name string, begun, took time.Duration) bgraph.Span {
	out := bgraph.Span{Kind: kind, Name: clean(name), Begun: bgraph.Nanos(begun)}
	out.Times.Add(bgraph.Nanos(took))
	var all []*visits
	var list func(v *visits)
	list = func(v *visits) {
		for _, b := range v.below {
			all = append(all, b)
			list(b)
		}
	}
	list(v)
	least, longer := bgraph.Nanos(0), graphlimits.Path
	if len(all) > graphlimits.Path {
		times := make([]bgraph.Nanos, len(all))
		for i, b := range all {
			times[i] = b.Total()
		}
		slices.Sort(times)
		least, longer = times[len(times)-graphlimits.Path+1], graphlimits.Path-1
	}
	rest := bgraph.PathPart{Node: bgraph.KeyOverflow}
	for _, b := range all {
		if b.Total() >= least && longer > 0 {
			out.Path = append(out.Path, b.PathPart)
			longer--
			continue
		}
		rest.Step, rest.Wait, rest.Ready = rest.Step+b.Step, rest.Wait+b.Wait, rest.Ready+b.Ready
		rest.Count += max(b.Count, 1)
	}
	if rest.Count > 0 {
		out.Path = append(out.Path, rest)
	}
	return out
}
