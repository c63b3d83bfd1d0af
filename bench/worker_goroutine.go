package main

import (
	"maps"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

var goroutineMetrics = func() map[string]metricFunc {
	metrics := goroutines.metrics()
	maps.Copy(metrics, map[string]metricFunc{
		"yield": goYield, "mutex": goMutex, "create-finish": goCreate, "chan": goChan, "cond": goCond,
		"ops": goPairs, oneSlotMetric: goPairs,
	})
	return metrics
}()

var goroutines = &threads{
	spawn:     goSpawn,
	sleep:     time.Sleep,
	yield:     runtime.Gosched,
	waitGroup: func() waitGroup { return new(sync.WaitGroup) },
	listen:    func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	pipe: func() pipe {
		r, w, err := os.Pipe()
		check(err)
		return pipe{r, w}
	},
	bothWays: func(fd int) pipe {
		f := os.NewFile(uintptr(fd), "pipe")
		return pipe{f, f}
	},
}

func goYield(j job) {
	measureYield(j, goSpawn, runtime.Gosched, func(stop *atomic.Bool) (n int64) {
		for !stop.Load() {
			runtime.Gosched()
			n++
		}
		return n
	})
}

func goSpawn(fn func()) { go fn() }

func goMutex(j job) {
	var mu sync.Mutex
	const batch = 10_000
	j.emit("mutex", "ns", j.untilTime(batch, func() {
		for range batch {
			mu.Lock()
			mu.Unlock() //lint:ignore SA2001 an empty critical section is what is measured
		}
	}))
}

func goCreate(j job) {
	var wg sync.WaitGroup
	body := func() { wg.Done() }
	turns := clockInterval(j.x)
	j.emit("create-finish", "ns", j.untilTime(turns*j.x, func() {
		for range turns {
			wg.Add(j.x)
			for range j.x {
				go body()
			}
			wg.Wait()
		}
	}))
}

func goChan(j job) {
	if j.x < 2 {
		check(errAlone)
	}
	ring := make([]chan struct{}, j.x)
	for i := range ring {
		ring[i] = make(chan struct{})
	}
	for i := 1; i < j.x; i++ {
		in, out := ring[i], ring[(i+1)%j.x]
		go func() {
			for {
				out <- <-in
			}
		}()
	}
	out, in := ring[1], ring[0]
	measureRing(j, "chan", func() {
		out <- struct{}{}
		<-in
	})
}

func goCond(j job) {
	var mu sync.Mutex
	turn := 0 // guarded by mu
	ring := make([]*sync.Cond, j.x)
	for i := range ring {
		ring[i] = sync.NewCond(&mu)
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
		go func() {
			mu.Lock()
			for turn != i {
				ring[i].Wait()
			}
			for {
				pass(i, (i+1)%j.x)
			}
		}()
	}
	measureRing(j, "cond", func() { pass(0, 1%j.x) })
}

type goBuffer struct {
	*pairs
	mu                sync.Mutex
	notEmpty, notFull *sync.Cond
	measured          sync.WaitGroup
}

func (b *goBuffer) produce() {
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

func (b *goBuffer) consume() {
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

func goPairs(j job) {
	b := &goBuffer{pairs: newPairs(j)}
	b.notEmpty, b.notFull = sync.NewCond(&b.mu), sync.NewCond(&b.mu)
	b.measured.Add(1)
	for range j.x {
		go b.produce()
		go b.consume()
	}
	b.measured.Wait()
}
