package tables_test

import (
	"fmt"
	"os"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// A server in which tasks wait for requests and for a lock.
func ExampleWriteText() {
	times := func(count int, mean, longest time.Duration) bgraph.Times {
		var t bgraph.Times
		for range count {
			t.Add(bgraph.Nanos(mean))
		}
		t.Max = bgraph.Nanos(longest)
		return t
	}
	const read, lock = 100, 200
	s := &bgraph.Snapshot{
		Program: bgraph.Program{Name: "server", PID: 4711, Host: "web-1", Go: "go1.26.8"},
		Taken:   time.Date(2026, time.March, 14, 3, 12, 45, 0, time.UTC),
		Span:    bgraph.Nanos(10 * time.Second),
		Loops:   []bgraph.LoopStat{{Index: 0, Tasks: 41, Steps: 199_959}},
		Nodes: []bgraph.Node{
			{Key: read, Reason: "read", Stack: []bgraph.Frame{{Function: "example.com/server.(*conn).next"}},
				Now: 9, Peak: 50, Arrivals: 100_000, Departures: 99_991, Wait: times(99_991, time.Millisecond, time.Second)},
			{Key: lock, Reason: "mutex", Label: "session lock",
				Now: 32, Peak: 33, Arrivals: 99_991, Departures: 99_959, Wait: times(99_959, 3*time.Millisecond, 9*time.Millisecond)},
		},
		Edges: []bgraph.Edge{
			{From: read, To: lock, Count: 99_991, CPU: times(99_991, 5*time.Microsecond, 40*time.Microsecond)},
			{From: lock, To: read, Count: 99_959, CPU: times(99_959, 20*time.Microsecond, 80*time.Microsecond)},
		},
	}
	if err := tables.WriteText(os.Stdout, s, tables.Options{Sort: "now"}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// server, pid 4711 on web-1, go1.26.8, at 2026-03-14 03:12:45 UTC
	// 41 tasks; in 10.0s 199,950 steps (19,995/s), CPU 2.50s (25.0% of 1 loop)
	// every wait was timed; heap was not measured
	//
	// LOOK AT FIRST: 1 finding, -lint tells more
	//   warning convoy: session lock
	//     30.0 tasks queue here on average (now 32, at most 33); each waits for 3ms, then runs for
	//     20µs. 99,959 of them then run to read server.(*conn).next for 20µs and wait there for 1ms.
	//   CPU: 80.0% of it between session lock and read server.(*conn).next, 9,996/s, 20.0µs each
	//   CPU: 20.0% of it between read server.(*conn).next and session lock, 9,999/s, 5.00µs each
	//   waiting: 32 tasks at session lock, for 3.00ms on average
	//
	// NODES: 2, sorted by now
	//   node                      now  waiting  peak  arrivals/s    wait  wait p99  wait max  ready  ready p99  oldest
	//   session lock               32     32.0    33       9,999  3.00ms    3.14ms    9.00ms      0          0       0
	//   read server.(*conn).next    9     10.0    50      10,000  1.00ms    1.05ms     1.00s      0          0       0
	//
	// EDGES: 2, sorted by cpu
	//   from                      → to                         count  per s    CPU    mean  recent ± sd     p99     max
	//   session lock              → read server.(*conn).next  99,959  9,996  80.0%  20.0µs            0  20.4µs  80.0µs
	//   read server.(*conn).next  → session lock              99,991  9,999  20.0%  5.00µs            0  5.11µs  40.0µs
	//
	// LOOPS
	//   loop  tasks    steps  steps/s
	//      0     41  199,959   19,996
}
