package lint

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Severities of findings.
const (
	SeverityError   = "error"   // costs other tasks a lot, or never ends
	SeverityWarning = "warning" // deserves a look
	SeverityInfo    = "info"    // may well be meant
)

// Names of the checks that Find makes; limits.go says when they speak.
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
	At       string     `json:"at,omitempty"`    // where the cause is in the program, or else the node, or where the step begins: "/src/main.go:35"
	Path     string     `json:"path,omitempty"`  // the functions of the program that lead to Node, and what they call: "main.gather main.go:35 ← main.ask main.go:20 ← net/http"
	Message  string     `json:"message"`         // what was seen, with its figures
	Advice   string     `json:"advice"`          // what to do about it
	Stack    string     `json:"stack,omitempty"` // of the end of a long step
}

// IsStep reports whether the finding is about the step from Node to To, rather than about Node and what is done from there.
func (f *Finding) IsStep() bool { return f.To != 0 && strings.Contains(f.Name, " → ") }

// Find looks for what is wrong in a graph: in a Snapshot, or, where it sees more, in
// the Diff of two. The worst findings come first; those of equal severity are in the
// order of their names. It does not change s.
func Find(s *bgraph.Snapshot) []Finding { return findWith(s, usual) }

// findWith is Find with other limits.
func findWith(s *bgraph.Snapshot, o limits) []Finding {
	l := &linter{s: s, o: o, w: words.TermsOf(s), names: words.Names(s), convoys: make(map[bgraph.Key]bool), blamed: make(map[string]bool)}
	l.leftBehind()
	l.queues()
	l.streams()
	l.requests()
	l.busyStarts()
	l.timers()
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
	l.threads()
	l.trace()
	l.trust()
	return l.sorted()
}

// FindPart returns the findings in whole that concern a node of part, or the program as a whole. A part that
// Filter left does not tell by itself whether anything else goes on.
func FindPart(whole, part *bgraph.Snapshot) []Finding {
	if whole == part {
		return Find(whole)
	}
	hidden := func(k bgraph.Key) bool { return whole.Node(k) != nil && part.Node(k) == nil }
	all := usual
	all.perCheck = math.MaxInt
	return slices.DeleteFunc(findWith(whole, all), func(f Finding) bool { return hidden(f.Node) || hidden(f.To) })
}

// A linter holds what one run of the checks has found.
type linter struct {
	s       *bgraph.Snapshot
	o       limits
	w       words.Terms
	names   map[bgraph.Key]string
	found   []graded
	convoys map[bgraph.Key]bool // nodes that are in a finding about a queue
	blamed  map[string]bool     // functions with which the goroutines in such a finding began
}

// A graded finding has a weight: the heaviest findings of a check are the worst.
type graded struct {
	Finding
	weight float64
}

func (l *linter) add(weight float64, f Finding) { l.addTimed(weight, 0, f) }

// addTimed adds a finding about goroutines that waited or ran for took in all. The finding is only a remark if the kernel may be
// the cause: if it has taken processors for so long that each of the goroutines that wait, weight on average, may have waited
// for that.
func (l *linter) addTimed(weight float64, took bgraph.Nanos, f Finding) {
	if f.Name == "" {
		f.Name = l.place(f.Node, f.To)
	}
	f.At = cmp.Or(f.At, l.at(f.Node, f.To))
	if n := l.s.Node(f.Node); n != nil && l.s.Kind == bgraph.KindGoroutines {
		f.Path = words.Path(n)
	}
	advice := f.Advice
	if l.s.Kind == bgraph.KindGoroutines {
		advice = cmp.Or(goroutineAdvice[f.Check], advice)
	}
	f.Message, f.Advice = fill(l.w, f.Message), fill(l.w, advice)
	if words.Stalled(l.s) && slices.Contains(timedChecks, f.Check) && float64(took) <= stallFactor*max(weight, 1)*float64(l.s.Stalled.Sum) {
		f.Severity = SeverityInfo
	}
	l.found = append(l.found, graded{f, weight})
}

func (l *linter) name(k bgraph.Key) string { return words.NameIn(l.names, k) }

// place names the node from, or the step to another node if to is not 0.
func (l *linter) place(from, to bgraph.Key) string {
	switch {
	case from == 0:
		return "the program"
	case to == 0:
		return l.name(from)
	}
	return l.name(from) + " → " + l.name(to)
}

// at is the file and line of the first of the nodes that has one, in the program rather than in the standard library.
func (l *linter) at(nodes ...bgraph.Key) (line string) {
	for _, k := range nodes {
		n := l.s.Node(k)
		if n == nil || n.Place() == nil {
			continue
		}
		at := fileLine(n.Place())
		if at != "" && ownPlace(n) != nil {
			return at
		}
		line = cmp.Or(line, at)
	}
	return line
}

// causes are checks that find why others have found something, the surest first.
var causes = []string{CheckStuck, CheckLeaked, CheckGrowing, CheckConvoy, CheckQueue, CheckRepeated, CheckBusy, CheckTimers, CheckAssist, CheckStalled, CheckDependency}

var severityRank = map[string]int{SeverityError: 0, SeverityWarning: 1, SeverityInfo: 2}

// sorted keeps the worst of each check and puts them in order.
func (l *linter) sorted() []Finding {
	orderOf := func(f Finding) int {
		if f.Check == CheckStalled && f.Severity == SeverityInfo { // why others are but remarks
			return -1
		}
		if i := slices.Index(causes, f.Check); i >= 0 {
			return i
		}
		return len(causes)
	}
	slices.SortStableFunc(l.found, func(a, b graded) int {
		return cmp.Or(severityRank[a.Severity]-severityRank[b.Severity], cmp.Compare(b.weight, a.weight))
	})
	counts := make(map[string]int)
	var kept []Finding
	for _, f := range l.found {
		if counts[f.Check]++; counts[f.Check] <= l.o.perCheck {
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

// isPlace reports whether k is one place where tasks wait: not the start, the end or the overflow.
func isPlace(k bgraph.Key) bool { return k > bgraph.KeyOverflow }

// goroutineAdvice is the advice of checks, by their names, that differs for goroutines.
var goroutineAdvice = map[string]string{
	CheckLongStep:   "While it computes it has a P for itself, 10 ms at a time. Look at it with a CPU profile; do less per request, or bound how many such goroutines run at a time.",
	CheckSaturated:  "There is more to do than the Ps can: raise GOMAXPROCS or the CPU limit of the container, do less, or turn work away earlier.",
	CheckOverflow:   "Take a shorter trace, or one of fewer tests (-run).",
	CheckStarvation: "Either very many goroutines became ready at once, or a long step was in the way: see what ran meanwhile with go tool trace.",
}

// fill puts the terms of the graph in place of {task}, {tasks}, {loop} and {loops}, also with a capital.
func fill(w words.Terms, text string) string {
	capital := func(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
	return strings.NewReplacer("{task}", w.Task, "{tasks}", w.Tasks, "{loop}", w.Loop, "{loops}", w.Loops,
		"{Task}", capital(w.Task), "{Tasks}", capital(w.Tasks), "{Loop}", capital(w.Loop)).Replace(text)
}
