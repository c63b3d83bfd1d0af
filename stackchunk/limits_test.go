package stackchunk_test

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
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
func hold(t *testing.T, l *engine.Loop, n int, need stackchunk.Bytes) (release func()) {
	t.Helper()
	var ready, goOn, ended task.WaitGroup
	ready.Add(n)
	goOn.Add(1)
	ended.Add(n)
	for range n {
		if _, err := l.Runtime().Spawn(engine.Options{Loop: l}, func() {
			defer ended.Done()
			stackchunk.Call(need, func() {
				ready.Done()
				goOn.Wait()
			})
		}); err != nil {
			t.Fatal(err)
		}
	}
	ready.Wait()
	return func() {
		goOn.Done()
		ended.Wait()
	}
}

// class returns the statistics of chunks of a size.
func class(size stackchunk.Bytes) stackchunk.ClassStats {
	for _, c := range stackchunk.ReadStats().Classes {
		if c.Size == size {
			return c
		}
	}
	return stackchunk.ClassStats{Size: size}
}

func TestAtALimitCallsRunInPlace(t *testing.T) {
	needChunks(t)
	const size, need = 64 << 10, 40 << 10
	for name, limits := range map[string]stackchunk.Limits{
		"loop":    {Process: math.MaxInt, Loop: 3*size + size/2, Idle: math.MaxInt},
		"process": {Process: 3*size + size/2, Loop: math.MaxInt, Idle: math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			rt := newRuntime(t, 1)
			setLimits(t, limits)
			for range 2 { // the second time with chunks that are there already
				s := during(func() {
					release := hold(t, rt.Loop(0), 5, need)
					if c := class(size); c.InUse != 3 || c.Idle != 0 {
						t.Errorf("%d chunks in use, %d idle, want 3, 0", c.InUse, c.Idle)
					}
					release()
				})
				if s.Links != 3 || s.InPlace != 2 || s.Unlinks != 3 {
					t.Errorf("%d links, %d unlinks, %d in place; want 3, 3, 2", s.Links, s.Unlinks, s.InPlace)
				}
				if c := class(size); c.InUse != 0 || c.Idle != 3 {
					t.Errorf("%d chunks in use, %d idle, want 0, 3", c.InUse, c.Idle)
				}
			}
			// What waits idle makes room for another size, or stands in for a smaller one.
			s := during(func() { hold(t, rt.Loop(0), 3, 10<<10)() })
			testenv.Equal(t, s.Links, 3, "small chunks linked")
			s = during(func() { hold(t, rt.Loop(0), 1, 80<<10)() })
			testenv.Equal(t, s.Links, 1, "large chunks linked")
			testenv.AtMost(t, stackchunk.ReadStats().Idle, 3*size+size/2, "bytes are idle, above the limit")
		})
	}
}

func TestThePoolKeepsSoMuch(t *testing.T) {
	needChunks(t)
	const size, need = 64 << 10, 40 << 10
	rt := newRuntime(t, 1)
	setLimits(t, stackchunk.Limits{Process: math.MaxInt, Loop: math.MaxInt, Idle: 4 * size})
	before := runtime.NumGoroutine()
	hold(t, rt.Loop(0), 20, need)()
	testenv.Equal(t, class(size).Idle, 4, "idle chunks")
	if n := runtime.NumGoroutine() - before; n > 4+1+20 { // chunks, one seed, workers
		t.Errorf("%d goroutines more than before", n)
	}
}

func TestANeedAboveTheLargestChunkRunsInPlace(t *testing.T) {
	needChunks(t)
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		for _, need := range []stackchunk.Bytes{8 << 20, 1 << 30, 1 << 62} {
			called := false
			s := during(func() { stackchunk.Call(need, func() { called = true }) })
			if !called || s.Links != 0 || s.InPlace != 1 {
				t.Errorf("need %d: called %v, %d links, %d in place; want true, 0, 1", need, called, s.Links, s.InPlace)
			}
		}
	})
}

func TestEveryChunkHasTheRoomThatItWasLinkedFor(t *testing.T) {
	needChunks(t)
	rt := newRuntime(t, 1)
	const largest = 8<<20 - 8<<10
	for need := stackchunk.Bytes(1 << 10); need <= largest; need += need / 7 {
		want := uint64(0)
		s := during(func() {
			run(t, rt, func() {
				for range 3 {
					if stackchunk.Room(need) { // on its own stack, which the Go runtime has made larger than 2 KB
						continue
					}
					want++
					stackchunk.Call(need, func() {
						if !stackchunk.Room(need) {
							t.Errorf("a chunk linked for %d has no room for them: headroom %d", need, coro.Headroom())
						}
					})
					engine.Offload(runtime.GC) // which halves the stack of the idle chunk
				}
			})
		})
		// A stack that has too little room may grow on the way, when the runtime preempts the task for example.
		if s.Links > want || need > 8<<10 && (s.Links < want || want == 0) {
			t.Errorf("need %d: %d links, want %d, and some if it is more than a task has", need, s.Links, want)
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
	needChunks(t)
	rt := newRuntime(t, 1)
	const need, size = 200 << 10, 256 << 10
	run(t, rt, func() {
		before := class(size)
		stackchunk.Call(need, func() {
			testenv.Equal(t, stackSize(), size, "the stack has N bytes")
			engine.Offload(func() { runtime.GC(); runtime.GC() })
			testenv.Equal(t, stackchunk.Room(need), false, "the stack of a parked task is as large as before two collections")
			if sum := useStack(need); sum == 1 {
				t.Log(sum)
			}
		})
		engine.Offload(func() { runtime.GC(); runtime.GC() })
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
	needChunks(t)
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		before := class(64 << 10)
		stackchunk.Call(40<<10, func() { useStack(200 << 10) })
		stackchunk.Call(40<<10, func() { useStack(200 << 10) }) // it still has the room
		stackchunk.Call(40<<10, func() {})
		testenv.Equal(t, class(64<<10).Grown-before.Grown, 1, "calls that needed more are counted")
		for range 4 {
			engine.Offload(runtime.GC)
		}
		stackchunk.Call(40<<10, func() {
			if n := stackSize(); n != 64<<10 {
				t.Errorf("after collections the chunk has %d bytes, want %d again", n, 64<<10)
			}
		})
	})
}

func TestAChunkServesOnAfterAPanic(t *testing.T) {
	needChunks(t)
	const size = 64 << 10
	rt := newRuntime(t, 1)
	before := class(size)
	hold(t, rt.Loop(0), 3, size/2+1)()
	run(t, rt, func() {
		for i := range 10 {
			func() {
				defer func() {
					if v := recover(); v != any(i) && i%2 == 0 || v != nil && i%2 != 0 {
						t.Errorf("call %d panicked with %v", i, v)
					}
				}()
				stackchunk.Call(size/2+1, func() {
					if i%2 == 0 {
						panic(i)
					}
				})
			}()
		}
	})
	c := class(size)
	if c.Made-before.Made != 3 || c.Ended != before.Ended || c.Links-before.Links != 13 || c.InUse != before.InUse || c.Grown != before.Grown {
		t.Errorf("3 calls at a time and 10 in turn, of which 5 panic: %+v; want 3 made, none ended, 13 links, none grown; before: %+v", c, before)
	}
	testenv.Equal(t, c.Peak-before.Peak, 3, "peak: more than before")
}

func TestMinChunk(t *testing.T) {
	needChunks(t)
	t.Cleanup(func() { stackchunk.SetMinChunk(0) })
	rt := newRuntime(t, 1)
	run(t, rt, func() {
		stackchunk.SetMinChunk(200 << 10)
		stackchunk.Call(40<<10, func() {
			if !stackchunk.Room(200 << 10) {
				t.Error("the chunk is smaller than MinChunk")
			}
			s := during(func() { stackchunk.Call(100<<10, func() {}) })
			testenv.Equal(t, s.Links, 0, "a call that fits into what is left was linked")
		})
		testenv.Equal(t, during(func() { useRoom(t) }).Links, 0, "MinChunk makes a call with room link")
		stackchunk.SetMinChunk(math.MaxInt)
		if s := during(func() { stackchunk.Call(40<<10, func() {}) }); s.Links != 1 {
			t.Error("a MinChunk above the largest chunk keeps all from being linked")
		}
	})
}

func useRoom(t *testing.T) {
	testenv.Equal(t, stackchunk.Room(16), true, "no room for 16 bytes")
	stackchunk.Call(16, func() {})
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
	needChunks(t)
	name := siteNames()
	rt := newRuntime(t, 1)
	small, big := stackchunk.NewSite(name(1), 32), stackchunk.NewSite(name(2), 40<<10)
	testenv.Equal(t, stackchunk.NewSite(name(2), 40<<10), big, "the second site of a name is another")
	big.Call(func() {}) // may have room, or not
	outside := siteStats(t, name(2))
	run(t, rt, func() {
		growStack(4) // an unoptimised build leaves no room on the first 2 KB
		for range 3 {
			small.Call(func() {})
		}
		if small.Room() {
			small.Room()
		}
		for i := range 4 {
			func() {
				defer func() { recover() }()
				big.Call(func() {
					if i == 0 {
						panic(i)
					}
				})
			}()
		}
		stackchunk.SetLimits(stackchunk.Limits{})
		stackchunk.Call(2<<20, func() {})
		big2 := stackchunk.NewSite(name(3), 2<<20)
		big2.Call(func() {})
		stackchunk.SetLimits(stackchunk.DefaultLimits)
	})
	rt.Go(func() { big.Call(runtime.Goexit) }).Join()
	if s := siteStats(t, name(1)); s.Direct != 5 || s.Links != 0 {
		t.Errorf("with room: %+v; want 5 direct", s)
	}
	if s := siteStats(t, name(2)); s.Links != 5 || s.Unlinks != 5 || s.Outside+s.Direct != outside.Outside+outside.Direct ||
		s.InternalWaste == 0 || s.ExternalWaste/5 != class(64<<10).Room-40<<10 {
		t.Errorf("without room: %+v; want 5 links and unlinks, and waste", s)
	}
	if s := siteStats(t, name(3)); s.InPlace != 1 {
		t.Errorf("at the limit: %+v; want 1 in place", s)
	}
	testenv.AtLeast(t, stackchunk.ReadStats().Direct, 5, "direct calls in all")
}

func siteStats(t *testing.T, name string) (found stackchunk.SiteStats) {
	t.Helper()
	b := testenv.Need(json.Marshal(stackchunk.ReadStats()))(t)
	var s stackchunk.Stats
	testenv.Must(t, json.Unmarshal(b, &s))
	for _, site := range s.Sites {
		if site.Name == name {
			return site
		}
	}
	t.Fatalf("no site %s in %s", name, b)
	return found
}

func TestNestedLinksAreCounted(t *testing.T) {
	needChunks(t)
	name := siteNames()
	rt := newRuntime(t, 1)
	outer, inner := stackchunk.NewSite(name(1), 40<<10), stackchunk.NewSite(name(2), 200<<10)
	run(t, rt, func() {
		outer.Call(func() { inner.Call(func() {}) })
		inner.Call(func() {})
	})
	o, i := siteStats(t, name(1)), siteStats(t, name(2))
	if o.Nested != 0 || i.Links != 2 || i.Nested != 1 {
		t.Errorf("%d of %d and %d of %d links are nested, want none and 1 of 2", o.Nested, o.Links, i.Nested, i.Links)
	}
	if i.NestedRoom == 0 || i.NestedRoom > i.InternalWaste {
		t.Errorf("%d bytes were left on the chunk, of %d below all links", i.NestedRoom, i.InternalWaste)
	}
}
