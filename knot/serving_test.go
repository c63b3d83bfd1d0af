package knot

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// modes are the ways a server is run in tests: every test of the HTTP layer
// passes in each. One loop is tried with testenv.Full only.
var modes = []struct {
	name  string
	loops int // 0: goroutines on package net
}{{"goroutines", 0}, {"1 loop", 1}, {"3 loops", 3}}

// everyMode runs a test in each mode and checks that nothing is left after it.
func everyMode(t *testing.T, fn func(t *testing.T, start func(*Server) *served)) {
	for _, mode := range modes {
		if mode.loops == 1 && !testenv.Full() {
			continue
		}
		t.Run(mode.name, func(t *testing.T) {
			checkLeaks(t)
			fn(t, func(s *Server) *served { return startServer(t, s, mode.loops) })
		})
	}
}

// served is a server under test.
type served struct {
	*Server
	t    *testing.T
	addr string
	log  *testenv.Buffer // the error log
	stop func()          // ends server and runtime; called by Cleanup at the latest
}

func startServer(t *testing.T, s *Server, loops int) *served {
	t.Helper()
	sv := &served{Server: s, t: t, log: new(testenv.Buffer)}
	if s.ErrorLog == nil {
		s.ErrorLog = textLog(sv.log)
	}
	var ln net.Listener
	var err error
	closeRuntime := func() error { return nil }
	if loops == 0 {
		ln, err = net.Listen("tcp", "127.0.0.1:0")
		s.warned.goroutines.Store(true) // the test knows
	} else {
		closeRuntime = newRuntime(t, loops).Close
		ln, err = netpoll.Listen("tcp", "127.0.0.1:0")
	}
	testenv.Must(t, err)
	sv.addr = ln.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	sv.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testenv.Check(t, s.Shutdown(ctx), "Shutdown")
		testenv.Equal(t, <-ended, ErrServerClosed, "Serve")
		last := s.Stats()
		testenv.Equal(t, last.Conns, last.Hijacked, "connections left")
		testenv.Check(t, closeRuntime(), "closing the runtime")
	})
	t.Cleanup(sv.stop)
	return sv
}

// limited sets limits of s that are no fields of it.
func limited(s *Server, set func(l *settings)) *Server {
	s.ready()
	set(s.set.Load())
	return s
}

func newRuntime(t *testing.T, loops int) *task.Runtime {
	t.Helper()
	return testenv.Need(capriccio.New(capriccio.WithLoops(loops), capriccio.WithHoldLimit(time.Hour), capriccio.WithoutRefusals()))(t)
}

// startRuntime is newRuntime that is closed at the end of the test.
func startRuntime(t *testing.T, loops int) *task.Runtime {
	t.Helper()
	rt := newRuntime(t, loops)
	t.Cleanup(func() { testenv.Check(t, rt.Close()) })
	return rt
}

func (sv *served) url() string { return "http://" + sv.addr }

// checkLeaks fails the test if goroutines or descriptors are left at its end.
func checkLeaks(t *testing.T) {
	openGoPoller()
	goroutines, fds := runtime.NumGoroutine(), countFDs()
	t.Cleanup(func() {
		patience := time.After(time.Minute)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			g, f := runtime.NumGoroutine(), countFDs()
			if g <= goroutines && f <= fds {
				return
			}
			if g <= goroutines {
				runtime.GC() // closes the pipes that package net keeps for splice
			}
			select {
			case <-tick.C:
			case <-patience:
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				t.Fatalf("%d goroutines and %d descriptors, before the test %d and %d\n%s", g, f, goroutines, fds, stacks)
			}
		}
	})
}

// openGoPoller makes Go's own poller, whose descriptors stay.
var openGoPoller = sync.OnceFunc(func() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
})

// countFDs may fall at any time, as what earlier tests have left is closed in the background.
func countFDs() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// slowly is echoHandler, whose requests for /slow say that they have begun, and wait until they may go on.
func slowly(began chan<- bool, goOn <-chan bool) Handler {
	return func(x *Ctx) error {
		if x.Path() == "/slow" {
			task.Offload(func() { began <- true; <-goOn })
		}
		return echoHandler(x)
	}
}

// echoHandler tells what it was asked.
func echoHandler(x *Ctx) error {
	switch x.Path() {
	case "/echo":
		body, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		return x.Send(200, "application/octet-stream", body)
	case "/panic":
		panic("a handler's panic")
	case "/goexit":
		runtime.Goexit()
	case "/half":
		x.WriteString("half of it")
		x.Flush()
		panic("in the middle")
	case "/404":
		return Status(404)
	case "/stream":
		for range 40 {
			if _, err := x.WriteString(strings.Repeat("0123456789abcdef", 100)); err != nil {
				return err
			}
		}
		return nil
	case "/parts":
		x.SetContentType("text/plain")
		x.WriteString("a")
		x.WriteString("b")
		return nil
	case "/nothing":
		return nil
	case "/large":
		return x.Send(200, "text/plain", bytes.Repeat([]byte("L"), 1<<20))
	}
	return x.SendString(200, "text/plain", x.Method()+" "+x.Path()+"?"+x.Query()+" "+x.Host())
}
