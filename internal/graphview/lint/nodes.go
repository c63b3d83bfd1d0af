package lint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Kinds of waits, by the names that package task gives them. Those that are in no
// list are for the outside world or for time: there, waiting long or in crowds is
// nothing special.
var (
	lockWaits = []string{"mutex", "rwmutex read", "rwmutex write", "semaphore", "pool"}
	// queueWaits are for something that is scarce: all that wait want to go on.
	queueWaits = []string{"mutex", "rwmutex read", "rwmutex write", "semaphore", "pool", "once", "channel send", "offload", "disk", "connect", "write"}
	// certainWaits are waits for other tasks that no program wants to be long.
	certainWaits = []string{"mutex", "rwmutex read", "rwmutex write", "semaphore", "pool", "once", "channel send"}
	// idleWaits are waits for other tasks too, but also the waits of idle workers.
	idleWaits = []string{"cond", "channel receive", "join", "waitgroup", "offload"}
)

// locks finds convoys: many tasks that wait long for a lock which each keeps for a
// short time.
func (l *linter) locks() {
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		switch {
		case !isPlace(n.Key) || n.Wait.Count < minSamples || l.foreign(n):
		case slices.Contains(lockWaits, n.Reason):
			l.convoy(n)
		case n.Reason == "cond":
			l.wokenForNothing(n)
		}
	}
}

func (l *linter) convoy(n *bgraph.Node) {
	out := l.from(n.Key)
	var ran, steps float64
	for i := range out {
		ran += float64(out[i].TotalCPU())
		steps += float64(out[i].Count)
	}
	wait := n.MeanWait()
	queued := words.PerSecond(l.s, n.Departures) * wait.Duration().Seconds() // Little's law
	if l.convoys[n.Key] || steps == 0 || queued < convoyTasks || float64(wait) < convoyFactor*ran/steps {
		return
	}
	l.convoys[n.Key] = true
	f := Finding{Severity: SeverityWarning, Check: CheckConvoy, Node: n.Key}
	f.Message = fmt.Sprintf("%s {tasks} queue here on average (now %s, at most %s); each waits for %v, then runs for %v.",
		words.Rate(queued), words.Count(n.Now), words.Count(n.Peak), wait, bgraph.Nanos(ran/steps))
	slow := false
	holders := l.holders(out)
	for i, h := range holders[:min(3, len(holders))] {
		if i > 0 && float64(h.count) < rareHolder*steps {
			continue
		}
		f.Message += " " + h.text
		slow = slow || h.over > bgraph.Nanos(ran/steps)*10
	}
	f.Advice = "Do less while the lock is held, or use several locks, one for each part of what it guards."
	if slow {
		f.Advice = "The lock seems to be held while the {task} waits for something else. Release it before that wait, or use several locks, one for each part of what it guards."
	}
	if n.Reason == "pool" {
		f.Advice = poolAdvice(n)
	}
	if n.Reason == "semaphore" {
		f.Severity = SeverityInfo
		f.Advice = "That may be meant: a semaphore limits what goes on at a time. If it is not, raise its limit, or turn work away before it gets here."
	}
	l.addTimed(queued, n.Wait.Sum, f)
}

// rareHolder is the share of the steps that leave a lock below which a kind of them is not told of.
const rareHolder = 0.01

// A holder is a step that leaves a lock's node, and so begins with the lock held.
type holder struct {
	text  string
	count uint64
	share float64
	over  bgraph.Nanos // mean wait at its end, where the lock may still be held
}

// holders ranks the steps by the time that they, with the wait they lead to, may take
// the lock for.
func (l *linter) holders(out []bgraph.Edge) []holder {
	var all []holder
	for i := range out {
		e := &out[i]
		h := holder{count: e.Count, text: fmt.Sprintf("%s of them then run to %s for %v", words.Count(e.Count), l.name(e.To), e.MeanCPU())}
		if to := l.s.Node(e.To); to != nil && e.To != e.From && isPlace(e.To) && to.Wait.Sum > 0 {
			h.over = to.MeanWait()
			h.text += fmt.Sprintf(" and wait there for %v", h.over)
		}
		h.text += "."
		h.share = float64(e.Count) * float64(e.MeanCPU()+h.over)
		all = append(all, h)
	}
	slices.SortStableFunc(all, func(a, b holder) int { return cmp.Compare(b.share, a.share) })
	return all
}

// wokenForNothing finds condition variables with many spurious wake-ups: most of the tasks that they wake
// wait again at once.
func (l *linter) wokenForNothing(n *bgraph.Node) {
	var all, back uint64
	for _, e := range l.from(n.Key) {
		all += e.Count
		if e.To == n.Key {
			back += e.Count - min(e.Count, e.Parts.Calls) // a step with a system call did something
		}
	}
	if l.s.Kind == bgraph.KindGoroutines && n.Together < n.Departures/2 { // each was woken by itself, for something
		return
	}
	if back < all/2+1 || float64(n.Peak) < convoyTasks || words.PerSecond(l.s, back) < 100 {
		return
	}
	l.convoys[n.Key] = true
	l.addTimed(float64(back), math.MaxInt64, Finding{ // that many are not the kernel's doing
		Severity: SeverityWarning, Check: CheckConvoy, Node: n.Key,
		Message: l.wokenBy(n) + fmt.Sprintf("Of %s wake-ups %s (%s) led straight back to this wait: the {tasks} were woken for nothing, %s times a second. At most %s waited at a time.",
			words.Count(all), words.Count(back), words.Percent(words.Ratio(float64(back), float64(all))), words.Rate(words.PerSecond(l.s, back)), words.Count(n.Peak)),
		Advice: "Use Signal instead of Broadcast where one {task} can go on, or a condition variable for each thing that is waited for.",
	})
}

// wokenBy says which function wakes all tasks that wait at a condition variable, "" if that is not known.
func (l *linter) wokenBy(n *bgraph.Node) string {
	by, _ := waker(n)
	place := n.Place()
	if by.Function == "" || place == nil || l.s.Kind != bgraph.KindGoroutines {
		return ""
	}
	return fmt.Sprintf("%s wakes all that wait at %s by Broadcast, though few of them can go on. ", words.At(by.Function, by.File, by.Line), atFrame(place))
}

// piles finds places where tasks gather.
func (l *linter) piles() {
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if !isPlace(n.Key) || l.convoys[n.Key] || l.foreign(n) && n.Reason != "write" { // clients that do not read are the program's affair
			continue
		}
		queue := slices.Contains(queueWaits, n.Reason)
		grown := int64(n.Arrivals - n.Departures)
		stay := (n.MeanWait() + n.Ready.Mean()).Duration()
		expected := words.PerSecond(l.s, n.Departures) * stay.Seconds()
		f := Finding{Severity: SeverityWarning, Check: CheckPileUp, Node: n.Key, Advice: pileAdvice(n)}
		switch {
		case l.s.Period && grown >= pileTasks && float64(grown) >= 0.1*float64(n.Arrivals):
			f.Message = fmt.Sprintf("In %v %s {tasks} came and %s left: %s more than before, now %s.",
				l.s.Span, words.Count(n.Arrivals), words.Count(n.Departures), words.Count(grown), words.Count(n.Now))
			if !queue {
				f.Severity = SeverityInfo
			}
		case queue && n.Now >= pileTasks && n.Departures == 0:
			f.Message = fmt.Sprintf("%s {tasks} wait here, and in %v none has left.", words.Count(n.Now), l.s.Span)
		case n.Reason == "channel send" && expected >= pileTasks && stay >= sendLimit:
			f.Message = fmt.Sprintf("%s {tasks} queue here on average, each for %v: the receivers take %s values a second.",
				words.Rate(expected), bgraph.Nanos(stay), words.Rate(words.PerSecond(l.s, n.Departures)))
		case queue && n.Now >= pileTasks && n.Wait.Count > 0 && float64(n.Now) >= pileFactor*max(expected, 1):
			f.Message = fmt.Sprintf("%s {tasks} wait here. Those that left, %s a second, had been here for %v on average: at that pace %s would be here at a time.",
				words.Count(n.Now), words.Rate(words.PerSecond(l.s, n.Departures)), bgraph.Nanos(stay), words.Rate(expected))
		default:
			continue
		}
		l.add(float64(max(n.Now, grown)), f)
	}
}

// sendLimit is how long a crowd may wait to send: less is a queue that keeps the receivers busy.
const sendLimit = 100 * time.Millisecond

func poolAdvice(n *bgraph.Node) string {
	if ofClient(n) {
		return "Connections are being made, or as many as MaxConnsPerHost allows are in use. See whether the other side answers, give dials and requests a time limit, and read each response to its end and close it."
	}
	return "All connections of the pool are in use. See what runs and waits while it has one: close Rows and end transactions on every path, query less, or allow more connections (SetMaxOpenConns)."
}

func pileAdvice(n *bgraph.Node) string {
	switch n.Reason {
	case "pool":
		return poolAdvice(n)
	case "channel send":
		return "The receivers are slower than the senders: add receivers, make them faster, or let fewer {tasks} send."
	case "write":
		return "Clients take responses more slowly than they are made. A write deadline gets rid of those that do not read."
	case "offload", "disk":
		return "More is asked of helper threads or disks than they do. Raise the limit on offloaded functions if the machine has room, or admit less work."
	case "connect":
		return "The other side accepts connections more slowly than they are asked for. Keep connections, or limit how many are made at a time."
	case "read", "accept", "sleep", "select", "context", "cond", "channel receive":
		return "That is fine if there are more clients, or more to wait for, than before. If not, what should wake these {tasks} does not."
	}
	return "What these {tasks} wait for is too slow: see what runs in between, or admit less work."
}

// leastStuck is how long a task must have waited in a graph that covers less than waitLimit.
const leastStuck = 10 * time.Second

// joinWaits are for tasks to end: what waits like that later than at the start of the
// program is no idle worker.
var joinWaits = []string{"join", "waitgroup"}

// stuck finds tasks that have waited for other tasks for so long that nothing is
// likely to come.
func (l *linter) stuck() {
	deadlocked := l.deadlocked()
	limit := bgraph.Nanos(waitLimit)
	if l.s.Span < limit {
		limit = max(l.s.Span/10*9, bgraph.Nanos(min(leastStuck, waitLimit)))
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if l.foreign(n) || l.neverGot(n, deadlocked[n.Key]) {
			continue
		}
		limit := limit
		if l.s.Kind == bgraph.KindGoroutines && n.Oldest > l.s.Span { // a list of goroutines has told
			limit = bgraph.Nanos(waitLimit)
		}
		if !isPlace(n.Key) || n.Now <= 0 || n.Oldest < limit || deadlocked[n.Key] {
			continue
		}
		f := Finding{Severity: SeverityWarning, Check: CheckStuck, Node: n.Key}
		f.Message = fmt.Sprintf("Of the %s {tasks} that wait here one has done so for %v", words.Count(n.Now), n.Oldest)
		if n.Now == 1 {
			f.Message = fmt.Sprintf("A {task} has waited here for %v", n.Oldest)
		}
		switch left := n.Departures; {
		case slices.Contains(certainWaits, n.Reason):
		case !slices.Contains(idleWaits, n.Reason):
			continue
		case left == 0 && n.Now <= int64(max(len(l.s.Loops), 1)) && (!slices.Contains(joinWaits, n.Reason) || l.fromTheBeginning(n)):
			// A main function, or a worker that has had nothing to do yet.
			continue
		case left > 0 && n.Oldest < 100*n.MeanWait():
			continue
		default:
			f.Severity = SeverityInfo
		}
		if n.Departures > 0 {
			f.Message += fmt.Sprintf("; the %s that left had waited for %v on average, %v at most.", words.Count(n.Departures), n.MeanWait(), n.Wait.Max)
		} else {
			f.Message += "; none has left in " + l.s.Span.String() + "."
		}
		f.Advice = stuckAdvice(n)
		l.add(float64(n.Oldest), f)
	}
}

// longHeld is from how long on a single goroutine that waits for a lock is reason for a warning.
const longHeld = time.Minute

// neverGot finds locks, and pools of connections, that goroutines wait for and none has got in the time of
// a trace. It reports whether n is one.
func (l *linter) neverGot(n *bgraph.Node, deadlocked bool) bool {
	if l.s.Kind != bgraph.KindGoroutines || n.Now <= 0 || n.Departures > 0 || deadlocked || n.Oldest < bgraph.Nanos(stillLimit) ||
		n.Reason == "semaphore" || !slices.Contains(lockWaits, n.Reason) {
		return false
	}
	f := Finding{Severity: SeverityInfo, Check: CheckStuck, Node: n.Key, Advice: stuckAdvice(n)}
	if float64(n.Now) >= convoyTasks || n.Oldest >= bgraph.Nanos(longHeld) {
		f.Severity = SeverityWarning
	}
	f.Message = fmt.Sprintf("%s wait here, the oldest for %v, and none has got what it waits for in %v.", words.Count(n.Now), n.Oldest, l.s.Span)
	if n.Now == 1 {
		f.Message = fmt.Sprintf("A {task} has waited here for %v, and none has got what it waits for in %v.", n.Oldest, l.s.Span)
	}
	l.add(float64(n.Oldest), f)
	return true
}

func stuckAdvice(n *bgraph.Node) string {
	switch reason := n.Reason; {
	case reason == "pool":
		return poolAdvice(n)
	case reason == "semaphore" || reason == "mutex" || strings.HasPrefix(reason, "rwmutex"):
		return "Look for a path that keeps the lock: one that returns without unlocking, or that waits for ever with it."
	case reason == "channel send":
		return "Nothing receives any more: the receiver has ended or is stuck itself. Close the channel, or send under a context."
	case reason == "join" || reason == "waitgroup":
		return "What is waited for does not end: see where those {tasks} wait."
	}
	return "If it is an idle worker, all is well. If not, nobody will wake it: the channel is never closed, the signal never given. A context gives such waits an end."
}
