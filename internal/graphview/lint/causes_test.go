package lint

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// serving is the graph of a server of net/http whose handler waits at some nodes. The first one takes most of the time.
func serving(waits ...bgraph.Node) *bgraph.Snapshot {
	return graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes, s.Edges = nil, nil
		for i, n := range waits {
			n.Key = bgraph.Key(100 + i)
			s.Nodes = append(s.Nodes, n)
			s.Edges = append(s.Edges, bgraph.Edge{From: n.Key, To: n.Key, Count: n.Departures, CPU: times(int(n.Departures), 20*time.Microsecond)})
		}
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 200, Reason: "response", Arrivals: 300, Departures: 300},
			bgraph.Node{Key: 201, Reason: "accept", Now: 1, Stack: frames("net.(*TCPListener).Accept", "net/http.(*Server).Serve")})
	})
}

func frames(functions ...string) (stack []bgraph.Frame) {
	for i, f := range functions {
		stack = append(stack, bgraph.Frame{Function: f, File: "main.go", Line: 10 + i})
	}
	return stack
}

// waited is a node that was left count times, after a wait of so long.
func waited(reason string, count int, long time.Duration, functions ...string) bgraph.Node {
	return bgraph.Node{Reason: reason, Stack: frames(functions...), Arrivals: uint64(count), Departures: uint64(count), Peak: 20, Wait: times(count, long)}
}

func times(count int, long time.Duration) (t bgraph.Times) {
	for range count {
		t.Add(bgraph.Nanos(long))
	}
	return t
}

// TestCauses: what the first finding says of programs with one fault each.
func TestCauses(t *testing.T) {
	const handler, serve, conn = "main.main.func1", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve"
	for name, c := range map[string]struct {
		s                         *bgraph.Snapshot
		severity, check, at, says string
	}{
		"a lock in the kernel, in a function that few leave by another system call": {
			serving(waited("system call", 300, 60*time.Millisecond, "syscall.Flock", "main.claim", handler, serve, conn), waited("system call", 2, 2*time.Millisecond, "os.Open", "main.claim", handler, serve, conn)),
			SeverityWarning, CheckDependency, "main.go:11", "Requests spend 100% of their time in syscall.Flock in main.claim (main.go:11): 60"},
		"a connection for each request, with its name looked up": {
			serving(waited("pool", 300, 30*time.Millisecond, "net/http.(*Transport).getConn", "net/http.(*Client).Get", "main.notify", handler, serve, conn),
				waited("select", 300, 25*time.Millisecond, "net.(*Resolver).lookupIPAddr", "net/http.(*Transport).dial", "net/http.(*Transport).startDialConnForLocked.func1")),
			SeverityWarning, CheckDependency, "main.go:12", "wait for new connections: 300 a second are made, and 9.00 requests wait for one, each for 30ms, of which 25ms are for looking up the name (DNS)"},
		"connections to a far server": {
			serving(waited("pool", 300, 30*time.Millisecond, "net/http.(*Transport).getConn", "net/http.(*Client).Get", "main.notify", handler, serve, conn),
				waited("connect", 300, 25*time.Millisecond, "net/http.(*Transport).dial", "net/http.(*Transport).startDialConnForLocked.func1")),
			SeverityInfo, CheckDependency, "main.go:12", "each for 30ms."},
		"two connections for all": {
			serving(waited("pool", 300, 30*time.Millisecond, "net/http.(*Transport).getConn", "net/http.(*Client).Get", "main.notify", handler, serve, conn)),
			SeverityWarning, CheckConvoy, "main.go:12", "All connections of the pool are in use"},
		"a loop that yields": {
			graphcases.Traced(func(s *bgraph.Snapshot) {
				s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "running", Stack: frames("main.await")}, bgraph.Node{Key: 102, Reason: "accept", Now: 1})
				s.Edges = append(s.Edges, bgraph.Edge{From: 101, To: 101, Count: 1, CPU: times(1, 200*time.Millisecond), Parts: bgraph.Parts{Preempted: 800e6}})
				s.Starts = append(s.Starts, bgraph.Start{Function: "main.await", File: "main.go", Line: 9, Now: 1, CPU: 200e6})
			}),
			SeverityWarning, CheckBusy, "main.go:9", "main.await (main.go:9) never waits, though it gives its P away again and again (runtime.Gosched): 1 goroutine of it ran for 200ms"},
	} {
		found := Find(c.s)
		if len(found) == 0 {
			t.Errorf("%s: nothing found", name)
			continue
		}
		if f := found[0]; f.Severity != c.severity || f.Check != c.check || f.At != c.at || !strings.Contains(f.Message, c.says) {
			t.Errorf("%s: got %s %s at %s: %s", name, f.Severity, f.Check, f.At, f.Message)
		}
	}
}

// A request of HTTP/2 counts, as one of HTTP/1 does.
func TestRepeatedCallsOfHTTP2(t *testing.T) {
	const stream = "net/http.(*http2serverConn).runHandler"
	s := serving(waited("read", 10_000, time.Millisecond, "net.(*conn).Read", "main.load", "main.handle", "net/http.serverHandler.ServeHTTP", stream))
	for _, requests := range []uint64{0, 10_000} {
		s.Starts = []bgraph.Start{{Function: stream, Created: requests, Ended: requests}}
		repeated := slices.ContainsFunc(Find(s), func(f Finding) bool { return f.Check == CheckRepeated })
		testenv.Equal(t, repeated, requests == 0, "%d requests of HTTP/2: each calls the same again and again", requests)
	}
}

// A connection that a handler has made one of HTTP/2 (h2c) is no request, but its requests are.
func TestHTTP2WithoutTLS(t *testing.T) {
	const http2 = "golang.org/x/net/http2"
	conn := waited("select", 1, time.Second, http2+".(*serverConn).serve", http2+"/h2c.h2cHandler.ServeHTTP", "net/http.serverHandler.ServeHTTP", "net/http.(*conn).serve")
	request := waited("sleep", 1, time.Second, "time.Sleep", "main.(*app).ServeHTTP", http2+".(*serverConn).runHandler")
	testenv.Equal(t, served(&conn), false, "a connection is served")
	testenv.Equal(t, served(&request), true, "a request is served")
}

// What helps requests of net/http's client is not what helps queries.
func TestConnectionsToAHostThatDoesNotAnswer(t *testing.T) {
	const client, database = "MaxConnsPerHost", "SetMaxOpenConns"
	for waits, want := range map[string][2]string{"net/http.(*Transport).getConn": {client, database}, "database/sql.(*DB).conn": {database, client}} {
		for _, left := range []int{0, 300} {
			n := waited("pool", left, 30*time.Millisecond, waits, "main.ask", "main.main")
			if left == 0 {
				n.Arrivals, n.Now, n.Oldest = 4, 4, bgraph.Nanos(5*time.Second)
			}
			found := Find(serving(n))
			at := slices.IndexFunc(found, func(f Finding) bool { return f.Node == 100 })
			if at < 0 || !strings.Contains(found[at].Advice, want[0]) || strings.Contains(found[at].Advice, want[1]) {
				t.Errorf("%s, of which %d have left: got %+v", waits, left, found)
			}
		}
	}
}

// A goroutine that is preempted because others have the Ps waits for its turn, and is not blamed.
func TestPreemptedIsNotYielding(t *testing.T) {
	for _, f := range Find(graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "running", Stack: frames("main.compute")})
		s.Edges = append(s.Edges, bgraph.Edge{From: 101, To: 101, Count: 1, CPU: times(1, 200*time.Millisecond), Parts: bgraph.Parts{Preempted: 800e6}})
		s.Starts = append(s.Starts, bgraph.Start{Function: "main.compute", Now: 1, CPU: 200e6})
		s.CollectorCPU = s.Span
	})) {
		if f.Check == CheckBusy {
			t.Errorf("got %+v", f)
		}
	}
}

// TestTimersAreNoServer: goroutines that timers wake wait for no goroutine whose function is not known, which is found by what it uses.
func TestTimersAreNoServer(t *testing.T) {
	found := Find(graphcases.Traced(func(s *bgraph.Snapshot) {
		n := waited("channel receive", 1000, 4*time.Millisecond, "main.tick")
		n.Key, n.Now, n.Wakers = 101, 4, []bgraph.Waker{{Count: 1000}}
		s.Nodes[0].Stack = frames("main.read")
		s.Nodes = append(s.Nodes, n, bgraph.Node{Key: 102, Reason: "accept", Now: 1})
		s.Starts = []bgraph.Start{{Function: "main.tick", Now: 4}, {Now: 1, CPU: s.Span}}
	}))
	if len(found) != 1 || found[0].Check != CheckBusy {
		t.Errorf("found %+v; want only that a goroutine computes all the time", found)
	}
}
