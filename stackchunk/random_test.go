package stackchunk_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random call trees; 0 picks one")

// A tree is a program of one task: what a function does, one step after another.
type tree struct {
	steps    []step
	recovers bool              // panics of the function end here
	need     stackchunk.Bytes  // of the call
	uses     int               // stack, up to the need
	defers   func(*actor, int) // what its deferred function does besides, or nil
}

type step struct {
	op    op
	value int
	sub   *tree
}

type op uint8

const (
	opCall op = iota // sub
	opYield
	opSleep
	opPanic
	opGoexit
	opReturn // early
	ops
)

func (o op) String() string {
	return [...]string{"call", "yield", "sleep", "panic", "goexit", "return"}[o]
}

// randomTree makes a tree of at most size nodes.
func randomTree(rnd *rand.Rand, depth int, size *int) *tree {
	*size--
	t := &tree{recovers: rnd.IntN(3) == 0, need: stackchunk.Bytes(1) << (4 + rnd.IntN(14))}
	if rnd.IntN(4) == 0 {
		t.uses = rnd.IntN(int(t.need))
	}
	if rnd.IntN(8) == 0 {
		t.defers = func(a *actor, id int) { a.wait(opYield); a.note("deferred", id) }
	}
	for range 1 + rnd.IntN(5) {
		s := step{value: rnd.IntN(1000)}
		switch k := rnd.IntN(40); {
		case k < 22 && depth > 0 && *size > 0:
			s.sub = randomTree(rnd, depth-1, size)
		case k < 34:
			s.op = opYield
		case k < 36:
			s.op = opSleep
		case k < 38:
			s.op = opPanic
		case k < 39:
			s.op = opReturn
		default:
			s.op = opGoexit
		}
		t.steps = append(t.steps, s)
	}
	return t
}

// An actor runs a tree and writes down what happens.
type actor struct {
	call  func(need stackchunk.Bytes, f func())
	wait  func(op)
	trace []string
	depth int
}

func (a *actor) note(what string, v any) {
	a.trace = append(a.trace, fmt.Sprintf("%d %s %v", a.depth, what, v))
}

type custom struct{ n int }

// run runs t and returns a number, in the way that rewritten code does it.
func (a *actor) run(t *tree, id int) (result int) {
	a.depth++
	depth := a.depth
	defer func() {
		a.depth = depth
		if t.defers != nil {
			t.defers(a, id)
		}
		a.note("leave", id)
		a.depth--
	}()
	if t.recovers {
		defer func() {
			a.depth = depth
			if v := recover(); v != nil {
				a.note("recovered", v)
				result = -1
			}
		}()
	}
	a.note("enter", id)
	if t.uses > 0 {
		a.note("used", useStack(t.uses))
	}
	for i, s := range t.steps {
		switch s.op {
		case opCall:
			x, y := id*10+i, 0
			a.call(s.sub.need, func() { y = a.run(s.sub, x) })
			a.depth = depth
			a.note("got", y)
			result += y
		case opYield, opSleep:
			a.wait(s.op)
			a.note("waited", s.op)
		case opPanic:
			switch s.value % 4 {
			case 0:
				panic(s.value)
			case 1:
				panic(&custom{s.value})
			case 2:
				panic(fmt.Errorf("error %d", s.value))
			case 3:
				var none []int
				none[s.value]++
			}
		case opGoexit:
			runtime.Goexit()
		case opReturn:
			return s.value
		}
	}
	return result + id
}

// String makes the traces of two runs comparable.
func (c *custom) String() string { return fmt.Sprintf("custom %d", c.n) }

// expect runs t on a plain goroutine and returns the trace, with how it ended.
func expect(t *tree) []string {
	a := &actor{
		call: func(_ stackchunk.Bytes, f func()) { f() },
		wait: func(op) { runtime.Gosched() },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		finished := false
		defer func() {
			if v := recover(); v != nil {
				a.note("end: panic", v)
			} else if !finished {
				a.note("end: goexit", "")
			}
		}()
		a.note("end: result", a.run(t, 1))
		finished = true
	}()
	<-done
	return a.trace
}

func endOf(err error) (end string, v any) {
	var p *engine.PanicError
	switch {
	case errors.As(err, &p):
		return "end: panic", p.Value
	case err == engine.ErrGoexit:
		return "end: goexit", ""
	}
	return "end: error", err
}

// Call trees do the same with chunks as without: panics go on in the caller, Goexit ends the task, deferred functions run.
func TestRandomCallTrees(t *testing.T) {
	var links uint64
	forSeeds(t, 30, func(seed uint64) {
		s := during(func() {
			if seed%4 == 0 {
				defer collectAllTheTime()()
			}
			randomTrees(t, seed)
		})
		links += s.links
		testenv.Equal(t, s.links, s.unlinks, "links, not as many as unlinks")
	})
	if coro.Exact {
		testenv.AtLeast(t, links, 1, "chunks that were linked")
	}
}

// forSeeds runs a test with different seeds, or with that of the flag.
func forSeeds(t *testing.T, rounds int, test func(seed uint64)) {
	base := *seedFlag
	if base == 0 {
		base = uint64(time.Now().UnixNano())
	} else {
		rounds = 1
	}
	for i := range rounds {
		seed := base + uint64(i)
		before := runtime.NumGoroutine()
		test(seed)
		testenv.WaitGoroutines(t, before)
		if t.Failed() {
			t.Fatalf("replay with -seed=%d", seed)
		}
	}
}

// collectAllTheTime makes stacks move and shrink.
func collectAllTheTime() (stop func()) {
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopped.Load() {
			runtime.GC()
			runtime.Gosched()
		}
	}()
	return func() { stopped.Store(true); <-done }
}

func randomTrees(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	loops := []int{1, 2, 8}[rnd.IntN(3)]
	if rnd.IntN(3) == 0 {
		stackchunk.SetLimits(stackchunk.Limits{Process: 1 << 20, Loop: stackchunk.Bytes(rnd.IntN(1 << 20)), Idle: stackchunk.Bytes(rnd.IntN(1 << 19))})
		defer stackchunk.SetLimits(stackchunk.DefaultLimits)
	}
	rt := programs.Simulated(t, loops, seed, func(c *engine.Config) {
		if rnd.IntN(2) == 0 {
			c.Graph = recorder.New(recorder.Config{})
		}
	})
	type run struct {
		tree  *tree
		task  *engine.Task
		actor *actor
	}
	var runs []*run
	for range 1 + rnd.IntN(20) {
		size := 1 + rnd.IntN(60)
		r := &run{tree: randomTree(rnd, 12, &size)}
		site := stackchunk.NewSite("random", 1000)
		bySite := rnd.IntN(3) == 0
		r.actor = &actor{
			wait: func(o op) {
				if o == opSleep {
					engine.Sleep(time.Microsecond)
				} else {
					engine.Yield()
				}
			},
			call: func(need stackchunk.Bytes, f func()) {
				me := engine.Current()
				if bySite && need < 1000 {
					site.Call(f)
				} else {
					stackchunk.Call(need, f)
				}
				testenv.Equal(t, engine.Current(), me, "after a call another task runs")
			},
		}
		r.task = rt.Go(func() { r.actor.note("end: result", r.actor.run(r.tree, 1)) })
		runs = append(runs, r)
	}
	for _, r := range runs {
		if err := r.task.Join(); err != nil {
			what, v := endOf(err)
			r.actor.note(what, v)
		}
	}
	testenv.Check(t, rt.Close())
	for _, r := range runs {
		if want := expect(r.tree); !slices.Equal(r.actor.trace, want) {
			t.Errorf("on chunks:\n%s\nwithout:\n%s", strings.Join(r.actor.trace, "\n"), strings.Join(want, "\n"))
		}
	}
}

// However the runtime is closed, the deferred functions of all tasks run, and nothing is
// left.
func TestShutdownAmongRandomCallTrees(t *testing.T) {
	forSeeds(t, 20, func(seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		rt := programs.Simulated(t, []int{1, 2, 8}[rnd.IntN(3)], seed)
		ctx, cancel := context.WithCancel(context.Background())
		var entered, left, begun atomic.Int64
		for range 1 + rnd.IntN(30) {
			size := 1 + rnd.IntN(30)
			tr := randomTree(rnd, 12, &size)
			a := &actor{
				wait: func(op) {
					for range 3 {
						engine.Sleep(time.Hour)
					}
				},
				call: func(need stackchunk.Bytes, f func()) {
					entered.Add(1)
					stackchunk.Call(need, func() {
						defer left.Add(1)
						f()
					})
				},
			}
			testenv.Need(rt.Spawn(engine.Options{Context: ctx}, func() { begun.Add(1); a.run(tr, 1) }))(t)
		}
		if rnd.IntN(2) == 0 {
			for begun.Load() == 0 {
				runtime.Gosched()
			}
		}
		if rnd.IntN(2) == 0 {
			cancel()
		}
		testenv.Check(t, rt.Close())
		cancel()
		testenv.Equal(t, left.Load(), entered.Load(), "calls that ended")
	})
}
