package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// Parts of the goroutine worker and of the worker with our tasks. Loops whose
// operations take nanoseconds are written twice, once in each worker, so that
// the compiler sees the calls and none goes through an interface.

// clockInterval is how many turns pass between two looks at the clock when n
// tasks or goroutines take turns: only one of them looks.
func clockInterval(n int) int { return max(1, 2000/n) }

// untilTime calls batch, which does per operations, until the job's time is up
// and returns nanoseconds per operation.
func (j job) untilTime(per int, batch func()) float64 {
	batch() // what is made on first use is made here
	start, done := time.Now(), 0
	for {
		batch()
		done += per
		if took := time.Since(start); took >= j.duration {
			return float64(took) / float64(done)
		}
	}
}

// measureYield has j.x tasks yield in turns. follow yields until the flag is
// set and returns how often; yield does so once. The caller is one of the tasks.
// The clock starts when all have begun, which some schedulers are slow to let them.
func measureYield(j job, spawn func(func()), yield func(), follow func(*atomic.Bool) int64) {
	var started, stop atomic.Bool
	var begun, total, ended atomic.Int64
	for range j.x - 1 {
		spawn(func() {
			begun.Add(1)
			follow(&started)
			total.Add(follow(&stop))
			ended.Add(1)
		})
	}
	turns := clockInterval(j.x)
	for begun.Load() < int64(j.x-1) {
		yield()
	}
	started.Store(true)
	var took time.Duration
	own := int64(0)
	for start := time.Now(); took < j.duration; took = time.Since(start) {
		for range turns {
			yield()
		}
		own += int64(turns)
	}
	stop.Store(true)
	for ended.Load() < int64(j.x-1) {
		yield()
	}
	j.emit("yield", "ns", float64(took)/float64(total.Load()+own))
}

// errAlone is what a ring of one would come to: it waits for itself.
var errAlone = errors.New("a ring of unbuffered channels needs two tasks")

// measureRing has the caller send a token round a ring of j.x with once.
func measureRing(j job, metric string, once func()) {
	turns := clockInterval(j.x)
	per := j.untilTime(turns*j.x, func() {
		for range turns {
			once()
		}
	})
	j.emit(metric, "ns", per)
}

// bufferSlots bounds the buffer that producers and consumers share, oneSlot
// that of the metric in which every message takes two switches.
const (
	bufferSlots   = 128
	oneSlot       = 1
	oneSlotMetric = "ops-one-slot"
)

// pairs is the state of producers and consumers, but for its mutex and
// conditions. All fields but the constant ones are guarded by that mutex.
type pairs struct {
	job      job           // constant
	slots    int           // constant
	steps    int           // of work for each message; constant
	began    time.Time     // constant
	filled   int           // slots
	ready    int           // tasks that have begun
	consumed int           // messages, since start
	start    time.Time     // of the measurement
	took     time.Duration // from start to the last look at the clock
	over     bool
}

func newPairs(j job) *pairs {
	p := &pairs{job: j, slots: bufferSlots, steps: calibrateWork(j.work), began: time.Now()}
	if j.metric == oneSlotMetric {
		p.slots = oneSlot
	}
	return p
}

// beginLimit is how long the tasks are given to begin, all of them: with long
// work and many tasks not all get there.
const beginLimit = 500 * time.Millisecond

// count is called with the mutex held when a message was taken. It reports true
// once, when time is up. The clock starts when every task has begun.
func (p *pairs) count() bool {
	p.consumed++
	if p.start.IsZero() {
		if p.ready == 2*p.job.x || p.consumed%256 == 0 && time.Since(p.began) > beginLimit {
			p.start, p.consumed = time.Now(), 0
		}
		return false
	}
	if p.consumed%256 != 0 || p.over {
		return false
	}
	p.took = time.Since(p.start)
	p.over = p.took >= p.job.duration
	if p.over {
		p.job.emit(p.job.metric, "ops/s", float64(p.consumed)/p.took.Seconds())
	}
	return p.over
}

// warmUp is how long a worker computes before it measures: a core that was idle
// needs a few milliseconds to come up to speed.
const warmUp = 5 * time.Millisecond

func warm() {
	for start := time.Now(); time.Since(start) < warmUp; {
		work(10_000)
	}
}

var workSink uint64

// work keeps the processor busy for some steps. It is not inlined, as copies are not equally fast, so
// that calibrating one would say little about the others.
//
//go:noinline
func work(steps int) {
	v := workSink
	for range steps {
		v = v*6364136223846793005 + 1442695040888963407
	}
	workSink = v
}

// calibrateWork returns how many steps take the given nanoseconds.
func calibrateWork(nanoseconds int) int {
	if nanoseconds == 0 {
		return 0
	}
	const trial = 200_000
	best := time.Hour
	for range 10 {
		start := time.Now()
		work(trial)
		best = min(best, time.Since(start))
	}
	return int(float64(nanoseconds) * trial / float64(best))
}

const (
	tokenBytes = 12
	// A task reads what is there, up to a limit of tokens, and passes each on.
	tokensRead = 16
)

type pipe struct {
	r io.Reader
	w io.Writer
}

// passTokens moves tokens from pipe me to others for ever, and counts them. Each
// goes to a pipe drawn by lot: passed on to the neighbour, tokens would gather
// in bunches, at another pace in each system, and a bunch costs fewer switches.
func passTokens(pipes []pipe, me int, passed *atomic.Int64) {
	buffer := make([]byte, tokensRead*tokenBytes)
	lot := uint64(me)
	have := 0
	for {
		have += must(pipes[me].r.Read(buffer[have:]))
		whole := have - have%tokenBytes
		for at := 0; at < whole; at += tokenBytes {
			lot = lot*6364136223846793005 + 1442695040888963407
			to := int(lot >> 33 % uint64(len(pipes)))
			must(pipes[to].w.Write(buffer[at : at+tokenBytes]))
			passed.Add(1)
		}
		have = copy(buffer, buffer[whole:have])
	}
}

// tokensFor is the paper's number of tokens: a quarter of the pipes, from 128
// pipes on always 128.
func tokensFor(pipes int) int {
	if pipes < 128 {
		return max(1, pipes/4)
	}
	return 128
}

// threads is what a system does in its own way: tasks, or goroutines. It serves where a call through it costs little
// beside what is measured.
type threads struct {
	spawn     func(func())
	sleep     func(time.Duration)
	yield     func()
	waitGroup func() waitGroup
	listen    func() (net.Listener, error)
	pipe      func() pipe       // with two descriptors
	bothWays  func(fd int) pipe // with one
}

type waitGroup interface {
	Add(int)
	Done()
	Wait()
}

func (s *threads) metrics() map[string]metricFunc {
	return map[string]metricFunc{
		"tokens": s.tokens, "parked": s.parked,
		"background": s.lingering, "reset": s.lingering, "waiting": s.lingering,
		relayedMetric: s.relay, copiedMetric: s.relay,
	}
}

func (s *threads) tokens(j job) {
	pipes := openPipes(j.x, s.pipe, s.bothWays)
	var passed atomic.Int64
	for i := range pipes {
		s.spawn(func() { passTokens(pipes, i, &passed) })
	}
	tokens := tokensFor(len(pipes))
	for t := range tokens {
		must(pipes[t*len(pipes)/tokens].w.Write(make([]byte, tokenBytes)))
	}
	for passed.Load() < int64(j.x)+1000 {
		s.sleep(5 * time.Millisecond)
	}
	start, before := time.Now(), passed.Load()
	s.sleep(j.duration)
	took, moved := time.Since(start), passed.Load()-before
	j.emit("tokens", "tokens/s", float64(moved)/took.Seconds())
}

// parked makes j.x tasks, lets each park, wakes them all and waits until they have finished.
func (s *threads) parked(j job) {
	open := s.waitGroup()
	open.Add(1)
	self := os.Getpid()
	before := must(proc.Memory(self))
	var arrived, ended atomic.Int64
	start := time.Now()
	for range j.x {
		s.spawn(func() {
			arrived.Add(1)
			open.Wait()
			ended.Add(1)
		})
	}
	for arrived.Load() < int64(j.x) {
		s.yield()
	}
	parked := time.Since(start)
	after := must(proc.Memory(self))
	resume := time.Now()
	open.Done()
	for ended.Load() < int64(j.x) {
		s.yield()
	}
	finished := time.Since(resume)
	per := func(d time.Duration) float64 { return float64(d) / float64(j.x) }
	j.emit("bytes-per-task", "B", float64(after-before)/float64(j.x))
	j.emit("park", "ns", per(parked))
	j.emit("made-and-finished", "ns", per(parked+finished))
}

// spareDescriptors are left for everything but the pipes.
const spareDescriptors = 100

// openPipes opens n pipes: two descriptors each where they fit below the limit,
// otherwise one each that reads and writes.
func openPipes(n int, double func() pipe, single func(fd int) pipe) []pipe {
	var limit unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	pipes := make([]pipe, n)
	for i := range pipes {
		if uint64(2*n+spareDescriptors) > limit.Cur {
			pipes[i] = single(openBothWays())
		} else {
			pipes[i] = double()
		}
	}
	return pipes
}

// openBothWays opens a pipe through one non-blocking descriptor that reads what
// it wrote (fifo(7): a FIFO opened for reading and writing).
func openBothWays() int {
	var ends [2]int
	check(unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	return must(unix.Open(fmt.Sprintf("/proc/self/fd/%d", ends[0]), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0))
}
