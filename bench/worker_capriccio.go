package main

import (
	"errors"
	"log/slog"
	"maps"
	"net"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// taskMetrics measure our tasks on the one loop of the runtime that start makes.
func taskMetrics(start func() (*task.Runtime, error)) map[string]metricFunc {
	metrics := tasks.metrics()
	maps.Copy(metrics, map[string]metricFunc{
		"yield": taskYield, "mutex": taskMutex, "create-finish": taskCreate, "chan": taskChan, "cond": taskCond,
		"ops": taskPairs, oneSlotMetric: taskPairs,
	})
	for name, measure := range metrics {
		metrics[name] = onLoopOf(start, measure)
	}
	return metrics
}

// tasks are the threads of our runtime. What they can't do is cut short only at the end.
var tasks = &threads{
	spawn:     taskSpawn,
	sleep:     func(d time.Duration) { _ = task.Sleep(d) },
	yield:     task.Yield,
	waitGroup: func() waitGroup { return new(task.WaitGroup) },
	listen:    func() (net.Listener, error) { return netpoll.Listen("tcp", "127.0.0.1:0") },
	pipe: func() pipe {
		r, w, err := netpoll.Pipe()
		check(err)
		return pipe{r, w}
	},
	bothWays: func(fd int) pipe {
		f := must(netpoll.NewFile(fd, "pipe"))
		return pipe{f, f}
	},
}

// oneLoop is the runtime as a program gets it, but for the number of loops and for reports: making
// a million tasks holds a loop for longer than its watchdog likes.
func oneLoop() (*task.Runtime, error) {
	return oneLoopWith()
}

// bareSystem is capriccio without a blocking graph, first in, first out: knotBare is Knot so.
const (
	bareSystem = "capriccio-bare"
	knotBare   = "knot-bare"
)

func bareLoop() (*task.Runtime, error) {
	return oneLoopWith(capriccio.WithoutGraph(), capriccio.WithScheduler(capriccio.FIFO))
}

// holdingSystem is capriccio without detaching.
const holdingSystem = "capriccio-holding"

// loopThatHolds is oneLoop that is not taken from tasks that wait natively.
func loopThatHolds() (*task.Runtime, error) { return oneLoopWith(capriccio.WithDetaching(-1, 0)) }

func oneLoopWith(options ...capriccio.Option) (*task.Runtime, error) {
	options = append(options, capriccio.WithLoops(1), capriccio.WithLogger(slog.New(slog.DiscardHandler)))
	return capriccio.New(options...)
}

// onLoopOf runs a measurement as a task of a runtime with one loop. The process ends
// after it, whatever the other tasks do.
func onLoopOf(start func() (*task.Runtime, error), measure metricFunc) metricFunc {
	return func(j job) {
		rt := must(start())
		done := make(chan struct{})
		rt.Go(func() {
			measure(j)
			close(done)
		})
		<-done
	}
}

func taskYield(j job) {
	measureYield(j, taskSpawn, task.Yield, func(stop *atomic.Bool) (n int64) {
		for !stop.Load() {
			task.Yield()
			n++
		}
		return n
	})
}

func taskSpawn(fn func()) { task.Go(fn) }

func taskMutex(j job) {
	var mu task.Mutex
	const batch = 10_000
	j.emit("mutex", "ns", j.untilTime(batch, func() {
		for range batch {
			mu.Lock()
			mu.Unlock() //lint:ignore SA2001 an empty critical section is what is measured
		}
	}))
}

func taskCreate(j job) {
	var wg task.WaitGroup
	body := func() { wg.Done() }
	turns := clockInterval(j.x)
	j.emit("create-finish", "ns", j.untilTime(turns*j.x, func() {
		for range turns {
			wg.Add(j.x)
			for range j.x {
				task.Spawn(task.Options{NoHandle: true}, body)
			}
			wg.Wait()
		}
	}))
}

func taskChan(j job) {
	if j.x < 2 {
		check(errAlone)
	}
	ring := make([]*task.Chan[struct{}], j.x)
	for i := range ring {
		ring[i] = task.NewChan[struct{}](0)
	}
	for i := 1; i < j.x; i++ {
		in, out := ring[i], ring[(i+1)%j.x]
		task.Go(func() {
			for {
				token, err := in.Recv()
				if err != nil || out.Send(token) != nil {
					return
				}
			}
		})
	}
	out, in := ring[1], ring[0]
	measureRing(j, "chan", func() {
		sent := out.Send(struct{}{})
		if _, err := in.Recv(); err != nil || sent != nil {
			check(errors.Join(sent, err))
		}
	})
}

func taskCond(j job) {
	var mu task.Mutex
	turn := 0 // guarded by mu
	ring := make([]*task.Cond, j.x)
	for i := range ring {
		ring[i] = task.NewCond(&mu)
	}
	pass := func(me, next int) {
		turn = next
		ring[next].Signal()
		for turn != me {
			ring[me].Wait()
		}
	}
	mu.Lock()
	for i := 1; i < j.x; i++ {
		task.Go(func() {
			mu.Lock()
			for turn != i {
				ring[i].Wait()
			}
			for {
				pass(i, (i+1)%j.x)
			}
		})
	}
	measureRing(j, "cond", func() { pass(0, 1%j.x) })
}

type taskBuffer struct {
	*pairs
	mu                task.Mutex
	notEmpty, notFull *task.Cond
	measured          task.WaitGroup
}

func (b *taskBuffer) produce() {
	b.mu.Lock()
	b.ready++
	for {
		for b.filled == b.slots {
			b.notFull.Wait()
		}
		b.filled++
		b.notEmpty.Signal()
		b.mu.Unlock()
		b.mu.Lock()
	}
}

func (b *taskBuffer) consume() {
	b.mu.Lock()
	b.ready++
	for {
		for b.filled == 0 {
			b.notEmpty.Wait()
		}
		b.filled--
		if b.count() {
			b.measured.Done()
		}
		b.notFull.Signal()
		b.mu.Unlock()
		if b.steps > 0 {
			work(b.steps)
		}
		b.mu.Lock()
	}
}

func taskPairs(j job) {
	b := &taskBuffer{pairs: newPairs(j)}
	b.notEmpty, b.notFull = task.NewCond(&b.mu), task.NewCond(&b.mu)
	b.measured.Add(1)
	for range j.x {
		task.Go(b.produce)
		task.Go(b.consume)
	}
	b.measured.Wait()
}
