package graphview

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

// Severities of findings.
const (
	SeverityError   = "error"   // costs other tasks a lot, or never ends
	SeverityWarning = "warning" // deserves a look
	SeverityInfo    = "info"    // may well be meant
)

// Names of the checks that Lint makes, see LintOptions for when they speak.
const (
	CheckLongStep   = "long-step"   // a step that keeps its loop for long
	CheckConvoy     = "convoy"      // tasks queue for a lock, or are woken for nothing
	CheckPileUp     = "pile-up"     // more tasks come to a place than leave it
	CheckStuck      = "stuck"       // a task waits for ever
	CheckLeak       = "leak"        // a resource is taken on a cycle and not given back
	CheckSaturated  = "saturated"   // ready tasks wait for their loops
	CheckStarvation = "starvation"  // ready tasks of one place were passed over
	CheckUnbalanced = "unbalanced"  // one loop does most of the work
	CheckPingPong   = "ping-pong"   // tasks of two loops wake each other all the time, or goroutines go from P to P
	CheckRefused    = "refused"     // work was turned away
	CheckNative     = "native"      // tasks wait natively, and their loops go on without them
	CheckOverflow   = "overflow"    // the graph has met its limits
	CheckFewSamples = "few-samples" // too little was timed to tell
)

// A Finding is something in a graph that looks wrong.
type Finding struct {
	Severity string     `json:"severity"`
	Check    string     `json:"check"`
	Node     bgraph.Key `json:"node"`            // 0: the program as a whole
	To       bgraph.Key `json:"to"`              // where the step ends that is meant; 0: the node itself
	Name     string     `json:"name"`            // of the place, or of the step: "read a → write b"
	Message  string     `json:"message"`         // what was seen, with its figures
	Advice   string     `json:"advice"`          // what to do about it
	Stack    string     `json:"stack,omitempty"` // of the end of a long step
}

// LintOptions are the limits from which on Lint finds something. A zero field has the
// default that is named with it.
type LintOptions struct {
	// StepLimit is how long a step may keep its loop (10 ms): beyond it a mean is an
	// error, a 99th percentile or a report of the watchdog a warning, the longest
	// step alone an info.
	StepLimit time.Duration
	// MinSamples is how many timed waits or steps an average needs to count (100).
	MinSamples uint64
	// PileTasks is how many tasks in one place make a pile (100); they are found if
	// they are PileFactor (4) times as many as rate and time of those that left
	// explain, or if as many were added between two snapshots.
	PileTasks  int64
	PileFactor float64
	// ConvoyTasks is how many tasks on average have to queue for a lock (4), for
	// ConvoyFactor (10) times as long as they run when they have it.
	ConvoyTasks  float64
	ConvoyFactor float64
	// ReadyLimit is how long ready tasks may wait for their loop on average (10 ms),
	// StarveLimit how long a single one may (1 s).
	ReadyLimit  time.Duration
	StarveLimit time.Duration
	// WaitLimit is how long a task may wait for other tasks (10 min). In a graph that
	// covers less, nine tenths of its time are too long, and at least 10 s. For a lock
	// 2 s are too long if every other task waits for a task too, or listens.
	WaitLimit time.Duration
	// LeakShare is the share of what was taken of a resource that need not come back
	// (0.05), besides what tasks hold for good reason.
	LeakShare float64
	// Unbalance is how many times the steps of the other loops one loop may make (2).
	Unbalance float64
	// PingPongRate is how many times a second tasks of two loops must wake each other (1,000), for
	// steps of PingPongStep at most on average (50 µs), to be found.
	PingPongRate float64
	PingPongStep time.Duration
	// PerCheck bounds the findings of one check (20); the worst are kept.
	PerCheck int
}

func (o LintOptions) withDefaults() LintOptions {
	o.StepLimit = cmp.Or(o.StepLimit, 10*time.Millisecond)
	o.MinSamples = cmp.Or(o.MinSamples, 100)
	o.PileTasks = cmp.Or(o.PileTasks, 100)
	o.PileFactor = cmp.Or(o.PileFactor, 4)
	o.ConvoyTasks = cmp.Or(o.ConvoyTasks, 4)
	o.ConvoyFactor = cmp.Or(o.ConvoyFactor, 10)
	o.ReadyLimit = cmp.Or(o.ReadyLimit, 10*time.Millisecond)
	o.StarveLimit = cmp.Or(o.StarveLimit, time.Second)
	o.WaitLimit = cmp.Or(o.WaitLimit, 10*time.Minute)
	o.LeakShare = cmp.Or(o.LeakShare, 0.05)
	o.Unbalance = cmp.Or(o.Unbalance, 2)
	o.PingPongRate = cmp.Or(o.PingPongRate, 1000)
	o.PingPongStep = cmp.Or(o.PingPongStep, 50*time.Microsecond)
	o.PerCheck = cmp.Or(o.PerCheck, 20)
	return o
}

// Lint looks for what is wrong in a graph: in a Snapshot, or, where it sees more, in
// the Diff of two. The worst findings come first; those of equal severity are in the
// order of their names. It does not change s.
func Lint(s *bgraph.Snapshot) []Finding { return LintWith(s, LintOptions{}) }

// LintWith is Lint with limits of one's own.
func LintWith(s *bgraph.Snapshot, o LintOptions) []Finding {
	l := &linter{s: s, o: o.withDefaults(), w: wordsOf(s), names: distinctNames(s), convoys: make(map[bgraph.Key]bool)}
	l.steps()
	l.locks()
	l.piles()
	l.stuck()
	l.leaks()
	l.readyQueues()
	l.loops()
	l.acrossLoops()
	l.refused()
	l.native()
	l.trace()
	l.trust()
	return l.sorted()
}

// LintPart is Lint of whole, of which what concerns the nodes of part is kept, and the program as a whole: what
// a Filter leaves does not tell by itself whether anything else goes on.
func LintPart(whole, part *bgraph.Snapshot) []Finding {
	if whole == part {
		return Lint(whole)
	}
	hidden := func(k bgraph.Key) bool { return whole.Node(k) != nil && part.Node(k) == nil }
	return slices.DeleteFunc(LintWith(whole, LintOptions{PerCheck: math.MaxInt}), func(f Finding) bool { return hidden(f.Node) || hidden(f.To) })
}

// A linter holds what one run of the checks has found.
type linter struct {
	s       *bgraph.Snapshot
	o       LintOptions
	w       words
	names   map[bgraph.Key]string
	found   []graded
	convoys map[bgraph.Key]bool // nodes that are in a finding of locks
}

// A graded finding has a weight, which says which of a check's are the worst.
type graded struct {
	Finding
	weight float64
}

func (l *linter) add(weight float64, f Finding) {
	if f.Name == "" {
		f.Name = l.place(f.Node, f.To)
	}
	f.Message, f.Advice = l.w.fill(f.Message), l.w.fill(cmp.Or(l.w.advice[f.Check], f.Advice))
	if stalledFor(l.s) && slices.Contains(timedChecks, f.Check) {
		f.Severity = SeverityInfo
	}
	l.found = append(l.found, graded{f, weight})
}

func (l *linter) name(k bgraph.Key) string { return nameIn(l.names, k) }

// place names a node or a step.
func (l *linter) place(from, to bgraph.Key) string {
	switch {
	case from == 0:
		return "the program"
	case to == 0:
		return l.name(from)
	}
	return l.name(from) + " → " + l.name(to)
}

var severityRank = map[string]int{SeverityError: 0, SeverityWarning: 1, SeverityInfo: 2}

// sorted keeps the worst of each check and puts them in order.
func (l *linter) sorted() []Finding {
	orderOf := func(f Finding) int {
		if f.Check == CheckStalled { // why others were found
			return 0
		}
		return 1
	}
	slices.SortStableFunc(l.found, func(a, b graded) int {
		return cmp.Or(severityRank[a.Severity]-severityRank[b.Severity], cmp.Compare(b.weight, a.weight))
	})
	counts := make(map[string]int)
	var kept []Finding
	for _, f := range l.found {
		if counts[f.Check]++; counts[f.Check] <= l.o.PerCheck {
			kept = append(kept, f.Finding)
		}
	}
	slices.SortStableFunc(kept, func(a, b Finding) int {
		return cmp.Or(severityRank[a.Severity]-severityRank[b.Severity],
			orderOf(a)-orderOf(b),
			strings.Compare(a.Name, b.Name), strings.Compare(a.Check, b.Check))
	})
	return kept
}

// from returns the steps that leave a node.
func (l *linter) from(k bgraph.Key) []bgraph.Edge {
	edges := l.s.Edges
	lo := sort.Search(len(edges), func(i int) bool { return edges[i].From >= k })
	hi := lo
	for hi < len(edges) && edges[hi].From == k {
		hi++
	}
	return edges[lo:hi]
}

// isPlace reports whether k is where tasks wait, and one place.
func isPlace(k bgraph.Key) bool { return k > bgraph.KeyOverflow }
