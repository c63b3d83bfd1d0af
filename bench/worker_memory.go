package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// What the program of admission-memory is made of. Consumers take longer than producers,
// as if they wrote to something slow, and there are fewer of them.
const (
	memoryProducers = 1000
	memoryConsumers = 50
	memoryBuffer    = 256 << 10
	memoryPage      = 4096
	memoryTouches   = 8 // pages of the pool that a producer touches
	produceTime     = 2 * time.Millisecond
	consumeTime     = 5 * time.Millisecond
	memoryWarmUp    = 300 * time.Millisecond
)

// condition is what task.Cond and sync.Cond have in common.
type condition interface {
	Wait()
	Signal()
}

// memoryProgram is the producers, the consumers and the pool between them.
type memoryProgram struct {
	spawn func(func())
	sleep func(time.Duration)
	enter func() bool // before an item is produced
	made  func()      // when it is in the pool
	leave func()      // when it has been consumed

	mu       sync.Locker
	notEmpty condition
	pool     [][]byte // guarded by mu
	consumed atomic.Int64
	sink     atomic.Uint64
}

// start starts all tasks.
func (m *memoryProgram) start() {
	for range memoryConsumers {
		m.spawn(m.consume)
	}
	for i := range memoryProducers {
		m.spawn(func() { m.produce(newLot(uint64(i))) })
	}
}

// produce adds memory to the pool, and touches some of what is there.
func (m *memoryProgram) produce(l lot) {
	for m.enter() {
		buffer := make([]byte, memoryBuffer)
		for at := 0; at < len(buffer); at += memoryPage {
			buffer[at] = byte(at >> 12)
		}
		m.sleep(produceTime)
		m.mu.Lock()
		m.pool = append(m.pool, buffer)
		for range memoryTouches {
			touched := m.pool[l.below(len(m.pool))]
			touched[l.below(memoryBuffer/memoryPage)*memoryPage]++
		}
		m.notEmpty.Signal()
		m.mu.Unlock()
		m.made()
	}
}

// consume takes memory out of the pool, oldest first, and drops it.
func (m *memoryProgram) consume() {
	for {
		m.mu.Lock()
		for len(m.pool) == 0 {
			m.notEmpty.Wait()
		}
		buffer := m.pool[0]
		m.pool[0] = nil
		m.pool = m.pool[1:]
		m.mu.Unlock()
		m.sleep(consumeTime)
		sum := uint64(0)
		for at := 0; at < len(buffer); at += memoryPage {
			sum += uint64(buffer[at])
		}
		m.sink.Add(sum)
		m.consumed.Add(1)
		m.leave()
	}
}

// runMemoryWorker runs the program for some time, until something has been consumed at
// least, prints now and then how much it has
// consumed, and at the end what it has measured.
func runMemoryWorker(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("memory", flag.ExitOnError)
	goroutines := flags.Bool("goroutines", false, "use goroutines")
	limit := flags.Int("producers", 0, "producers that may produce at a time; 0: all")
	declare := flags.String("declare", "", "entrance, resource or nothing")
	wanted := flags.Duration("for", time.Second, "measure so long")
	flags.Parse(args)
	m := &memoryProgram{enter: func() bool { return true }, made: func() {}, leave: func() {}}
	if *goroutines {
		var mu sync.Mutex
		m.mu, m.notEmpty = &mu, sync.NewCond(&mu)
		m.spawn, m.sleep = func(fn func()) { go fn() }, time.Sleep
	} else if err := m.onTasks(*limit, *declare); err != nil {
		return err
	}
	m.start()
	time.Sleep(memoryWarmUp)
	start, consumed, gc := time.Now(), m.consumed.Load(), chores.ReadCollectorTime()
	for time.Since(start) < *wanted || m.consumed.Load() == consumed {
		time.Sleep(20 * time.Millisecond)
		fmt.Fprintf(out, "consumed items %d %d\n", *limit, m.consumed.Load()-consumed)
	}
	rate := float64(m.consumed.Load()-consumed) / time.Since(start).Seconds()
	emit := emitAt(out, *limit)
	emit("ops", "ops/s", rate)
	used, available := collectorShares(gc)
	emit("gc-share", "%", 100*used)
	emit("gc-of-core", "%", 100*available)
	return nil
}

// onTasks makes the runtime and says what its tasks use.
func (m *memoryProgram) onTasks(limit int, declare string) error {
	rt, err := oneLoopWith(capriccio.WithoutRefusals())
	if err != nil {
		return err
	}
	mu := new(task.Mutex)
	m.mu, m.notEmpty = mu, task.NewCond(mu)
	m.spawn = func(fn func()) { rt.Go(fn) }
	m.sleep = func(d time.Duration) {
		if err := task.Sleep(d); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if limit > 0 {
		room := task.NewSemaphore(int64(limit))
		m.enter, m.made = func() bool { return room.Acquire(1) == nil }, func() { room.Release(1) }
	}
	switch declare {
	case "":
		if limit == 0 {
			m.enter = func() bool { ressched.YieldAt("produce"); return true }
		}
	case "entrance":
		entrance, err := ressched.NewEntrance("item")
		if err != nil {
			return err
		}
		m.enter, m.leave = func() bool { return entrance.Enter() == nil }, entrance.Leave
	case "resource":
		buffers, err := ressched.NewResource("buffers", "bytes")
		if err != nil {
			return err
		}
		buffers.SetLimit(-1)
		m.enter = func() bool { ressched.YieldAt("produce"); buffers.Acquire(memoryBuffer); return true }
		m.leave = func() { buffers.Release(memoryBuffer) }
	default:
		return fmt.Errorf("-declare=%q; want entrance or resource", declare)
	}
	return nil
}

// collectorShares are the collector's shares since then of the processor time that the program
// used, and of all that there was.
func collectorShares(then chores.CollectorTime) (used, available float64) {
	now := chores.ReadCollectorTime()
	if now.Program <= then.Program || now.All <= then.All {
		return 0, 0
	}
	took := now.Collector - then.Collector
	return took / (now.Program - then.Program), took / (now.All - then.All)
}
