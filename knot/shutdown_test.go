package knot

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

func doneHandler(x *Ctx) error { return x.SendString(200, "text/plain", "done") }

// startDown begins a Shutdown that has as long as it needs, once the server listens, and
// returns when it has begun.
func startDown(sv *served) (down chan error) {
	down = make(chan error, 1)
	for len(sv.conns.tracked()) == 0 {
		runtime.Gosched()
	}
	go func() { down <- sv.Shutdown(context.Background()) }()
	for !sv.conns.stopping.Load() {
		runtime.Gosched()
	}
	return down
}

// awaitConns waits until the server has accepted n connections.
func (sv *served) awaitConns(n int) {
	for sv.Stats().Conns < n {
		runtime.Gosched()
	}
}

// wantLast sends a request, whose answer must be complete and the last of its connection.
func wantLast(nc net.Conn) error {
	if _, err := io.WriteString(nc, req("GET /")); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	r := bufio.NewReader(nc)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "done" || !resp.Close {
		return fmt.Errorf("body %q, %v, Connection: close %v", body, err, resp.Close)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return fmt.Errorf("after the answer: %w", err)
	}
	return nil
}

// TestShutdownWaitsForRequests: connections at rest are closed, requests under way and the first ones of connections are answered.
func TestShutdownWaitsForRequests(t *testing.T) {
	ca := testenv.NewCA(t)
	for name, config := range map[string]*tls.Config{"plain": nil, "TLS": ca.Server(t)} {
		t.Run(name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				entered, leave := make(chan bool), make(chan bool)
				sv := start(&Server{TLS: config, Handler: slowly(entered, leave)})
				connect := func() *peer {
					if config != nil {
						return sv.dialTLS(ca.Client())
					}
					return sv.dial()
				}
				idle, busy, fresh := connect(), connect(), connect()
				idle.ask(req("GET /"))
				busy.send(req("GET /slow") + req("GET /second"))
				<-entered
				sv.awaitConns(3) // one that has not been accepted yet would be reset
				down := startDown(sv)
				idle.wantClosed() // over TLS with an alert before
				fresh.send(req("GET /"))
				fresh.want("200 close", "GET /? h", "the first request of a connection")
				fresh.wantClosed()
				fresh.nc.Close()
				leave <- true
				busy.want("200 close", "GET /slow? h")
				busy.wantClosed()
				busy.nc.Close()
				testenv.Check(t, <-down, "Shutdown")
			})
		})
	}
}

// TestShutdownGivesUp: at the end of its time it ends requests under way, which is not laid to their handlers.
func TestShutdownGivesUp(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for name, wait := range map[string]func(x *Ctx) error{
			"for its context": func(x *Ctx) error {
				ctx := x.Context()
				task.Offload(func() { <-ctx.Done() })
				return ctx.Err()
			},
			"for more of the body": func(x *Ctx) error { return testenv.Err(io.ReadAll(x.Body())) },
		} {
			entered := make(chan struct{})
			sv := start(&Server{Handler: func(x *Ctx) error {
				close(entered)
				return wait(x)
			}})
			p := sv.dial()
			p.send(req("POST /film", "Content-Length: 10") + "12345")
			<-entered
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			testenv.ErrorIs(t, sv.Shutdown(ctx), context.DeadlineExceeded, "Shutdown, a handler waits %s", name)
			cancel()
			io.Copy(io.Discard, p.r)
			testenv.Until(t, "the log has the request", func() bool { return strings.Contains(sv.log.String(), "/film") })
			if got := sv.log.String(); !strings.Contains(got, "the server has stopped before") || strings.Contains(got, "handler failed") {
				t.Errorf("a handler waits %s: the log says %s", name, got)
			}
		}
	})
}

// TestShutdownAnswersWhoHasConnected: accepted or still in the backlog, and sent before or after it
// began.
func TestShutdownAnswersWhoHasConnected(t *testing.T) {
	const clients = 64
	for _, loops := range []int{1, 3} {
		for round := range testenv.Rounds(3, 10) {
			t.Run(fmt.Sprint(loops, " loops, round ", round), func(t *testing.T) {
				checkLeaks(t)
				sv := startServer(t, &Server{Handler: doneHandler}, loops)
				all := make([]net.Conn, clients)
				for i := range all {
					all[i] = sv.dial().nc
				}
				down := startDown(sv)
				answers := make(chan error)
				for _, nc := range all {
					go func() { answers <- wantLast(nc) }()
				}
				for range all {
					testenv.Check(t, <-answers)
				}
				for _, nc := range all {
					nc.Close()
				}
				testenv.Check(t, <-down, "Shutdown")
				testenv.ErrorIs(t, testenv.Err(net.Dial("tcp", sv.addr)), syscall.ECONNREFUSED, "a client after the shutdown")
			})
		}
	}
}

// TestShutdownWhileClientsConnect: a client that gets a connection gets an answer.
func TestShutdownWhileClientsConnect(t *testing.T) {
	const clients = 64
	checkLeaks(t)
	sv := startServer(t, &Server{Handler: doneHandler}, 2)
	answers, begun := make(chan error), make(chan bool, clients)
	for range clients {
		go func() {
			nc, err := net.DialTimeout("tcp", sv.addr, 100*time.Millisecond)
			begun <- true
			if err != nil {
				answers <- nil // kept out, or refused
				return
			}
			defer nc.Close()
			answers <- wantLast(nc)
		}()
	}
	<-begun
	down := startDown(sv)
	for range clients {
		// A client that was served before it began may be told nothing; that is checked above.
		if err := <-answers; err != nil && err.Error() != `body "done", <nil>, Connection: close false` {
			t.Error(err)
		}
	}
	testenv.Check(t, <-down, "Shutdown")
}

// TestShutdownReadsWhatHasCome: a connection that waited for another request is not closed
// when that has come and nobody has had the time to look.
func TestShutdownReadsWhatHasCome(t *testing.T) {
	checkLeaks(t)
	entered, leave := make(chan bool), make(chan bool)
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		if x.Path() == "/hold" {
			entered <- true
			<-leave // holds the only loop
		}
		return doneHandler(x)
	}}, 1)
	kept, idle, holder := sv.dial(), sv.dial(), sv.dial()
	kept.ask(req("GET /"))
	idle.ask(req("GET /"))
	for resting := 0; resting < 2; { // the responses are read before their connections rest
		sv.conns.mu.Lock()
		resting = 0
		for c := sv.conns.newest; c != nil; c = c.next {
			if c.state.Load() == connIdle {
				resting++
			}
		}
		sv.conns.mu.Unlock()
		runtime.Gosched()
	}
	holder.send(req("GET /hold"))
	<-entered
	answer := make(chan error, 1)
	go func() { answer <- wantLast(kept.nc) }()
	for waiting := false; !waiting; runtime.Gosched() {
		sv.conns.mu.Lock()
		for c := sv.conns.newest; c != nil; c = c.next {
			waiting = waiting || c.state.Load() == connIdle && unread(c.nc)
		}
		sv.conns.mu.Unlock()
	}
	down := startDown(sv)
	idle.wantClosed() // that needs no loop
	leave <- true
	testenv.Check(t, <-answer)
	kept.nc.Close()
	holder.want("200 close", "done", "the response that was under way")
	holder.nc.Close()
	testenv.Check(t, <-down, "Shutdown")
}

// TestShutdownAnswersARequestBehind: one that comes when the head of the response before has been sent, which has not told the
// client to stop.
func TestShutdownAnswersARequestBehind(t *testing.T) {
	checkLeaks(t)
	leave := make(chan bool)
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		if x.Path() == "/begun" {
			x.Flush()
			task.Offload(func() { <-leave })
		}
		return testenv.Err(x.WriteString("done"))
	}}, 1) // connections of package net don't tell that something has come
	p := sv.dial()
	p.send(req("GET /begun"))
	resp := p.head()
	down := startDown(sv)
	p.send(req("GET /"))
	leave <- true
	testenv.Equal(t, string(testenv.Need(io.ReadAll(resp.Body))(t)), "done", "the response under way")
	p.want("200 close", "done", "the one behind")
	p.wantClosed()
	p.nc.Close()
	testenv.Check(t, <-down, "Shutdown")
}

// TestShutdownOfSilentClients: at its end they are no requests under way.
func TestShutdownOfSilentClients(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: doneHandler})
		p := sv.dial()
		sv.awaitConns(1)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		testenv.Check(t, sv.Shutdown(ctx), "Shutdown")
		p.wantClosed()
	})
}

// TestShutdownClosesNewConnectionsOfOthers: those that a program brings itself.
func TestShutdownClosesNewConnectionsOfOthers(t *testing.T) {
	s := &Server{Handler: doneHandler}
	testenv.Must(t, s.Shutdown(context.Background()))
	nc := script(req("GET /"))
	s.ServeConn(nc)
	if len(nc.output) > 0 || s.Stats().Conns != 0 {
		t.Errorf("served %q, %d connections", nc.output, s.Stats().Conns)
	}
}

// queued is a listener, without Drain, that fails at first, and of which clients wait to be accepted.
type queued struct {
	net.Listener
	errs    []error // of the first calls; only Serve's caller touches it
	clients chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *queued) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: err}
	}
	select {
	case nc := <-l.clients:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *queued) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *queued) Addr() net.Addr { return scriptAddr{} }

// TestAnyListener: errors of Accept, known or not, are logged and do not end the server, and Shutdown goes on accepting as
// long as clients come in.
func TestAnyListener(t *testing.T) {
	errs := []error{syscall.EIO, syscall.EPERM, syscall.EMFILE}
	ln := &queued{errs: errs, clients: make(chan net.Conn), closed: make(chan struct{})}
	var log testenv.Buffer
	s := &Server{Handler: doneHandler, ErrorLog: textLog(&log)}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	first, server := net.Pipe()
	ln.clients <- server
	down := startDown(&served{Server: s})
	second, server := net.Pipe()
	select {
	case ln.clients <- server: // as long as it is open: that is up to the machine
		testenv.Check(t, wantLast(second))
	case <-ln.closed:
	}
	testenv.Check(t, wantLast(first))
	testenv.Check(t, <-down, "Shutdown")
	testenv.Equal(t, <-ended, ErrServerClosed, "Serve")
	for _, err := range errs {
		testenv.Contains(t, log.String(), err.Error(), "the log")
	}
}

var _ interface{ Drain(context.Context) error } = (*netpoll.Listener)(nil)

// A handler that the end of the runtime ends is named, and not taken for one that left by itself.
func TestHandlerEndedByTheRuntime(t *testing.T) {
	checkLeaks(t)
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithGrace(10*time.Millisecond)))(t)
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	log, under, ended := new(testenv.Buffer), make(chan struct{}), make(chan error)
	s := &Server{ErrorLog: textLog(log), Handler: func(*Ctx) error {
		close(under)
		for {
			task.Sleep(time.Hour) // fails at once when the runtime ends
		}
	}}
	go func() { ended <- s.Serve(ln) }()
	dialPeer(t, ln.Addr().String()).send(req("GET /film"))
	<-under
	rt.Close() // on a slow machine the grace time is too short for the handler to end
	<-ended
	testenv.Until(t, "the log has the request", func() bool { return strings.Contains(log.String(), "/film") })
	if got := log.String(); !strings.Contains(got, "the runtime ended before the handler") || strings.Contains(got, "Goexit") {
		t.Errorf("the log says %s", got)
	}
}
