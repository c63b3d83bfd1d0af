package gotrace

import (
	"bytes"
	"runtime"
	"runtime/trace"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
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
