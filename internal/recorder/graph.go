//go:build linux

package recorder

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/coro"
)

const (
	defaultSampling  = 20
	defaultHeapEvery = 320
	defaultMaxNodes  = 4096
	defaultMaxEdges  = 16384
)

// A Graph learns the blocking graph of the loops that it observes. Its methods may be
// called from any goroutine and never park.
type Graph struct {
	// Allocated returns how many bytes of heap the process has allocated so far. It is
	// called on the loops and must not park. nil: the runtime/metrics. Constant once a loop
	// is observed.
	Allocated func() uint64

	cfg     Config
	started time.Time
	scale   uint64 // nanoseconds per cycle, times 1<<scaleBits
	heapGap uint64 // cycles between two tasks that are metered

	// tinyStep is the cycles below which a step is tiny, see nextSamples; 0: none is, as Config.Sampling was given, or
	// as it is a simulation, where steps take no time.
	tinyStep uint64

	expected  atomic.Uint64 // see Expect
	crossings atomic.Int64  // of all shards: at most graphlimits.Edges fit into a dump

	before usage         // when the graph was begun
	chunks bgraph.Chunks // likewise

	mu       sync.Mutex
	places   []*place              // guarded by mu: by NodeID
	byKey    map[bgraph.Key]NodeID // guarded by mu
	byPrint  map[uint64]NodeID     // guarded by mu: by fingerprint; at most maxPrints
	shards   []*Shard              // guarded by mu: in the order of Observe
	overruns []bgraph.Overrun      // guarded by mu: the last graphlimits.Overruns
	sched    func() *bgraph.Sched  // guarded by mu
}

// A place is what is known of a node from the start. It is not changed otherwise.
type place struct {
	key    bgraph.Key
	reason string
	label  string
	pcs    []uintptr                      // the call path as runtime.Callers gives it, trimmed
	frames atomic.Pointer[[]bgraph.Frame] // what stack has found out
}

const scaleBits = 32

// Steps that take less than this, on average, are timed so much more seldom.
const (
	tinyStep      = 400 * time.Nanosecond
	sparingFactor = 8
)

// Bounds of Config.MaxNodes and Config.MaxEdges.
const (
	mostNodes = 1 << 16
	mostEdges = 1 << 18
)

// New makes a Graph that observes nothing yet.
func New(cfg Config) *Graph {
	orDefault := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	sparing := cfg.Sampling == 0 && !coro.Simulated()
	orDefault(&cfg.Sampling, defaultSampling)
	orDefault(&cfg.HeapEvery, defaultHeapEvery)
	orDefault(&cfg.MaxNodes, defaultMaxNodes)
	orDefault(&cfg.MaxEdges, defaultMaxEdges)
	cfg.Sampling = max(cfg.Sampling, 1)
	cfg.MaxNodes = min(max(cfg.MaxNodes, 4), mostNodes)
	cfg.MaxEdges = min(max(cfg.MaxEdges, 1), mostEdges)
	if cfg.HeapEvery > 0 {
		cfg.HeapEvery = max(cfg.HeapEvery/cfg.Sampling, 1) // of the timed ones
	}
	g := &Graph{
		cfg:     cfg,
		started: time.Now(),
		before:  usageNow(),
		chunks:  chunksNow(),
		scale:   uint64(float64(1<<scaleBits) * 1e9 / coro.CyclesPerSecond()),
		heapGap: uint64(coro.CyclesPerSecond() / meteredRate),
		byKey:   map[bgraph.Key]NodeID{bgraph.KeyStart: NodeStart, bgraph.KeyEnd: NodeEnd, bgraph.KeyOverflow: nodeOverflow},
		byPrint: map[uint64]NodeID{},
		places: []*place{
			NodeStart:    {key: bgraph.KeyStart, reason: "start"},
			NodeEnd:      {key: bgraph.KeyEnd, reason: "end"},
			nodeOverflow: {key: bgraph.KeyOverflow, reason: "overflow"},
		},
	}
	if sparing {
		g.tinyStep = uint64(coro.CyclesPerSecond() * tinyStep.Seconds())
	}
	return g
}

// Observe returns the recorder of a loop, to be closed when the loop has ended. Its counts stay in g then.
func (g *Graph) Observe(l Loop) *Shard {
	s := newShard(g, l)
	g.mu.Lock()
	s.number = len(g.shards)
	g.shards = append(g.shards, s)
	g.mu.Unlock()
	breathe.AddLoops(1)
	return s
}

// observed returns a copy of the list of shards.
func (g *Graph) observed() []*Shard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.shards)
}

// ExplainSched lets fn, which may be called from any goroutine, say what a scheduler
// thinks of the nodes, for Snapshot.Sched.
func (g *Graph) ExplainSched(fn func() *bgraph.Sched) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sched = fn
}

// Key returns the key of the node that schedulers know as n.
func (g *Graph) Key(n NodeID) bgraph.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	if int(n) < len(g.places) {
		return g.places[n].key
	}
	return bgraph.KeyOverflow
}

// Label returns what was given to ressched.YieldAt, or the name of the ressched.Stage, at node n; "" if
// nothing was.
func (g *Graph) Label(n NodeID) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if int(n) < len(g.places) {
		return g.places[n].label
	}
	return ""
}

// Name is what people call node n, see bgraph.Node.Name.
func (g *Graph) Name(n NodeID) string {
	g.mu.Lock()
	p := g.places[nodeOverflow]
	if int(n) < len(g.places) {
		p = g.places[n]
	}
	g.mu.Unlock()
	of := bgraph.Node{Reason: p.reason, Label: p.label, Stack: p.stack()}
	return of.Name()
}

// maxPrints bounds the fingerprints that are remembered: one node may have several, if
// the compiler made several copies of a function.
func (g *Graph) maxPrints() int { return 4 * g.cfg.MaxNodes }

// register returns the node for a fingerprint that a Shard does not know. It is called
// at the place itself. Only if no Shard has met the fingerprint, the stack is looked at.
func (g *Graph) register(print uint64, why Reason, label string, pcs []uintptr) NodeID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if id, ok := g.byPrint[print]; ok {
		return id
	}
	if len(g.places) >= g.cfg.MaxNodes && len(g.byPrint) >= g.maxPrints() {
		return nodeOverflow
	}
	p := newPlace(why, label, pcs)
	id, ok := g.byKey[p.key]
	switch {
	case ok:
	case len(g.places) < g.cfg.MaxNodes:
		id = NodeID(len(g.places))
		g.places = append(g.places, p)
		g.byKey[p.key] = id
	default:
		id = nodeOverflow
	}
	if len(g.byPrint) < g.maxPrints() {
		g.byPrint[print] = id
	}
	return id
}

// program describes the process.
func (g *Graph) program() bgraph.Program {
	name := "unknown"
	if exe, err := os.Executable(); err == nil {
		name = filepath.Base(exe)
	} else if len(os.Args) > 0 {
		name = filepath.Base(os.Args[0])
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return bgraph.Program{Name: name, PID: os.Getpid(), Host: host, Go: runtime.Version(), Started: g.started}
}
