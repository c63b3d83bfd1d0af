//go:build linux

package gotrace

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var leafBegun, leafOver, leafEnded atomic.Bool

// leaf needs no frame on the stack, so that the Go runtime doesn't find its name when it preempts it.
func leaf() {
	leafBegun.Store(true)
	for x := uint64(1); x != 0 && !leafOver.Load(); x = x*6364136223846793005 + 1442695040888963407 {
	}
	leafEnded.Store(true)
}

// TestGoroutinesWithoutAFrameRun: a goroutine that runs all the time counts, also where the trace does not tell in which
// function.
func TestGoroutinesWithoutAFrameRun(t *testing.T) {
	leafBegun.Store(false)
	leafOver.Store(false)
	leafEnded.Store(false)
	go leaf()
	testenv.Until(t, "the goroutine runs before the trace does", leafBegun.Load)
	s := traced(t, func() { time.Sleep(200 * time.Millisecond) })
	leafOver.Store(true)
	testenv.Until(t, "the goroutine ends", leafEnded.Load)
	var cpu, stepCPU time.Duration
	for _, st := range s.Starts {
		cpu += st.CPU.Duration()
	}
	for _, e := range s.Edges {
		stepCPU += e.CPU.Sum.Duration()
	}
	if least := s.Span.Duration() / 4; cpu < least || stepCPU < least {
		t.Errorf("CPU of goroutines %v, of steps %v, in %v", cpu, stepCPU, s.Span)
	}
}

// TestCallsUnderWayAreThere: a goroutine in a long system call at the end of the trace is there, also if the call began before the
// trace did.
func TestCallsUnderWayAreThere(t *testing.T) {
	const callers = 5
	for _, before := range []bool{false, true} {
		var pipe [2]int
		testenv.Must(t, syscall.Pipe(pipe[:]))
		var all sync.WaitGroup
		begin := func() {
			for range callers {
				all.Go(func() { longCall(pipe[0]) })
			}
			stacks := make([]byte, 1<<20)
			testenv.Until(t, "all are in the call", func() bool {
				return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "gotrace.longCall(") == callers
			})
		}
		if before {
			begin()
		}
		s := traced(t, func() {
			if !before {
				begin()
			}
			time.Sleep(100 * time.Millisecond)
		})
		syscall.Close(pipe[1])
		all.Wait()
		syscall.Close(pipe[0])
		if n := at(t, s, "system call", "gotrace.longCall"); n.Now != callers || n.Peak != callers || (n.Oldest == s.Span) != before {
			t.Errorf("before the trace: %t: %d there of %d, %d at most, the oldest for %v of %v", before, n.Now, callers, n.Peak, n.Oldest, s.Span)
		}
	}
}

// TestPeakOfCalls: of callers that are in one call after the other, most are in a call at a time, and so they are in the graph.
func TestPeakOfCalls(t *testing.T) {
	const callers, rounds = 5, 8
	var all sync.WaitGroup
	s := traced(t, func() {
		for range callers {
			all.Go(func() {
				for range rounds {
					sleepInCall()
				}
			})
		}
		all.Wait()
	})
	n := at(t, s, "system call", "gotrace.sleepInCall")
	if mean := int64(n.Wait.Sum / s.Span); mean < callers/2 || n.Peak < mean || n.Peak > callers {
		t.Errorf("%d at most, %d on average, of %d", n.Peak, mean, callers)
	}
}

//go:noinline
func sleepInCall() { syscall.Nanosleep(&syscall.Timespec{Nsec: 20e6}, nil) }

//go:noinline
func longCall(fd int) { syscall.Read(fd, make([]byte, 1)) }

// TestWakesTogether: of a condition variable for each of many consumers, each wake is for one of them; of one for all, a
// Broadcast is for all.
func TestWakesTogether(t *testing.T) {
	const consumers, rounds = 8, 60
	for _, each := range []int{1, consumers} { // consumers of a condition variable
		s := traced(t, func() {
			var all sync.WaitGroup
			var queues []*rounders
			for range consumers / each {
				q := &rounders{left: rounds}
				q.turn.L = &q.mu
				for range each {
					all.Go(q.await)
				}
				queues = append(queues, q)
			}
			all.Go(func() { wake(queues, each) })
			all.Wait()
		})
		n := at(t, s, "cond", "gotrace.(*rounders).await")
		if n.Departures < consumers*rounds/2 || n.Together > n.Departures/2 != (each > 1) || each == 1 && n.Together > 0 {
			t.Errorf("%d at each: %d waits ended, %d together", each, n.Departures, n.Together)
		}
		for _, f := range lint.Find(s) {
			if f.Check == lint.CheckConvoy && each == 1 {
				t.Errorf("a warning of a healthy program: %+v", f)
			}
		}
	}
}

// rounders wait for one another's rounds.
type rounders struct {
	mu            sync.Mutex
	turn          sync.Cond
	left, waiting int // guarded by mu
}

//go:noinline
func (q *rounders) await() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.left > 0 {
		q.waiting++
		q.turn.Wait()
	}
}

// wake ends the waits at all the queues, round by round, whenever as many wait as each has: by one Broadcast, or Signals.
func wake(queues []*rounders, each int) {
	for left := 1; left > 0; {
		left = 0
		for _, q := range queues {
			q.mu.Lock()
			if q.waiting == each {
				q.waiting = 0
				q.left--
				if each == 1 {
					q.turn.Signal()
				} else {
					q.turn.Broadcast()
				}
			}
			left += q.left
			q.mu.Unlock()
		}
		time.Sleep(time.Microsecond) // the end of a step
	}
}
