package gotrace

import (
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// A goroutine, as far as the trace has told.
//
//	created ─▶ ready ─▶ running ─▶ waiting ─▶ ready …
//	                     │  ▲
//	                     ▼  │
//	       folded: preempted, in a system call, waiting for the collector
type goroutine struct {
	id      uint32 // the lower half of its id
	state   state
	since   trace.Time // when the state began
	born    trace.Time // or when the trace began
	fresh   bool       // born in the trace
	known   bool       // the beginning of the step is in the trace
	at      *node      // where it waits or last waited
	start   *start
	steps   uint64        // that have ended
	ran     time.Duration // of the step, up to since
	parts   bgraph.Parts  // of the step
	sampled []*place      // of the step
	proc    trace.ProcID  // where it last ran
	folded  bool          // waits or is ready within a step
	timed   bool          // the beginning of the wait or system call is in the trace

	assisting bool
	regions   []trace.Time // when the regions began that it is in
	unseen    uint64       // regions inside of these that are not followed
	callStack trace.Stack  // of the system call

	req request // that it serves

	trail   uint64     // number of its latest piece; 0: none
	trailed trace.Time // up to where that goes
}

type state uint8

const (
	stateReady state = iota
	stateRunning
	stateWaiting
	stateCalling
)

// stalled: a goroutine that has had a P for so long has not run all of that time. The Go runtime looks every
// 10 ms, at times every 20, and preempts a goroutine that has run for 10.
const stalled = 30 * time.Millisecond

// account adds the time since the state began to what it belongs to, and begins anew.
func (m *model) account(g *goroutine) {
	now := m.now
	d := max(now.Sub(g.since), 0)
	switch {
	case g.state == stateRunning:
		g.ran += d
		if d >= stalled && g.start.Function != "" && !g.start.system {
			m.stalled.Add(bgraph.Nanos(d))
		}
		if g.assisting {
			g.parts.Assist += bgraph.Nanos(d)
		}
		g.since = now
	case g.state == stateReady && g.folded:
		g.parts.Preempted += bgraph.Nanos(d)
		g.since = now
	case g.state == stateWaiting && g.folded:
		g.parts.Folded += bgraph.Nanos(d)
		g.since = now
	}
}

// waits reports whether the goroutine is at its node.
func (g *goroutine) waits() bool {
	return !g.folded && (g.state == stateWaiting || g.state == stateReady)
}

// transition handles a change of the state of a goroutine.
func (m *model) transition(e *trace.Event, st *trace.StateTransition) {
	id := st.Resource.Goroutine()
	from, to := st.Goroutine()
	g := m.all.get(id)
	if g == nil {
		if to == trace.GoNotExist {
			return
		}
		if g = m.appear(e, st, id, from); g == nil {
			return
		}
		g.set(to, m.now)
		switch {
		case to == trace.GoRunning:
			g.proc = e.Proc()
		case to == trace.GoWaiting && !g.fresh:
			g.since = m.first
		case to == trace.GoSyscall && !g.fresh:
			g.since, g.callStack = m.first, st.Stack
		}
		return
	}
	if from == to || from == trace.GoUndetermined {
		m.again(g, to, st)
		return
	}
	switch {
	case to == trace.GoNotExist:
		m.end(g, e)
		m.inside -= len(g.regions)
		m.all.remove(id, g)
	case to == trace.GoSyscall:
		m.account(g)
		if g.start.Function == "" {
			m.learn(g, st.Reason, st.Stack)
		}
		if m.isReply(g, st.Stack) {
			m.reply(g, e, st.Stack)
		}
		g.callStack, g.timed = st.Stack, true
		g.set(to, m.now)
	case from == trace.GoSyscall:
		m.endCall(g, to, e)
	case to == trace.GoWaiting:
		m.block(g, st, e)
	case from == trace.GoWaiting:
		m.wake(g, e)
		if to == trace.GoRunning {
			m.run(g, e)
		}
	case to == trace.GoRunnable: // preempted, or has yielded
		if g.start.Function == "" {
			m.learn(g, st.Reason, st.Stack)
		}
		if g.state == stateRunning && m.now.Sub(g.since) >= longStep/2 && !g.start.system {
			m.addSample(g, st.Stack) // the Go runtime looks every 10 ms, as a profile does
		}
		m.account(g)
		g.folded = true
		g.set(to, m.now)
	case to == trace.GoRunning:
		m.run(g, e)
	}
}

// again handles what a new generation says of a goroutine that is known: where it waits may be
// news.
func (m *model) again(g *goroutine, to trace.GoState, st *trace.StateTransition) {
	if g.state == stateCalling && g.callStack == trace.NoStack {
		g.callStack = st.Stack
	}
	if g.at != m.unknown || to != trace.GoWaiting || st.Stack == trace.NoStack {
		return
	}
	m.learn(g, st.Reason, st.Stack)
	if g.at.here--; !g.start.system {
		m.find(g, st)
	} else {
		g.at, g.folded = m.special[bgraph.KeyStart], true
	}
}

func (g *goroutine) set(to trace.GoState, now trace.Time) {
	g.since = now
	switch to {
	case trace.GoRunning:
		g.state = stateRunning
	case trace.GoWaiting:
		g.state = stateWaiting
	case trace.GoSyscall:
		g.state = stateCalling
	default:
		g.state = stateReady
	}
}

// appear makes a goroutine that is created, or was there when the trace began.
func (m *model) appear(e *trace.Event, st *trace.StateTransition, id trace.GoID, from trace.GoState) *goroutine {
	if len(m.all.byID) >= m.o.MaxGoroutines {
		m.left++
		return nil
	}
	g := m.all.add(id)
	g.born, g.proc = m.first, trace.NoProc
	if from == trace.GoNotExist {
		m.beginHandler(e)
		g.start = m.started(st.Stack, true)
		g.start.Created++
		g.born = m.now
		g.fresh, g.known, g.timed = true, true, true
		g.at = m.special[bgraph.KeyStart]
		if !g.start.system {
			g.at.Arrivals++
			g.at.enter()
			g.at.wokenBy(m.waker(e, g.at))
		}
		g.trail, g.trailed = m.trailOf(e, false), m.now
		if g.start.Function == serveFunction || funcname.OfHTTP2(g.start.Function) == funcname.HTTP2Request {
			m.begin(g, m.now, requestOpen)
		}
		return g
	}
	g.start = m.started(st.Stack, false)
	_, to := st.Goroutine()
	switch {
	case to == trace.GoWaiting && !g.start.system:
		m.find(g, st)
	default:
		g.at = m.special[bgraph.KeyStart]
		g.folded = true // in the middle of a step
	}
	return g
}

// find says where a goroutine waits that has done so since before the trace began.
func (m *model) find(g *goroutine, st *trace.StateTransition) {
	g.at = m.unknown
	if st.Stack != trace.NoStack {
		if g.at = m.node(m.unknown, st.Reason, "", st.Stack); g.at == nil {
			g.at, g.folded = m.special[bgraph.KeyStart], true // in the middle of a step
			return
		}
	}
	g.at.enter()
	m.found(g)
}

// block begins a wait.
func (m *model) block(g *goroutine, st *trace.StateTransition, e *trace.Event) {
	m.account(g)
	if g.start.Function == "" {
		m.learn(g, st.Reason, st.Stack)
	}
	var at *node
	if !g.start.system {
		at = m.node(g.at, st.Reason, "", st.Stack)
	}
	if at == nil {
		g.folded = true
		g.set(trace.GoWaiting, m.now)
		return
	}
	if g.hasReplied(at) {
		m.reply(g, e, st.Stack)
	}
	m.arrive(g, at, e.Proc(), m.now)
	g.timed = true
	g.set(trace.GoWaiting, m.now)
}

// arrive ends the step, which went on until then, at a node.
func (m *model) arrive(g *goroutine, n *node, p trace.ProcID, until trace.Time) {
	m.trail(g, pieceStep, until, 0, nil)
	g.steps++
	m.step(g, n, p)
	m.visit(g, n, until)
	g.at, g.folded = n, false
	if !g.start.system {
		n.Arrivals++
		n.enter()
	}
}

// wake ends a wait.
func (m *model) wake(g *goroutine, e *trace.Event) {
	if g.folded {
		m.account(g)
		g.set(trace.GoRunnable, m.now)
		return
	}
	if !g.start.system {
		if g.timed {
			g.at.Wait.Add(bgraph.Nanos(m.now.Sub(g.since)))
		}
		by := m.waker(e, g.at)
		g.at.wokenBy(by)
		m.together(g.at, e)
		m.trail(g, pieceWait, m.now, m.trailOf(e, by == nil), by)
		m.woken(g)
	}
	g.set(trace.GoRunnable, m.now)
	g.timed = true
}

// run lets g run: a wait is over, or a step goes on.
func (m *model) run(g *goroutine, e *trace.Event) {
	if p := e.Proc(); p != g.proc {
		if g.proc != trace.NoProc {
			g.parts.Moves++
		}
		g.proc = p
	}
	if g.folded {
		m.account(g)
		g.folded = false
	} else if g.state == stateReady && !g.start.system {
		if g.timed {
			g.at.Ready.Add(bgraph.Nanos(m.now.Sub(g.since)))
		}
		m.trail(g, pieceReady, m.now, 0, nil)
		g.at.leave()
		if !g.known {
			g.start.used(g.ran)
			g.ran, g.parts, g.sampled, g.known = 0, bgraph.Parts{}, g.sampled[:0], g.at.Key > bgraph.KeyStart
		}
	}
	g.set(trace.GoRunning, m.now)
}

// endCall ends a system call: a long call counts as a wait.
func (m *model) endCall(g *goroutine, to trace.GoState, e *trace.Event) {
	d := m.now.Sub(g.since)
	g.parts.Calls++
	if m.o.Raw || d >= m.o.LongCall {
		m.longCall(g, e.Proc())
		m.trail(g, pieceWait, m.now, 0, nil)
		if g.timed && !g.start.system {
			g.at.Wait.Add(bgraph.Nanos(d))
		}
		g.set(trace.GoRunnable, m.now)
		g.timed = true
		if to == trace.GoRunning {
			m.run(g, e)
		}
		return
	}
	g.parts.System += bgraph.Nanos(d)
	g.folded = to != trace.GoRunning
	g.set(to, m.now)
}

// longCall gives the system call of g a node, as a wait has.
func (m *model) longCall(g *goroutine, p trace.ProcID) {
	n := m.node(g.at, callReason, "", g.callStack)
	switch {
	case g.timed || g.start.system:
		m.arrive(g, n, p, g.since)
	default: // it began before the trace
		g.at, g.folded = n, false
		n.enter()
		m.found(g)
	}
}

// end is the end of a goroutine.
func (m *model) end(g *goroutine, e *trace.Event) {
	end := m.special[bgraph.KeyEnd]
	if g.start.Function != serveFunction { // of HTTP/2
		m.trail(g, pieceStep, m.now, 0, nil)
		m.endRequest(g)
	}
	m.drop(g)
	m.step(g, end, e.Proc())
	g.start.Ended++
	if !g.start.system {
		end.Arrivals++
		end.enter()
		end.leave()
	}
	if g.fresh {
		g.start.Life.Add(bgraph.Nanos(m.now.Sub(g.born)))
	}
}

// cut ends the step at a place of the program where nothing is waited for.
func (m *model) cut(e *trace.Event, reason, label string) {
	g := m.all.get(e.Goroutine())
	if g == nil || g.state != stateRunning {
		return
	}
	m.passBy(g, m.node(g.at, reason, label, e.Stack()), e.Proc())
}

// passBy ends the step at a node and begins the next there at once.
func (m *model) passBy(g *goroutine, n *node, p trace.ProcID) {
	m.arrive(g, n, p, m.now)
	if !g.start.system {
		n.leave()
	}
	g.since = m.now
}

// reply cuts the step where net/http sends the last part of a response, or where the handler is found to have sent it.
func (m *model) reply(g *goroutine, e *trace.Event, stack trace.Stack) {
	n := m.node(g.at, responseReason, "", stack)
	if g.at != n || g.req.state == requestOpen { // not a second write of the same response
		m.passBy(g, n, e.Proc())
		m.endRequest(g)
		m.begin(g, m.now, requestNext)
	}
}

const responseReason = "response"

// callReason is that of system calls that are waits of their own.
const callReason = "system call"

const replyFunction = "net/http.(*response).finishRequest"

// beginRegion begins a region of g. They are nested, which package trace sees to.
func (m *model) beginRegion(g *goroutine) {
	if g.unseen > 0 || m.inside >= m.o.MaxGoroutines {
		g.unseen++
		m.note("there were more regions at a time than are followed")
		return
	}
	m.inside++
	g.regions = append(g.regions, m.now)
}

// endRegion ends the region of g that has begun last.
func (m *model) endRegion(g *goroutine, name string) {
	last := len(g.regions) - 1
	switch {
	case g.unseen > 0:
		g.unseen--
	case last >= 0: // else it began before the trace
		m.span("region", name, m.now.Sub(g.regions[last]))
		g.regions = g.regions[:last]
		m.inside--
	}
}
