package gotrace

import (
	"bytes"
	"context"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// traced returns the graph of what program does, and of what the test framework does beside.
func traced(t *testing.T, program func()) *bgraph.Snapshot {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skipf("another trace is being taken: %v", err)
	}
	program()
	trace.Stop()
	s := testenv.Need(Read(&b, Options{}))(t)
	testenv.Must(t, s.Validate())
	testenv.Equal(t, len(s.Notes), 0, "notes: %q", s.Notes)
	return s
}

// at returns the node with that reason whose stack has the function.
func at(t *testing.T, s *bgraph.Snapshot, reason, function string) *bgraph.Node {
	t.Helper()
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for _, f := range n.Stack {
			if n.Reason == reason && strings.HasSuffix(f.Function, function) {
				return n
			}
		}
	}
	for i := range s.Nodes {
		t.Logf("%s: %d", s.Nodes[i].Name(), s.Nodes[i].Arrivals)
	}
	t.Fatalf("no node %s %s", reason, function)
	return nil
}

func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

func pinger(ping, pong chan int, rounds int) {
	for i := range rounds {
		ping <- i
		<-pong
	}
	close(ping)
}

func ponger(ping, pong chan int) {
	for v := range ping {
		pong <- v
	}
}

// Every hand-over is there, with the waker and the woken, and what began has ended.
func TestCountsOfAKnownProgram(t *testing.T) {
	const rounds = 2000
	s := traced(t, func() {
		ping, pong := make(chan int), make(chan int)
		var wg sync.WaitGroup
		before := runtime.NumGoroutine()
		wg.Go(func() { pinger(ping, pong, rounds) })
		wg.Go(func() { ponger(ping, pong) })
		wg.Wait()
		for runtime.NumGoroutine() > before { // they end a little after Done
			runtime.Gosched()
		}
	})
	var waits uint64
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if f := n.Place(); f != nil && (strings.HasSuffix(f.Function, ".pinger") || strings.HasSuffix(f.Function, ".ponger")) {
			waits += n.Arrivals
			if n.Arrivals != n.Departures {
				t.Errorf("%s: %d came, %d left", n.Name(), n.Arrivals, n.Departures)
			}
			var woken uint64
			for _, w := range n.Wakers {
				woken += w.Count
				if !strings.HasSuffix(w.Function, "er") {
					t.Errorf("%s was woken by %q", n.Name(), w.Function)
				}
			}
			if woken != n.Departures {
				t.Errorf("%s: %d wakers, %d left", n.Name(), woken, n.Departures)
			}
		}
	}
	// Each of two values of a round crosses with at least one wait; no more than both sides can wait.
	if waits < rounds || waits > 4*rounds+2 {
		t.Errorf("%d waits in %d rounds", waits, rounds)
	}
	var ended uint64
	for _, st := range s.Starts {
		if strings.Contains(st.Function, "sync.(*WaitGroup).Go") {
			ended += st.Ended
			if st.Created != st.Ended || st.Life.Count != st.Ended || st.Now != 0 {
				t.Errorf("%+v", st)
			}
		}
	}
	if ended != 2 {
		t.Errorf("%d goroutines ended, want 2: %+v", ended, s.Starts)
	}
	steps(t, s)
}

// steps checks that what comes to a node is the sum of the edges that lead there.
func steps(t *testing.T, s *bgraph.Snapshot) {
	t.Helper()
	in := map[bgraph.Key]uint64{}
	for i := range s.Edges {
		in[s.Edges[i].To] += s.Edges[i].Count
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key == bgraph.KeyStart || in[n.Key] > n.Arrivals {
			if in[n.Key] > n.Arrivals {
				t.Errorf("%s: %d arrivals, edges say %d", n.Name(), n.Arrivals, in[n.Key])
			}
			continue
		}
		if n.Arrivals > in[n.Key]+100 { // those that waited when the trace began
			t.Errorf("%s: %d arrivals, edges say %d", n.Name(), n.Arrivals, in[n.Key])
		}
	}
}

func sleeper(n int, d time.Duration) {
	for range n {
		time.Sleep(d)
		spin(200 * time.Microsecond)
	}
}

// Waits are as long as they were at least, steps take the CPU time that they were given.
func TestTimesOfAKnownProgram(t *testing.T) {
	const n, d = 40, 3 * time.Millisecond
	s := traced(t, func() {
		var wg sync.WaitGroup
		wg.Go(func() { sleeper(n, d) })
		wg.Wait()
	})
	sleep := at(t, s, "sleep", ".sleeper")
	if sleep.Arrivals != n || sleep.Wait.Count != n {
		t.Errorf("%d waits, want %d", sleep.Arrivals, n)
	}
	// A timer never fires early; how late it fires depends on the machine, as does the time between the
	// call and the wait.
	if mean := sleep.Wait.Mean().Duration(); mean < d/2 {
		t.Errorf("mean wait %v, want %v or more", mean, d)
	}
	for i := range sleep.Wakers {
		if sleep.Wakers[i].Function != "" && !strings.Contains(sleep.Wakers[i].Function, "time.") {
			t.Logf("woken by %+v", sleep.Wakers[i]) // by the goroutine that ran the timers
		}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		if e.From == sleep.Key && e.To == sleep.Key {
			testenv.Equal(t, e.Count, n-1, "steps")
			// spin ends by the wall clock, so what others took of the time is in the parts.
			if mean := (e.CPU.Sum + e.Parts.Preempted).Duration() / (n - 1); mean < 190*time.Microsecond {
				t.Errorf("mean step %v, want 200 µs", mean)
			}
			return
		}
	}
	t.Error("no step from sleep to sleep")
}

var locked sync.Mutex

func locker(n int) {
	for range n {
		locked.Lock()
		spin(20 * time.Microsecond)
		locked.Unlock()
	}
}

// A lock is a lock, and its waker is the one that unlocks it.
func TestReasons(t *testing.T) {
	s := traced(t, func() {
		locked.Lock()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { locker(10) })
		}
		wg.Go(unlockWhenAllWait)
		waitAll(&wg)
	})
	lock := at(t, s, "mutex", ".locker")
	if len(lock.Wakers) == 0 || !strings.HasSuffix(lock.Wakers[0].Function, "locker") && !strings.HasSuffix(lock.Wakers[0].Function, "unlockWhenAllWait") {
		t.Errorf("woken by %+v", lock.Wakers)
	}
	at(t, s, "waitgroup", ".waitAll")
}

func waitAll(wg *sync.WaitGroup) { wg.Wait() }

// unlockWhenAllWait gives the lock back when four goroutines wait for it and the test's for them.
func unlockWhenAllWait() {
	stacks := make([]byte, 1<<20)
	for {
		all := string(stacks[:runtime.Stack(stacks, true)])
		if strings.Count(all, "[sync.Mutex.Lock") == 4 && waitsInWaitAll(all) {
			break
		}
		runtime.Gosched()
	}
	locked.Unlock()
}

func waitsInWaitAll(stacks string) bool {
	for one := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(one, ".waitAll(") && strings.Contains(one, "[sync.WaitGroup.Wait") {
			return true
		}
	}
	return false
}

// Tasks and regions cut steps and have their times.
func TestTasksAndRegions(t *testing.T) {
	s := traced(t, func() {
		for range 5 {
			ctx, task := trace.NewTask(context.Background(), "order")
			trace.WithRegion(ctx, "price", func() { spin(50 * time.Microsecond) })
			task.End()
		}
	})
	want := map[string]string{"order": "task", "price": "region"}
	for _, sp := range s.Spans {
		if want[sp.Name] == sp.Kind && sp.Times.Count == 5 && sp.Times.Mean() >= 49_000 {
			delete(want, sp.Name)
		}
	}
	testenv.Equal(t, len(want), 0, "missing %v in %+v", want, s.Spans)
	begins := at(t, s, "task begins", "TestTasksAndRegions.func1")
	if begins.Label != "order" || begins.Arrivals != 5 || begins.Departures != 5 {
		t.Errorf("%+v", begins)
	}
}
