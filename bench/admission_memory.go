package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

const (
	admissionLimit = 256 << 20 // GOMEMLIMIT
	admissionCap   = 512 << 20 // above it a process is killed
	fixedLimit     = "fixed-limit"
)

// memorySystems are the systems without a limit to the producers, and the flags of their
// workers.
var memorySystems = []struct {
	system, scheduler string
	flags             []string
}{
	{"capriccio", "resource", []string{"-declare", "entrance"}},
	{"capriccio-declared", "resource", []string{"-declare", "resource"}},
	{"capriccio-undeclared", "resource", nil},
	{"capriccio-fifo", "fifo", nil},
	{"goroutine", "", []string{"-goroutines"}},
}

// admissionMemoryExperiment is the Capriccio paper's section 5.3: producers that would fill any
// memory, and how many of them each system lets go on.
var admissionMemoryExperiment = experiment{
	name: "admission-memory",
	doc:  "producers that would fill any memory, under a limit (section 5.3)",
	parts: []part{{
		points: pointsAt("ops", 0),
		systems: func(r *run) (all []contender) {
			for _, s := range memorySystems {
				all = append(all, r.memoryContender(s.system, s.scheduler, s.flags))
			}
			return all
		},
		length:   2 * time.Second,
		reserved: quickBudget / 2,
	}, {
		points:  pointsAt("ops", 5, 10, 20, 22, 24, 40, 80),
		quick:   pointsAt("ops", 10, 20, 22, 24, 40),
		systems: func(r *run) []contender { return []contender{r.memoryContender(fixedLimit, "fifo", nil)} },
		length:  2 * time.Second,
	}},
	after: func(r *run) error { return r.prepare(0, r.addShareOfBest) },
	notes: []string{
		fmt.Sprintf("%d producers of %d KiB each, which take %v an item and the processor, and %d consumers, which take %v: they can do %.0f a second. GOMEMLIMIT=%dMiB, killed above %d MiB",
			memoryProducers, memoryBuffer>>10, produceTime, memoryConsumers, consumeTime, memoryConsumers/consumeTime.Seconds(), admissionLimit>>20, admissionCap>>20),
		"x is the producers that may produce at a time, by a semaphore, under fifo (fixed-limit); 0: all. ops-of-best is in percent of the best fixed limit",
		"capriccio: an item enters through a ressched.Entrance and leaves when it was consumed; -declared: a ressched.Resource counts the buffers' bytes, limit unknown; -undeclared: nothing but the memory limit is known",
		"gc-share: the garbage collector's share of the processor time that the program used; gc-of-core: of all there was, like runtime.MemStats.GCCPUFraction",
		"ops of a killed system: what was consumed before, over the whole time; rss-mb is the most there was",
	},
	charts: []report.Chart{
		{Title: "Items consumed a second", Metric: "ops", XLabel: "producers at a time, 0: all", Bars: true},
		{Title: "Memory, most there was", Metric: "rss-mb", XLabel: "producers at a time, 0: all", Bars: true},
	},
}

// memoryContender runs the program once; with a point's x, if it is not 0, as the limit of
// producers.
func (r *run) memoryContender(system, scheduler string, flags []string) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		env := []string{"GOMEMLIMIT=" + strconv.Itoa(admissionLimit)}
		if scheduler != "" {
			env = append(env, capriccio.EnvSched+"="+scheduler)
		}
		args := append([]string{"memory", "-for", d.String(), "-producers", strconv.Itoa(int(p.x))}, flags...)
		return runBelowCap(ctx, r.ownOnServerCore(env, args...), admissionCap, p.x, d)
	}}
}

func runBelowCap(ctx context.Context, command proc.Command, most int64, x float64, d time.Duration) ([]sample, error) {
	printed, peak, killed, err := belowCap(ctx, memoryWarmUp+d, command, most)
	if err != nil {
		return nil, err
	}
	var samples []sample
	consumed := 0.0
	for _, one := range printed {
		if one.metric == "consumed" {
			consumed = one.value
		} else {
			samples = append(samples, one)
		}
	}
	samples = append(samples, sample{"rss-mb", "MB", x, peak})
	if killed {
		samples = append(samples, sample{"ops", "ops/s", x, consumed / d.Seconds()})
	}
	return append(samples, sample{"killed", "1", x, choose(killed, 1.0, 0)}), nil
}

func (r *run) addShareOfBest() error {
	best := 0.0
	rows := r.samples.Rows()
	for _, row := range rows {
		if row.System == fixedLimit && row.Metric == "ops" {
			best = max(best, row.Value)
		}
	}
	for _, row := range rows {
		if row.System != fixedLimit && row.Metric == "ops" && best > 0 {
			if err := r.add(row.System, []sample{{"ops-of-best", "%", 0, 100 * row.Value / best}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// The tasks and buffers of the program of admission-memory. Consumers take longer than producers,
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

func (m *memoryProgram) start() {
	for range memoryConsumers {
		m.spawn(m.consume)
	}
	for i := range memoryProducers {
		m.spawn(func() { m.produce(newRNG(uint64(i))) })
	}
}

func (m *memoryProgram) produce(l rng) {
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
func runMemoryWorker(args []string, out io.Writer) {
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
	} else {
		m.onTasks(*limit, *declare)
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
}

func (m *memoryProgram) onTasks(limit int, declare string) {
	rt := must(oneLoopWith(capriccio.WithoutRefusals()))
	mu := new(task.Mutex)
	m.mu, m.notEmpty = mu, task.NewCond(mu)
	m.spawn = func(fn func()) { rt.Go(fn) }
	m.sleep = func(d time.Duration) { check(task.Sleep(d)) }
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
		entrance := must(ressched.NewEntrance("item"))
		m.enter, m.leave = func() bool { return entrance.Enter() == nil }, entrance.Leave
	case "resource":
		buffers := must(ressched.NewResource("buffers", "bytes"))
		buffers.SetLimit(-1)
		m.enter = func() bool { ressched.YieldAt("produce"); buffers.Acquire(memoryBuffer); return true }
		m.leave = func() { buffers.Release(memoryBuffer) }
	default:
		check(fmt.Errorf("-declare=%q; want entrance or resource", declare))
	}
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
