package bgraph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A Snapshot is a blocking graph at one moment, or the difference between two moments
// (see Diff). It can be written, read back on another machine, compared and drawn. It shares
// nothing with the runtime, so it may be changed.
type Snapshot struct {
	Kind      string     `json:"kind,omitempty"`      // KindTasks or KindGoroutines
	Program   Program    `json:"program"`             // whose graph it is
	Taken     time.Time  `json:"taken"`               // when the counts were read
	Span      Nanos      `json:"span_ns"`             // the time that the counts cover
	Period    bool       `json:"period,omitempty"`    // a difference: there was a time before it that the counts don't cover
	Sampling  int        `json:"sampling"`            // one wait in this many was timed; counts are exact
	HeapEvery int        `json:"heap_every"`          // heap was measured on one timed step in this many; 0: never
	Loops     []LoopStat `json:"loops"`               // by index
	Resources []Resource `json:"resources"`           // what Edge.Changes refers to, by position
	Nodes     []Node     `json:"nodes"`               // by Key, ascending
	Edges     []Edge     `json:"edges"`               // by From, then To, ascending
	Crossings []Crossing `json:"crossings,omitempty"` // wakes between loops, by From, To, FromLoop, ToLoop, ascending
	Overflow  Overflow   `json:"overflow"`            // what did not find room
	Overruns  []Overrun  `json:"overruns"`            // the watchdog's reports, the latest last; at most graphlimits.Overruns
	Sched     *Sched     `json:"sched,omitempty"`     // what the scheduler says of itself, if it can

	// ProcessCPU is what the whole process used in Span, as the kernel counts it (of a trace by its URL, as a CPU
	// profile beside it does), and CollectorCPU what the garbage collector used of it, as far as the runtime tells: what
	// the sum of all edges has to be judged by. 0: not known.
	ProcessCPU   Nanos      `json:"process_cpu_ns,omitempty"`
	CollectorCPU Nanos      `json:"collector_cpu_ns,omitempty"`
	Sampled      CPUSamples `json:"sampled,omitzero"` // only graphs of goroutines have it

	Sources []Source `json:"sources,omitempty"` // whose graphs were added up, if that was kept

	Chunks Chunks `json:"chunks,omitzero"` // what the process did with stack chunks

	// Only graphs of goroutines have these.
	Stopped     Times    `json:"stopped,omitzero"`     // times when the world was stopped
	Stalled     Times    `json:"stalled,omitzero"`     // times when goroutines ran for so long that the kernel must have taken their processor
	Collections Times    `json:"collections,omitzero"` // cycles of the garbage collector
	Starts      []Start  `json:"starts,omitempty"`     // goroutines by where they began
	Assists     []Waker  `json:"assists,omitempty"`    // where goroutines allocated when they had to help the collector
	Spans       []Span   `json:"spans,omitempty"`      // regions and tasks by name, requests of net/http by what handles them
	Slowest     []Span   `json:"slowest,omitempty"`    // requests and tasks that took longest, the slowest first
	Notes       []string `json:"notes,omitempty"`      // what to know of how the graph was made
}

// Nanos is a duration in nanoseconds; in JSON it is a number.
type Nanos int64

// Duration converts n.
func (n Nanos) Duration() time.Duration { return time.Duration(n) }

// String is the duration with three significant digits: 1.23µs.
func (n Nanos) String() string {
	d := time.Duration(n)
	for unit := time.Duration(1); ; unit *= 10 {
		if d.Abs()/1000 < unit { // unit*1000 could overflow
			return d.Round(unit).String()
		}
	}
}

// A Program says whose graph it is.
type Program struct {
	Name    string    `json:"name"`    // of the executable, without folder
	PID     int       `json:"pid"`     // process id; 0: not known
	Host    string    `json:"host"`    // name of the machine; "": not known
	Go      string    `json:"go"`      // runtime.Version
	Started time.Time `json:"started"` // when the graph was begun
}

// A LoopStat describes one event loop.
type LoopStat struct {
	Index int    `json:"index"`           // number of the loop, from 0
	Tasks int64  `json:"tasks"`           // started and not finished
	Steps uint64 `json:"steps"`           // that ended there, as edges count them
	Rests bool   `json:"rests,omitempty"` // it gets no new tasks, as there are fewer processors than loops
}

// A Resource is something that tasks take and give back, and that was counted while the runtime was there.
type Resource struct {
	Name     string `json:"name"`     // as the program or the runtime calls it
	Unit     string `json:"unit"`     // "bytes", "" for things
	InUse    int64  `json:"in_use"`   // taken and not given back
	Acquired uint64 `json:"acquired"` // in all
	Released uint64 `json:"released"` // in all
	Limit    int64  `json:"limit"`    // 0: none known
}

// A Key names a node in the same way on every machine and in every run of the same
// source: it is a hash of the reason, the label, and the functions and line offsets of
// the call path. The first keys are those below.
type Key uint64

// The keys of nodes that are not places in the program.
const (
	KeyStart    Key = 1 // where tasks begin
	KeyEnd      Key = 2 // where they end
	KeyOverflow Key = 3 // stands for all the nodes beyond the limit
)

// String is 16 hexadecimal digits.
func (k Key) String() string { return fmt.Sprintf("%016x", uint64(k)) }

// MarshalText and UnmarshalText write a Key as String does; JSON numbers could not
// hold it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	var v uint64
	if len(text) != 16 {
		return fmt.Errorf("bgraph: node key %q; want 16 hexadecimal digits", text)
	}
	for _, c := range text {
		d := strings.IndexByte("0123456789abcdef", c)
		if d < 0 {
			return fmt.Errorf("bgraph: node key %q; want 16 hexadecimal digits", text)
		}
		v = v<<4 | uint64(d)
	}
	*k = Key(v)
	return nil
}

// A Node is a place where tasks wait.
type Node struct {
	Key        Key        `json:"key"`              // hash of reason, label and stack
	Reason     string     `json:"reason"`           // what kind of wait: "read", "mutex", "yield"; "start", "end", "overflow"
	Label      string     `json:"label,omitempty"`  // given by the program, see ressched.YieldAt
	Stack      []Frame    `json:"stack"`            // innermost first, down to the task's function
	Now        int64      `json:"now"`              // tasks there
	Peak       int64      `json:"peak"`             // the most there at a time: the sum of the loops' peaks, so an upper bound
	Arrivals   uint64     `json:"arrivals"`         // waits that began in Snapshot.Span
	Departures uint64     `json:"departures"`       // waits that ended in Snapshot.Span
	Wait       Times      `json:"wait"`             // from parking to being ready
	Ready      Times      `json:"ready"`            // from being ready to running
	Oldest     Nanos      `json:"oldest"`           // how long the task that has been there longest has waited, or been ready after that
	Loops      []NodeLoop `json:"loops"`            // the loops that have met the node, by index
	Wakers     []Waker    `json:"wakers,omitempty"` // what ended its waits, the most frequent first

	// Together is how many waits a sync.Cond.Broadcast has ended, but for the first that it ended in a step. Traces only.
	Together uint64 `json:"together,omitempty"`
}

// A Frame is one call of a stack.
type Frame struct {
	Function string `json:"function"` // with package path
	File     string `json:"file"`     // with the path that the compiler knew
	Line     int    `json:"line"`     // number of the line of the call, from 1; 0: not known
	Offset   int    `json:"offset"`   // of the line from the function's first
}

// A NodeLoop is one loop's part in a node.
type NodeLoop struct {
	Loop       int    `json:"loop"`       // number of the loop, from 0
	Now        int64  `json:"now"`        // tasks there
	Peak       int64  `json:"peak"`       // the most there at a time
	Arrivals   uint64 `json:"arrivals"`   // waits that began
	Departures uint64 `json:"departures"` // waits that ended
}

// Times are measured durations.
type Times struct {
	Count uint64 `json:"count"` // measured; see Snapshot.Sampling
	Sum   Nanos  `json:"sum"`   // of the measured durations
	Max   Nanos  `json:"max"`   // the longest measured duration

	// Hist counts the measured durations by length. Bucket 0 holds durations below 32 ns, bucket i, from 1 to 30, those from
	// 2^(i+4) ns to below 2^(i+5) ns, and bucket 31 durations from 2^35 ns (34 s) on. Empty buckets at the end may be missing.
	Hist []uint64 `json:"hist"`
	// Fine has each bucket of Hist in four parts of equal width; nil: not known.
	Fine []uint64 `json:"fine,omitempty"`

	// First and FirstSum are the part of Count and Sum that was measured before sampling set
	// in: every duration at first, then a sample. See Estimate.
	First    uint64 `json:"first,omitempty"`
	FirstSum Nanos  `json:"first_sum,omitempty"`
}

// Estimate is the sum of n durations, estimated from the measured ones in t: the first ones
// count as they are, and the mean of the sample stands for all others.
func (t *Times) Estimate(n uint64) float64 {
	if t.Count == 0 {
		return 0
	}
	sampled, sum := t.Count-min(t.First, t.Count), t.Sum-min(t.FirstSum, t.Sum)
	if n <= t.First || sampled == 0 {
		return float64(t.Sum) / float64(t.Count) * float64(n)
	}
	return float64(t.FirstSum) + float64(sum)/float64(sampled)*float64(n-t.First)
}

// Mean is 0 if nothing was measured.
func (t *Times) Mean() Nanos {
	if t.Count == 0 {
		return 0
	}
	return Nanos(float64(t.Sum) / float64(t.Count))
}

// An Edge is a step of tasks: what they do between two waits.
type Edge struct {
	From      Key      `json:"from"`                // node where the step began
	To        Key      `json:"to"`                  // node where the step ended
	Count     uint64   `json:"count"`               // steps in Snapshot.Span
	CPU       Times    `json:"cpu"`                 // time on the loop: the step's own, and what the kernel took from it
	Recent    Moments  `json:"recent"`              // of CPU, in nanoseconds
	Heap      Change   `json:"heap"`                // bytes allocated, sampled; other loops' allocations blur it
	Changes   []Change `json:"changes,omitempty"`   // of each of Snapshot.Resources, exact; may be shorter than that
	Overruns  uint64   `json:"overruns"`            // steps that the watchdog found too long
	Parts     Parts    `json:"parts,omitzero"`      // what the steps did besides computing; traces only
	Functions []Waker  `json:"functions,omitempty"` // where a CPU profile found the steps, the most frequent first
}

// TotalCPU estimates the CPU time of all steps from the timed ones.
func (e *Edge) TotalCPU() Nanos {
	return Nanos(min(e.CPU.Estimate(e.Count), graphlimits.Number))
}

// MeanCPU is the mean time of a step, estimated for all of them.
func (e *Edge) MeanCPU() Nanos { return meanOf(&e.CPU, e.Count) }

// MeanWait is the mean time of a wait, estimated for all that ended.
func (n *Node) MeanWait() Nanos { return meanOf(&n.Wait, n.Departures) }

func meanOf(t *Times, n uint64) Nanos {
	if n == 0 {
		return t.Mean()
	}
	return Nanos(min(t.Estimate(n)/float64(n), graphlimits.Number))
}

// Moments are exponentially weighted: what came last counts most.
type Moments struct {
	Mean     float64 `json:"mean"`     // in the unit of what is measured
	Variance float64 `json:"variance"` // the square of the standard deviation, in the square of that unit
}

// A Change is what steps took of a resource (more than 0) or gave back (less).
type Change struct {
	Steps  uint64  `json:"steps"`  // that were measured
	Sum    int64   `json:"sum"`    // over these steps, in the unit of the resource
	Recent Moments `json:"recent"` // of a step, in the unit of the resource
}

// Overflow counts what met the limits of the graph.
type Overflow struct {
	MaxNodes int    `json:"max_nodes"`       // the most nodes that the graph keeps
	MaxEdges int    `json:"max_edges"`       // per loop
	Nodes    uint64 `json:"nodes"`           // waits at places that found no room as a node
	Edges    uint64 `json:"edges"`           // steps that found no room as an edge
	Wakes    uint64 `json:"wakes,omitempty"` // wakes between loops that found no room as a Crossing
}

// An Overrun is a step that the watchdog found too long.
type Overrun struct {
	From  Key       `json:"from"`  // node where the step began
	To    Key       `json:"to"`    // KeyStart if the step has not ended yet
	Task  string    `json:"task"`  // name and number of the task
	Loop  int       `json:"loop"`  // number of the loop, from 0
	At    time.Time `json:"at"`    // when the watchdog reported it
	Held  Nanos     `json:"held"`  // how long the step had taken by then
	Stack string    `json:"stack"` // as the Go runtime prints it
}

// A Sched is what a scheduling policy says of itself: the state of the resources that
// it watches, and how it ranks the nodes.
type Sched struct {
	Policy    string          `json:"policy"`             // name of the policy, such as "fifo" or "cohort"
	Admitted  uint64          `json:"admitted"`           // tasks that were let in
	Deferred  uint64          `json:"deferred"`           // tasks that had to wait before they were let in
	Refused   uint64          `json:"refused"`            // tasks that were not let in
	Refusals  []SchedRefusal  `json:"refusals,omitempty"` // the refused by cause, each once
	Resources []SchedResource `json:"resources"`          // that the policy watches
	Nodes     []SchedNode     `json:"nodes"`              // by Key, then Loop
}

// A SchedRefusal is how many tasks were refused for one cause.
type SchedRefusal struct {
	Why   string `json:"why"`   // the cause, as the log has it
	Count uint64 `json:"count"` // tasks refused for it
}

// A SchedResource is the state of a watched resource.
type SchedResource struct {
	Name        string  `json:"name"`        // that of the resource
	Utilisation float64 `json:"utilisation"` // 0 to 1 of what may be used
	Trend       float64 `json:"trend"`       // change of the utilisation per second
	State       string  `json:"state"`       // "low", "rising", "at limit"
}

// A SchedNode is how a loop's scheduler ranks a node.
type SchedNode struct {
	Key      Key     `json:"key"`               // that of the node
	Loop     int     `json:"loop"`              // number of the loop, from 0
	Priority float64 `json:"priority"`          // from -4 to 4; 0: neutral; 1 more doubles the tickets
	Tickets  int64   `json:"tickets"`           // its share of the time, as a number of tickets (stride scheduling)
	Pass     uint64  `json:"pass"`              // virtual time of the node; the node with the least pass runs next
	Ready    int64   `json:"ready"`             // tasks in its queue
	Held     string  `json:"held,omitempty"`    // why it is being held back
	Cohorts  uint64  `json:"cohorts,omitempty"` // how often its tasks were run in one go
	Ran      uint64  `json:"ran,omitempty"`     // steps in these cohorts
}

// Add counts a duration.
func (t *Times) Add(d Nanos) {
	d = min(max(d, 0), graphlimits.Number)
	t.Count++
	t.Sum = addNanos(t.Sum, d)
	t.Max = max(t.Max, d)
	fine := buckets.FineOf(uint64(d))
	part := fine / buckets.Parts
	if fine >= uint(len(t.Fine)) || part >= uint(len(t.Hist)) {
		t.Hist, t.Fine = longEnough(t.Hist, part), longEnough(t.Fine, fine)
	}
	t.Hist[part]++
	t.Fine[fine]++
}

// longEnough returns counts with a place i.
func longEnough(counts []uint64, i uint) []uint64 {
	if uint(len(counts)) <= i {
		counts = append(counts, make([]uint64, i+1-uint(len(counts)))...)
	}
	return counts
}

// quantileBounds are the counts to interpolate in, and the bounds that belong to them.
func (t *Times) quantileBounds() (counts []uint64, from func(int) int64, last int) {
	if len(t.Fine) > 0 {
		return t.Fine, buckets.FineFrom, (buckets.Count - 1) * buckets.Parts
	}
	return t.Hist, buckets.From, buckets.Count - 1
}

// Quantile estimates the duration that the share q (0 to 1) of the measured durations does
// not exceed: within a quarter, or, if Fine is not known, within a factor of 2.
func (t *Times) Quantile(q float64) Nanos {
	counts, bound, last := t.quantileBounds()
	var total uint64
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := q * float64(total)
	var below float64
	for i, n := range counts {
		if n > 0 && below+float64(n) >= rank {
			from, to := float64(bound(i)), float64(min(bound(i+1), int64(t.Max)))
			if i >= last {
				to = float64(t.Max)
			}
			return min(Nanos(from+(max(to, from)-from)*(rank-below)/float64(n)), max(t.Max, 0))
		}
		below += float64(n)
	}
	return t.Max
}

// Sort brings all lists into the order that Validate wants, and the lists of a trace within their limits.
func (s *Snapshot) Sort() {
	slices.SortFunc(s.Nodes, func(a, b Node) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(s.Edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	slices.SortFunc(s.Crossings, compareCrossings)
	s.sortTrace()
}
