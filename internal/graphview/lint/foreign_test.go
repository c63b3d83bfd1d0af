package lint

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// foreignStacks are those of goroutines that net/http has for each connection, innermost first.
var foreignStacks = [][]string{
	{"internal/poll.(*FD).Read", "net/http.(*persistConn).Read", "bufio.(*Reader).Peek", "net/http.(*persistConn).readLoop"},
	{"net/http.(*persistConn).writeLoop"},
	{"net/http.(*connReader).backgroundRead"},
	{"net/http.(*connReader).abortPendingRead", "net/http.(*conn).serve"},
	{"sync.(*Mutex).Lock", "net/http.(*http2serverConn).serve"},
	{"sync.(*Mutex).Lock", "net/http/internal/http2.(*serverConn).serve"},
	{"net/http.(*Transport).dialConnFor", "net/http.(*Transport).startDialConnForLocked.func1"},
}

// TestNothingIsSaidOfForeignGoroutines: whatever figures the goroutines of net/http have, no finding names a place of theirs, but for
// clients that do not read what is written, and steps with many system calls, which are remarks.
func TestNothingIsSaidOfForeignGoroutines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	reasons := []string{"mutex", "rwmutex read", "rwmutex write", "semaphore", "once", "pool", "cond", "channel send", "channel receive", "select", "waitgroup", "connect", "read", "system call"}
	found := map[string]bool{}
	for range 300 {
		one := func(own bool) []Finding {
			return Find(graphcases.Traced(func(s *bgraph.Snapshot) {
				s.Nodes, s.Edges, s.Starts = nil, nil, nil
				for i, stack := range foreignStacks {
					if own {
						stack = []string{"main.wait", "main.work"}
					}
					s.Nodes = append(s.Nodes, wild(random, bgraph.Key(100+i), reasons[random.IntN(len(reasons))], stack))
					s.Edges = append(s.Edges, wildStep(random, bgraph.Key(100+i), bgraph.Key(100+random.IntN(len(foreignStacks)))))
					if random.IntN(2) == 0 { // goroutines that begin and end within the trace
						s.Edges = append(s.Edges, wildStep(random, bgraph.KeyStart, bgraph.Key(100+i)), wildStep(random, bgraph.Key(100+i), bgraph.KeyEnd))
					}
					s.Starts = append(s.Starts, bgraph.Start{Function: stack[len(stack)-1], File: "net/http/server.go", Line: 9,
						Created: 30_000, Ended: uint64(random.IntN(30_001)), Now: 20_000, Leaked: uint64(random.IntN(2)), CPU: s.Span / 2})
				}
				s.Sort()
			}))
		}
		for _, f := range one(false) {
			for _, text := range []string{f.Name, f.Message, f.Path} {
				if (strings.Contains(text, "http.(*") || strings.Contains(text, "http2.(*")) && f.Check != CheckSystemCalls || f.Check == CheckSystemCalls && f.Severity != SeverityInfo {
					t.Fatalf("%s %s of %s: %s\nseed %d", f.Severity, f.Check, f.Name, f.Message, seed)
				}
			}
		}
		for _, f := range one(true) {
			found[f.Check] = true
		}
	}
	testenv.AtLeast(t, len(found), 8, "checks that find something in goroutines of the program with such figures: %v;", found)
}

// wild is a node with any figures.
func wild(random *rand.Rand, k bgraph.Key, reason string, functions []string) bgraph.Node {
	n := bgraph.Node{Key: k, Reason: reason, Departures: uint64(random.IntN(20_000)), Now: int64(random.IntN(500)), Peak: 500, Oldest: bgraph.Nanos(random.IntN(1000)) * 1e9}
	if random.IntN(3) == 0 {
		n.Departures = 0
	}
	n.Arrivals = n.Departures + uint64(n.Now)
	for _, f := range functions {
		n.Stack = append(n.Stack, bgraph.Frame{Function: f, File: "net/http/server.go", Line: 7})
	}
	long := time.Duration(1 << random.IntN(28))
	n.Wait, n.Ready = mixedTimes(20, long, 1, 300*long), mixedTimes(20, long/8, 1, 40*long)
	n.Wakers, n.Together = []bgraph.Waker{{Function: functions[0], File: "net/http/server.go", Line: 7, Count: n.Departures}}, n.Departures
	return n
}

func wildStep(random *rand.Rand, from, to bgraph.Key) bgraph.Edge {
	long := time.Duration(1 << random.IntN(26))
	e := bgraph.Edge{From: from, To: to, CPU: mixedTimes(20, long, 1, 20*long)}
	e.Count = e.CPU.Count * uint64(1+random.IntN(50))
	e.Parts = bgraph.Parts{Calls: e.Count * uint64(random.IntN(30)), System: bgraph.Nanos(random.IntN(1e9)), Moves: e.Count}
	return e
}
