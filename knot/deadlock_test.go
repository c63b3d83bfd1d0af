package knot

import (
	"context"
	"log/slog"
	"net"
	"runtime"
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
	s := &Server{Addr: "127.0.0.1:0", ErrorLog: slog.New(slog.DiscardHandler), Listening: func(a net.Addr) { addr <- a.String() }, Handler: func(x *Ctx) error {
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
			capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	}()
	sv := &served{Server: s, t: t, addr: <-addr}
	idle, one, two := sv.dial(), sv.dial(), sv.dial()
	idle.send(smallRequest)
	idle.response("GET")
	one.send("GET /ab HTTP/1.1\r\nHost: h\r\n\r\n")
	two.send("GET /ba HTTP/1.1\r\nHost: h\r\n\r\n")
	for !strings.Contains(log.String(), "task: deadlock: tasks hold each other up for ever") { // the test's time limit ends this
		runtime.Gosched()
	}
	testenv.Equal(t, strings.Count(log.String(), "held by task"), 2, "tasks are named: %s", &log)
	for found := false; !found; runtime.Gosched() {
		for _, f := range lint.Find(capriccio.Snapshot(nil)) {
			found = found || f.Check == lint.CheckStuck && f.Severity == lint.SeverityError && strings.Contains(f.Message, "deadlock")
		}
	}
	a.Unlock() // as no handler can; the one that gets it unlocks b, and the other then fails to unlock a
	for _, p := range []*peer{one, two} {
		p.nc.Close()
	}
	idle.nc.Close()
	cancel()
	<-ended
}
