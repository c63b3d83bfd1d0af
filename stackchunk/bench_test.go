package stackchunk_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/stackchunk"
)

var sum int

//go:noinline
func callee() { sum++ }

// onTask runs the benchmark on a task.
func onTask(b *testing.B, bench func(), change ...func(*engine.Config)) {
	rt := newRuntime(b, 1, change...)
	run(b, rt, func() {
		b.ResetTimer()
		bench()
		b.StopTimer()
	})
}

func BenchmarkPlainCall(b *testing.B) {
	onTask(b, func() {
		for range b.N {
			callee()
		}
	})
}

// A checkpoint with room, as stackplan writes it.
func BenchmarkCheckpointWithRoom(b *testing.B) {
	onTask(b, func() {
		for range b.N {
			if stackchunk.Room(64) {
				callee()
			} else {
				stackchunk.Call(64, callee)
			}
		}
	})
}

func BenchmarkCallWithRoom(b *testing.B) {
	onTask(b, func() {
		for range b.N {
			stackchunk.Call(64, callee)
		}
	})
}

func BenchmarkLink(b *testing.B) {
	onTask(b, func() {
		for range b.N {
			stackchunk.Call(large, callee)
		}
	})
}

func BenchmarkLinkObserved(b *testing.B) {
	onTask(b, func() {
		for range b.N {
			stackchunk.Call(large, callee)
		}
	}, func(c *engine.Config) { c.NewObserver = recorder.New(bgraph.Config{}).Observe })
}

func BenchmarkLinkAtASite(b *testing.B) {
	site := stackchunk.NewSite("bench", large)
	onTask(b, func() {
		for range b.N {
			site.Call(callee)
		}
	})
}

// Parking, with a second task that does the same.
func BenchmarkYield(b *testing.B) { benchmarkYield(b, func(f func()) { f() }) }

func BenchmarkYieldOnAChunk(b *testing.B) {
	benchmarkYield(b, func(f func()) { stackchunk.Call(large, f) })
}

func benchmarkYield(b *testing.B, call func(func())) {
	onTask(b, func() {
		yield := func() {
			for range b.N / 2 {
				engine.Yield()
			}
		}
		other := engine.Go(func() { call(yield) })
		call(yield)
		other.Join()
	})
}

// What a fresh goroutine pays for the same without a chunk.
func BenchmarkGrowAFreshStack(b *testing.B) {
	done := make(chan bool)
	for range b.N {
		go func() { useStack(32 << 10); done <- true }()
		<-done
	}
}

func BenchmarkUseAChunkFromAFreshGoroutine(b *testing.B) {
	rt := newRuntime(b, 1)
	run(b, rt, func() {
		f := func() { useStack(32 << 10) }
		stackchunk.Call(40<<10, f)
		b.ResetTimer()
		for range b.N {
			stackchunk.Call(40<<10, f)
		}
	})
}
