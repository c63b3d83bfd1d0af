package capriccio_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// BenchmarkDefault measures what tasks do all the time with the default configuration, beside a
// bare runtime: first in, first out, without the blocking graph.
func BenchmarkDefault(b *testing.B) {
	for _, op := range []struct {
		name  string
		tasks []int
		run   func(b *testing.B, tasks int)
	}{
		{"Yield", []int{2, 1000, 10_000}, benchYield},
		{"Chan", []int{2, 1000}, benchChan},
		{"Cond", []int{2, 1000}, benchCond},
		{"MutexHandOver", []int{2, 1000}, benchHandOver},
		{"Mutex", []int{1}, benchMutex},
		{"Start", []int{1}, benchStart},
	} {
		for _, tasks := range op.tasks {
			for _, system := range []string{"default", "bare", "fifo and graph"} {
				b.Run(fmt.Sprintf("%s/tasks=%d/%s", op.name, tasks, system), func(b *testing.B) {
					options := []capriccio.Option{capriccio.WithLoops(1), capriccio.WithoutSignals()}
					if system != "default" {
						options = append(options, capriccio.WithScheduler(capriccio.FIFO))
					}
					if system == "bare" {
						options = append(options, capriccio.WithoutGraph())
					}
					rt := testenv.Need(capriccio.New(options...))(b)
					defer rt.Close()
					testenv.Check(b, rt.Go(func() { op.run(b, tasks) }).Join())
					b.StopTimer()
					b.ReportMetric(float64(cpuTime()-began)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}

func benchYield(b *testing.B, tasks int) {
	inTasks(b, tasks, func(int) { task.Yield() })
}

// began is the processor time when the measuring began.
var began time.Duration

func reset(b *testing.B) {
	b.ResetTimer()
	began = cpuTime()
}

// cpuTime is the processor time of the process: on a busy machine it says more than the wall clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// inTasks has a number of tasks call fn in turn, b.N times in all.
func inTasks(b *testing.B, tasks int, fn func(i int)) {
	var ready, done task.WaitGroup
	ready.Add(tasks)
	each := b.N/tasks + 1
	for i := range tasks {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			for range each {
				fn(i)
			}
		})
	}
	ready.Wait()
	reset(b)
	done.Wait()
}

func benchChan(b *testing.B, tasks int) {
	chans := make([]*task.Chan[int], tasks)
	for i := range chans {
		chans[i] = task.NewChan[int](0)
	}
	inTasks(b, tasks, func(i int) {
		if i%2 == 0 {
			chans[i].Send(i)
		} else {
			chans[i-1].Recv()
		}
	})
}

func benchCond(b *testing.B, tasks int) {
	type pair struct {
		mu   task.Mutex
		turn int
		cond *task.Cond
	}
	pairs := make([]pair, tasks/2)
	for i := range pairs {
		pairs[i].cond = task.NewCond(&pairs[i].mu)
	}
	inTasks(b, tasks, func(i int) {
		p, me := &pairs[i/2], i%2
		p.mu.Lock()
		for p.turn != me {
			p.cond.Wait()
		}
		p.turn = 1 - me
		p.cond.Signal()
		p.mu.Unlock()
	})
}

// benchHandOver has pairs of tasks yield while they hold a lock that the other waits for.
func benchHandOver(b *testing.B, tasks int) {
	mus := make([]task.Mutex, tasks/2)
	inTasks(b, tasks, func(i int) {
		mu := &mus[i/2]
		mu.Lock()
		task.Yield()
		mu.Unlock()
	})
}

func benchMutex(b *testing.B, _ int) {
	var mu task.Mutex
	reset(b)
	for range b.N {
		mu.Lock()
		mu.Unlock()
	}
}

func benchStart(b *testing.B, _ int) {
	reset(b)
	for i := range b.N {
		task.Spawn(task.Options{NoHandle: true}, func() {})
		if i%64 == 0 {
			task.Yield()
		}
	}
}
