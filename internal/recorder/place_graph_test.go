package recorder_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

func wait() { task.Yield() } // may be inlined

//go:noinline
func waitHere() { task.Yield() }

func firstWay()  { wait() }
func secondWay() { wait() }

func generic[T any](T) { waitHere() }

func waitDeep(n int) {
	if n > 0 {
		waitDeep(n - 1)
		return
	}
	waitHere()
}

type waiter struct{}

func (waiter) value()    { waitHere() }
func (*waiter) pointer() { waitHere() }

type waits interface{ value() }

func TestTwoPathsToOneWaitAreTwoNodes(t *testing.T) {
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		for range 10 {
			firstWay()
			secondWay()
		}
	})
	var ways []string
	for _, n := range nodes(s, "yield") {
		if len(n.Stack) < 3 || !strings.HasSuffix(n.Stack[0].Function, "task.Yield") {
			t.Fatalf("stack %v; want it to begin with task.Yield", n.Stack)
		}
		ways = append(ways, funcname.Short(n.Stack[2].Function))
		testenv.Equal(t, n.Arrivals, 10, "arrivals")
	}
	if len(ways) != 2 || ways[0] == ways[1] {
		t.Errorf("nodes by way: %v; want the two ways", ways)
	}
}

// Different loops, tasks, generic types and kinds of call; one place each.
func TestOnePlaceIsOneNode(t *testing.T) {
	for name, call := range map[string]func(){
		"closure":   func() { func() { waitHere() }() },
		"generic":   func() { generic(1) },
		"value":     func() { waiter{}.value() },
		"pointer":   func() { new(waiter).pointer() },
		"interface": func() { waits(waiter{}).value() },
		"deferred":  func() { defer waitHere() },
		"recovered": func() {
			defer func() { recover(); waitHere() }()
			panic("no")
		},
		"deep stack": func() { waitDeep(50) },
	} {
		t.Run(name, func(t *testing.T) {
			s := observed(t, 2, recorder.Config{}, func(rt *engine.Runtime) {
				onLoops(rt, 10, func() {
					for range 5 {
						call()
					}
				})
			})
			if n := one(t, s, "yield"); n.Arrivals != 50 {
				t.Errorf("%d arrivals, want 50", n.Arrivals)
			} else if !strings.Contains(n.Name(), "waitHere") {
				t.Errorf("the node is called %q, want it to name the function that waits", n.Name())
			}
		})
	}
}

// The key is made of names and offsets, not of addresses: it must not change from run to
// run, so it is written down here for one place. Moving the lines of atAKnownPlace
// against each other, or renaming it, changes it.
func TestKeysAreStable(t *testing.T) {
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) { task.Go(atAKnownPlace).Join() })
	n := one(t, s, "known place")
	const want = "1b047edf91da60c9"
	if n.Key.String() != want {
		t.Errorf("key %v, want %s; stack %+v", n.Key, want, n.Stack)
	}
}

func atAKnownPlace() {
	ressched.YieldAt("known place")
}

func TestLimitsOfNodesAndEdges(t *testing.T) {
	const depth = 300
	var recur func(n int)
	recur = func(n int) {
		waitHere()
		if n > 0 {
			recur(n - 1)
		}
	}
	s := observed(t, 2, recorder.Config{MaxNodes: 20, MaxEdges: 30}, func(rt *engine.Runtime) {
		onLoops(rt, 4, func() {
			recur(30) // deeper paths look alike
			for j := range depth {
				ressched.YieldAt(fmt.Sprint("n", j))
			}
		})
	})
	if len(s.Nodes) > 20 || len(s.Nodes) < 15 {
		t.Errorf("%d nodes, want 20 or a few less", len(s.Nodes))
	}
	var through uint64
	for _, n := range s.Nodes {
		if n.Key != bgraph.KeyStart && n.Key != bgraph.KeyEnd {
			through += n.Arrivals
		}
	}
	if want := uint64(4 * (31 + depth)); through < want || through > want+10 { // main waits too
		t.Errorf("%d arrivals in all, want %d: none is lost", through, want)
	}
	if n := s.Node(bgraph.KeyOverflow); n == nil || n.Arrivals != s.Overflow.Nodes || n.Arrivals < 4*250 {
		t.Errorf("overflow %+v; want the node and the counter to have what found no room", s.Overflow)
	}
	s = observed(t, 1, recorder.Config{MaxEdges: 5}, func(*engine.Runtime) {
		for j := range 20 {
			ressched.YieldAt(fmt.Sprint("n", j))
		}
	})
	if len(s.Edges) > 5 || s.Overflow.Edges != 16 {
		t.Errorf("%d edges and %d beyond the limit, want 5 and 16", len(s.Edges), s.Overflow.Edges)
	}
}

func TestMemoryOfNodesAndEdges(t *testing.T) {
	testenv.AtMost(t, recorder.SizeOfNode, 1024, "a node takes N bytes for each loop")
	testenv.AtMost(t, recorder.SizeOfEdge, 640, "an edge takes N bytes for each loop")
	testenv.AtMost(t, recorder.SizeOfNote, 16, "a note has N bytes")
	testenv.AtMost(t, unsafe.Sizeof(bgraph.Frame{}), 64, "a Frame has N bytes")
}

// A task that waits has a gauge only if that wait is measured, and none once it has ended.
func TestGaugesAreForWhatIsMeasured(t *testing.T) {
	const tasks, rounds, sampling = 1000, 20, 50
	g := recorder.New(recorder.Config{Sampling: sampling, HeapEvery: 5})
	rt := start(t, 1, g)
	testenv.Must(t, rt.Run(context.Background(), func(context.Context) error {
		var all task.WaitGroup
		for range tasks {
			all.Go(func() {
				for range rounds {
					task.Yield()
				}
			})
		}
		all.Wait()
		return nil
	}))
	made, used := g.Gauges()
	// Those of the first waits at three nodes, and of what sampling draws among all tasks at once.
	if most := 3*64 + 3*tasks/sampling; made == 0 || made > most {
		t.Errorf("%d gauges for %d tasks, want 1 to %d", made, tasks, most)
	}
	testenv.Equal(t, used, 0, "of %d gauges are in use when all tasks have ended", made)
}

// Snapshots are taken while the loops write; under the race detector too.
func TestSnapshotsOfARunningProgram(t *testing.T) {
	g := recorder.New(recorder.Config{Sampling: 2})
	rt := start(t, 2, g)
	var readers sync.WaitGroup
	var steps, taken atomic.Int64
	stop := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				if steps.Load() < 100*taken.Load() { // else one processor has time for nothing else
					runtime.Gosched()
					continue
				}
				taken.Add(1)
				s := g.Snapshot()
				var n uint64
				for _, e := range s.Edges {
					n += e.Count
					if s.Node(e.From) == nil || s.Node(e.To) == nil {
						t.Error("an edge without its nodes")
					}
				}
				testenv.AtLeast(t, n, last, "steps after %d", last)
				last = n
			}
		})
	}
	err := rt.Run(context.Background(), func(context.Context) error {
		onLoops(rt, 20, func() {
			for j := 0; j < 3000 || taken.Load() < 40; j++ {
				ressched.YieldAt(fmt.Sprint("n", j%300))
				steps.Add(1)
			}
		})
		return nil
	})
	close(stop)
	readers.Wait()
	testenv.Check(t, err)
	checkBalance(t, g.Snapshot())
}

func TestRuntimesHaveGraphs(t *testing.T) {
	a, b := recorder.New(recorder.Config{}), recorder.New(recorder.Config{})
	ra, rb := start(t, 1, a), start(t, 1, b)
	if ra.Graph() != a || rb.Graph() != b {
		t.Error("it is another graph")
	}
	ra.Close()
	rb.Close()
	testenv.Equal(t, ra.Graph(), a, "a closed runtime has lost its graph")
	none := start(t, 1, nil)
	defer none.Close()
	if none.Graph() != nil || (*engine.Runtime)(nil).Graph() != nil {
		t.Error("there is a graph where none is learned")
	}
}
