package knot

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// TestDeadlockOfHandlers is logged, and found in the graph, while the server goes on listening
// and a connection rests.
func TestDeadlockOfHandlers(t *testing.T) {
	checkLeaks(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var a, b task.Mutex
	both := task.NewChan[bool](2)
	meet := func() { // both have their first lock
		both.Send(true)
		for both.Len() < 2 {
			task.Yield()
		}
	}
	addr := make(chan string, 1)
	s := &Server{Addr: "127.0.0.1:0", ErrorLog: quietLog(), Listening: func(a net.Addr) { addr <- a.String() }, Handler: func(x *Ctx) error {
		first, second := &a, &b
		switch x.Path() {
		case "/ba":
			first, second = &b, &a
		case "/":
			return doneHandler(x)
		}
		first.Lock()
		meet()
		second.Lock()
		second.Unlock()
		first.Unlock()
		return doneHandler(x)
	}}
	var log testenv.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(context.Background(), func(context.Context) error { return s.Run(ctx) },
			capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(textLog(&log)))
	}()
	sv := &served{Server: s, t: t, addr: <-addr}
	idle, one, two := sv.dial(), sv.dial(), sv.dial()
	idle.ask(req("GET /"))
	one.send(req("GET /ab"))
	two.send(req("GET /ba"))
	testenv.Until(t, "the log tells of a deadlock", func() bool {
		return strings.Contains(log.String(), "task: deadlock: tasks hold each other up for ever")
	})
	testenv.Equal(t, strings.Count(log.String(), "held by task"), 2, "tasks are named: %s", &log)
	testenv.Until(t, "the deadlock is found in the graph", func() bool {
		return slices.ContainsFunc(lint.Find(capriccio.Snapshot(nil)), func(f lint.Finding) bool {
			return f.Check == lint.CheckStuck && f.Severity == lint.SeverityError && strings.Contains(f.Message, "deadlock")
		})
	})
	a.Unlock() // as no handler can; the one that gets it unlocks b, and the other then fails to unlock a
	for _, p := range []*peer{one, two, idle} {
		p.nc.Close()
	}
	cancel()
	<-ended
}
