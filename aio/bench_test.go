//go:build linux

package aio

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/poller"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
)

const block = 4096

// benchFile is a file of that many bytes; AIO_BENCH_FILE names one to use instead of
// making it.
func benchFile(b *testing.B, size int64) string {
	if name := os.Getenv("AIO_BENCH_FILE"); name != "" {
		return name
	}
	name := b.TempDir() + "/data"
	f, err := os.Create(name)
	must(b, err)
	defer f.Close()
	part := content(1 << 20)
	for at := int64(0); at < size; at += int64(len(part)) {
		_, err = f.WriteAt(part, at)
		must(b, err)
	}
	must(b, f.Sync())
	return name
}

// readRandomly reads blocks with that many readers, as tasks or goroutines.
func readRandomly(b *testing.B, readers int, blocks int64, spawn func(func()), read func(p []byte, off int64) (int, error)) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime()
	for i := range readers {
		wg.Add(1)
		spawn(func() {
			defer wg.Done()
			p := AlignedBuffer(block)
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			for left.Add(-1) >= 0 {
				if _, err := read(p, rnd.Int64N(blocks)*block); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
}

// cpuTime is what the process has used, in nanoseconds; unlike the time that passes, it
// does not depend much on what else the machine does.
func cpuTime() int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func benchReads(b *testing.B, flag int, blocks int64, readers []int) {
	name := benchFile(b, blocks*block)
	run := func(who string, n int, spawn func(func()), read func(p []byte, off int64) (int, error)) {
		b.Run(fmt.Sprintf("%s/readers=%d", who, n), func(b *testing.B) {
			readRandomly(b, n, blocks, spawn, read)
		})
	}
	plain, err := os.OpenFile(name, os.O_RDONLY|flag, 0)
	must(b, err)
	defer plain.Close()
	for _, n := range readers {
		run("goroutine", n, func(f func()) { go f() }, plain.ReadAt)
		for _, p := range pollers {
			if p.name == "ring-poll" || p.name == "threads" && testing.Short() {
				continue
			}
			rt := setting{p.name, p.open, 1, p.locked}.start(b)
			var f *File
			inTask(b, rt, func() {
				f, err = OpenFile(name, os.O_RDONLY|flag, 0)
				must(b, err)
			})
			run(p.name, n, func(fn func()) { rt.Go(fn) }, f.ReadAt)
			must(b, rt.Close())
			must(b, f.Close())
		}
	}
}

func BenchmarkCached(b *testing.B) { benchReads(b, 0, 16<<10, []int{1, 200}) }

func BenchmarkDirect(b *testing.B) {
	benchReads(b, unix.O_DIRECT, 256<<10, []int{1, 4, 16, 64, 256})
}

// BenchmarkOpen opens and closes a file whose path is in memory.
func BenchmarkOpen(b *testing.B) {
	name := scratch(b, content(10))
	b.Run("os", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(name)
			must(b, err)
			f.Close()
		}
	})
	rt := setting{"epoll", poller.Epoll, 1, false}.start(b)
	b.Run("aio", func(b *testing.B) {
		b.ReportAllocs()
		inTask(b, rt, func() {
			for b.Loop() {
				f, err := Open(name)
				must(b, err)
				f.Close()
			}
		})
	})
}

// BenchmarkDirectInSequence has 64 tasks read one block after the other of a file, so that
// those which wait at the same time wait for neighbours.
func BenchmarkDirectInSequence(b *testing.B) {
	const blocks = 64 << 10
	name := benchFile(b, blocks*block)
	rt := setting{"epoll", poller.Epoll, 1, false}.start(b)
	var f *File
	var err error
	inTask(b, rt, func() {
		f, err = OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0)
		must(b, err)
	})
	defer f.Close()
	at := int64(0) // of the only loop
	readRandomly(b, 64, blocks, func(fn func()) { rt.Go(fn) }, func(p []byte, _ int64) (int, error) {
		at++
		return f.ReadAt(p, at%blocks*block)
	})
}

// BenchmarkCold reads blocks that memory has at first not, and then more and more of.
func BenchmarkCold(b *testing.B) {
	const blocks, readers = 256 << 10, 200
	name := benchFile(b, blocks*block)
	plain, err := os.Open(name)
	must(b, err)
	defer plain.Close()
	forget := func() { must(b, unix.Fadvise(int(plain.Fd()), 0, 0, unix.FADV_DONTNEED)) }
	must(b, unix.Fadvise(int(plain.Fd()), 0, 0, unix.FADV_RANDOM))
	b.Run("goroutine", func(b *testing.B) {
		forget()
		readRandomly(b, readers, blocks, func(f func()) { go f() }, plain.ReadAt)
	})
	for _, p := range pollers {
		rt := setting{p.name, p.open, 1, p.locked}.start(b)
		var f *File
		inTask(b, rt, func() {
			f, err = Open(name)
			must(b, err)
		})
		must(b, unix.Fadvise(int(f.fd), 0, 0, unix.FADV_RANDOM))
		b.Run(p.name, func(b *testing.B) {
			forget()
			readRandomly(b, readers, blocks, func(fn func()) { rt.Go(fn) }, f.ReadAt)
		})
		must(b, f.Close())
	}
}
