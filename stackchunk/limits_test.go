package stackchunk_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

func setLimits(t *testing.T, l stackchunk.Limits) {
	stackchunk.SetLimits(l)
	t.Cleanup(func() { stackchunk.SetLimits(stackchunk.DefaultLimits) })
}

// hold starts n tasks that stay on chunks with that much room until the function that it
// returns is called, which waits for their end.
func hold(l *engine.Loop, n int, need stackchunk.Bytes) (release func()) {
	var ready, goOn, ended task.WaitGroup
	ready.Add(n)
	goOn.Add(1)
	ended.Add(n)
	for range n {
		engine.GoOn(l, func() {
			defer ended.Done()
			stackchunk.Call(need, func() {
				ready.Done()
				goOn.Wait()
			})
		})
	}
	ready.Wait()
	return func() {
		goOn.Done()
		ended.Wait()
	}
}

// class returns the statistics of chunks of a size.
func class(size uint64) chunk.ClassStats {
	counts := chunk.ReadCounts()
	for _, c := range counts.Classes() {
		if c.Size == size {
			return c
		}
	}
	return chunk.ClassStats{Size: size}
}

func TestAtALimitCallsRunInPlace(t *testing.T) {
	needChunks(t)
	const size, need = 64 << 10, 40 << 10
	for name, limits := range map[string]stackchunk.Limits{
		"loop":    {Process: math.MaxInt, Loop: 3*size + size/2, Idle: math.MaxInt},
		"process": {Process: 3*size + size/2, Loop: math.MaxInt, Idle: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			l := enginetest.NewRuntime(t, 1).Loop(0)
			setLimits(t, limits)
			chunks := func(inUse, idle int) {
				t.Helper()
				c := class(size)
				testenv.Equal(t, [2]int{int(c.InUse), int(c.Idle)}, [2]int{inUse, idle}, "chunks in use and idle")
			}
			for range 2 { // the second time with chunks that are there already
				s := during(func() {
					release := hold(l, 5, need)
					chunks(3, 0)
					release()
				})
				testenv.Equal(t, s, calls{links: 3, unlinks: 3, inPlace: 2})
				chunks(0, 3)
			}
			// What waits idle makes room for another size, or stands in for a smaller one.
			testenv.Equal(t, during(func() { hold(l, 3, 10<<10)() }).links, 3, "small chunks linked")
			testenv.Equal(t, during(func() { hold(l, 1, 80<<10)() }).links, 1, "large chunks linked")
			testenv.AtMost(t, stackchunk.ReadStats().Idle, 3*size+size/2, "bytes are idle, above the limit")
		})
	}
}

func TestThePoolKeepsSoMuch(t *testing.T) {
	needChunks(t)
	const size, need = 64 << 10, 40 << 10
	rt := enginetest.NewRuntime(t, 1)
	setLimits(t, stackchunk.Limits{Process: math.MaxInt, Loop: math.MaxInt, Idle: 4 * size})
	before := runtime.NumGoroutine()
	hold(rt.Loop(0), 20, need)()
	testenv.Equal(t, class(size).Idle, 4, "idle chunks")
	testenv.AtMost(t, runtime.NumGoroutine()-before, 4+1+20, "goroutines more than before: chunks, one seed, workers")
}

func TestANeedAboveTheLargestChunkRunsInPlace(t *testing.T) {
	onLoop(t, func(*engine.Runtime) {
		for _, need := range []stackchunk.Bytes{8 << 20, 1 << 30, 1 << 62} {
			called := false
			s := during(func() { stackchunk.Call(need, func() { called = true }) })
			testenv.Equal(t, s, calls{inPlace: 1}, "need %d", need)
			testenv.Equal(t, called, true, "need %d: called", need)
		}
	})
}

func TestEveryChunkHasTheRoomThatItWasLinkedFor(t *testing.T) {
	needChunks(t)
	rt := enginetest.NewRuntime(t, 1)
	const largest = 8<<20 - 8<<10
	steps := stackchunk.Bytes(testenv.Rounds(2, 7))
	for need := stackchunk.Bytes(1 << 10); need <= largest; need += need / steps {
		want := uint64(0)
		s := during(func() {
			enginetest.Run(t, rt, func() {
				for range 3 {
					if stackchunk.Room(need) { // on its own stack, which the Go runtime has made larger than 2 KB
						continue
					}
					want++
					stackchunk.Call(need, func() {
						testenv.Equal(t, stackchunk.Room(need), true, "a chunk linked for %d has room for them: headroom %d", need, coro.Headroom())
					})
					engine.Offload(runtime.GC) // which halves the stack of the idle chunk
				}
			})
		})
		// A stack that has too little room may grow on the way, when the runtime preempts the task for example.
		testenv.AtMost(t, s.links, want, "need %d: links", need)
		if need > 8<<10 {
			testenv.AtLeast(t, s.links, max(want, 1), "need %d: links, as it is more than a task has", need)
		}
	}
}

// stackSize is the size of the calling goroutine's stack.
//
//go:noinline
func stackSize() uintptr {
	n := coro.Depth() + coro.Headroom()
	return (n + 1023) &^ 1023
}

// The collector halves stacks of which less than a quarter is used, those of tasks that
// are parked on a chunk too.
func TestAChunkThatTheCollectorHasHalved(t *testing.T) {
	onLoop(t, func(*engine.Runtime) {
		const need, size = 200 << 10, 256 << 10
		collect := func() { engine.Offload(func() { runtime.GC(); runtime.GC() }) }
		before := class(size)
		stackchunk.Call(need, func() {
			testenv.Equal(t, stackSize(), size, "the stack has N bytes")
			collect()
			testenv.Equal(t, stackchunk.Room(need), false, "the stack of a parked task is as large as before two collections")
			useStack(need)
		})
		collect()
		stackchunk.Call(need, func() {
			testenv.Equal(t, stackSize(), size, "the stack of a chunk linked again has N bytes")
		})
		testenv.Equal(t, class(size).Regrown-before.Regrown, 2, "the stack was made to grow N times")
	})
}

// useStack needs about n bytes.
//
//go:noinline
func useStack(n int) byte {
	var b [1024]byte
	b[n%len(b)] = byte(n)
	if n > len(b) {
		b[0] += useStack(n - len(b))
	}
	return b[0] + b[len(b)-1]
}

func TestAFunctionMayNeedMoreThanItSays(t *testing.T) {
	onLoop(t, func(*engine.Runtime) {
		before := class(64 << 10)
		stackchunk.Call(40<<10, func() { useStack(200 << 10) })
		stackchunk.Call(40<<10, func() { useStack(200 << 10) }) // it still has the room
		stackchunk.Call(40<<10, func() {})
		testenv.Equal(t, class(64<<10).Grown-before.Grown, 1, "calls that needed more are counted")
		for range 4 {
			engine.Offload(runtime.GC)
		}
		stackchunk.Call(40<<10, func() {
			testenv.Equal(t, stackSize(), 64<<10, "bytes of the chunk after collections, as at first")
		})
	})
}

func TestAChunkServesOnAfterAPanic(t *testing.T) {
	const size = 64 << 10
	needChunks(t)
	rt := enginetest.NewRuntime(t, 1)
	before := class(size)
	hold(rt.Loop(0), 3, size/2+1)()
	enginetest.Run(t, rt, func() {
		for i := range 5 {
			v := testenv.MustPanic(t, "a call that panics", func() { stackchunk.Call(size/2+1, func() { panic(i) }) })
			testenv.Equal(t, v, any(i), "the panic")
			stackchunk.Call(size/2+1, func() {})
		}
	})
	c := class(size)
	testenv.Equal(t, c.Made-before.Made, 3, "made for 3 calls at a time and 10 in turn")
	testenv.Equal(t, c.Ended, before.Ended, "ended")
	testenv.Equal(t, c.Links-before.Links, 13, "links")
	testenv.Equal(t, c.InUse, before.InUse, "in use")
	testenv.Equal(t, c.Grown, before.Grown, "grown")
	testenv.Equal(t, c.Peak-before.Peak, 3, "peak: more than before")
}

func TestMinChunk(t *testing.T) {
	t.Cleanup(func() { stackchunk.SetMinChunk(0) })
	onLoop(t, func(*engine.Runtime) {
		nothing := func() {}
		stackchunk.SetMinChunk(200 << 10)
		stackchunk.Call(40<<10, func() {
			testenv.Equal(t, stackchunk.Room(200<<10), true, "the chunk has MinChunk")
			testenv.Equal(t, during(func() { stackchunk.Call(100<<10, nothing) }).links, 0, "a call that fits into what is left was linked")
		})
		testenv.Equal(t, stackchunk.Room(16), true, "room for 16 bytes")
		testenv.Equal(t, during(func() { stackchunk.Call(16, nothing) }).links, 0, "MinChunk makes a call with room link")
		stackchunk.SetMinChunk(math.MaxInt)
		testenv.Equal(t, during(func() { stackchunk.Call(40<<10, nothing) }).links, 1, "links with a MinChunk above the largest chunk")
	})
}

// growStack gives the calling goroutine more than that many KB of stack.
//
//go:noinline
func growStack(kb int) (sum byte) {
	var b [1 << 10]byte
	b[kb] = byte(kb)
	if kb > 0 {
		sum = growStack(kb - 1)
	}
	return sum + b[kb]
}

var siteTests int

// siteNames returns a function that makes names which no test has used.
func siteNames() func(int) string {
	siteTests++
	test := siteTests
	return func(n int) string { return fmt.Sprintf("sites_test%d:%d", test, n) }
}

func TestSitesCount(t *testing.T) {
	name := siteNames()
	small, big := stackchunk.NewSite(name(1), 32), stackchunk.NewSite(name(2), 40<<10)
	testenv.Equal(t, stackchunk.NewSite(name(2), 40<<10), big, "the second site of a name is another")
	big.Call(func() {}) // may have room, or not
	outside := siteStats(t, name(2))
	onLoop(t, func(*engine.Runtime) {
		growStack(4) // an unoptimised build leaves no room on the first 2 KB
		for range 3 {
			small.Call(func() {})
		}
		if small.Room() {
			small.Room()
		}
		testenv.MustPanic(t, "a call that panics", func() { big.Call(func() { panic(1) }) })
		for range 3 {
			big.Call(func() {})
		}
		engine.Go(func() { big.Call(runtime.Goexit) }).Join()
		stackchunk.SetLimits(stackchunk.Limits{})
		stackchunk.Call(2<<20, func() {})
		stackchunk.NewSite(name(3), 2<<20).Call(func() {})
		stackchunk.SetLimits(stackchunk.DefaultLimits)
	})
	with, without := siteStats(t, name(1)), siteStats(t, name(2))
	testenv.Equal(t, with.Direct, 5, "direct calls with room")
	testenv.Equal(t, with.Links, 0, "links with room")
	testenv.Equal(t, without.Links, 5, "links without room")
	testenv.Equal(t, without.Outside+without.Direct, outside.Outside+outside.Direct, "direct calls and those outside, without room")
	testenv.AtLeast(t, without.InternalWaste, 1, "internal waste")
	testenv.Equal(t, without.ExternalWaste/5, uint64(class(64<<10).Room-40<<10), "external waste of a call")
	testenv.Equal(t, siteStats(t, name(3)).InPlace, 1, "in place at the limit")
	testenv.AtLeast(t, stackchunk.ReadStats().Direct, 5, "direct calls in all")
}

func siteStats(t *testing.T, name string) (found chunk.SiteStats) {
	t.Helper()
	all := chunk.Sites()
	for _, site := range all {
		if site.Name == name {
			return site
		}
	}
	t.Fatalf("no site %s in %+v", name, all)
	return found
}

func TestNestedLinksAreCounted(t *testing.T) {
	name := siteNames()
	outer, inner := stackchunk.NewSite(name(1), 40<<10), stackchunk.NewSite(name(2), 200<<10)
	onLoop(t, func(*engine.Runtime) {
		outer.Call(func() { inner.Call(func() {}) })
		inner.Call(func() {})
	})
	o, i := siteStats(t, name(1)), siteStats(t, name(2))
	testenv.Equal(t, o.Nested, 0, "nested links of the outer")
	testenv.Equal(t, i.Links, 2, "links of the inner")
	testenv.Equal(t, i.Nested, 1, "nested links of the inner")
	testenv.AtLeast(t, i.NestedRoom, 1, "bytes left on the chunk")
	testenv.AtMost(t, i.NestedRoom, i.InternalWaste, "bytes left on the chunk, of those below all links")
}

func TestSitesInExcessWork(t *testing.T) {
	const inChild = "STACKCHUNK_TEST_SITES"
	if os.Getenv(inChild) == "" { // in a process of its own, as sites stay
		testenv.Run(t, "", []string{inChild + "=1"}, os.Args[0], "-test.run=^TestSitesInExcessWork$")
		return
	}
	for i := range stackchunk.MaxSites + 10 {
		called := false
		stackchunk.NewSite("excess:"+strconv.Itoa(i), 16).Call(func() { called = true })
		testenv.MustEqual(t, called, true, "called")
	}
	testenv.Equal(t, len(chunk.Sites()), stackchunk.MaxSites, "sites are in the statistics")
}
