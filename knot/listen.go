package knot

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// Run listens on Addr and serves until ctx ends; it then stops gracefully, as
// Shutdown does, for ShutdownTimeout at most. It returns nil after a stop in
// which every request was answered, otherwise what went wrong. It is meant to
// be the whole main function of a program under capriccio.Run. It parks.
func (s *Server) Run(ctx context.Context) error {
	s.ready()
	config, err := s.runTLS()
	if err != nil {
		return err
	}
	all, err := s.listenAll(config)
	if err != nil {
		return err
	}
	return s.serveUntil(ctx, all, config)
}

// serveUntil serves all, over TLS if config is not nil, until ctx ends or one of them fails.
func (s *Server) serveUntil(ctx context.Context, all []net.Listener, config *tls.Config) error {
	for _, ln := range all {
		s.conns.track(bare(ln)) // clients may come from now on
	}
	until, end := context.WithCancelCause(ctx)
	defer end(nil)
	// Not under the caller's context: its end must not cut off what Shutdown
	// still waits for.
	for _, ln := range all {
		tasks.SpawnApart(func() {
			if err := s.serve(ln, config); s.Listeners == nil || !errors.Is(err, net.ErrClosed) {
				end(err)
			}
		})
	}
	task.Await(until)
	if ctx.Err() == nil && until.Err() != nil {
		s.Close()
		return context.Cause(until)
	}
	grace := s.settings().grace
	limit, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	stop := s.Shutdown
	if context.Cause(ctx) == ErrHandedOver {
		stop = s.handOver
	}
	if err := stop(limit); err != nil {
		return fmt.Errorf("knot: requests still under way after %v: %w", grace, err)
	}
	return nil
}

// ListenAndServe listens on Addr and serves as Serve does until Shutdown or Close; it then
// returns ErrServerClosed. It needs a running task runtime. It parks.
func (s *Server) ListenAndServe() error {
	s.ready()
	config, err := s.defaultTLS()
	if err != nil {
		return err
	}
	return s.listenAndServe(config)
}

// ListenAndServeTLS is ListenAndServe over TLS, with a certificate as for ServeTLS.
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	s.ready()
	config, err := s.withCertificate(certFile, keyFile)
	if err != nil {
		return err
	}
	return s.listenAndServe(config)
}

func (s *Server) listenAndServe(config *tls.Config) error {
	ln, err := s.listen(config)
	if err != nil {
		return err
	}
	return s.serve(ln, config)
}

// listenAll returns what Run is to serve.
func (s *Server) listenAll(config *tls.Config) ([]net.Listener, error) {
	if s.Listeners != nil {
		return s.Listeners()
	}
	ln, err := s.listen(config)
	if err != nil {
		return nil, err
	}
	return []net.Listener{ln}, nil
}

// listen listens on Addr. Without Addr it listens on DefaultAddr; for a Server made by FromHTTP on port 443 if there is a
// config, else 80.
func (s *Server) listen(config *tls.Config) (net.Listener, error) {
	addr := s.Addr
	switch {
	case addr != "":
	case s.std.Std == nil:
		addr = DefaultAddr
	case config != nil:
		addr = ":443"
	default:
		addr = ":80"
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	return netpoll.ListenConfig{Log: s.errorLog()}.Listen(context.Background(), network, addr)
}

// Serve accepts connections on ln and serves each until Shutdown or Close; it
// then returns ErrServerClosed. It closes ln. It parks.
//
// A *netpoll.Listener is served by every loop of its runtime. From any other one connections are
// accepted one by one. While a runtime runs, those of a *net.TCPListener or *net.UnixListener become
// connections of netpoll, which costs a few system calls for each. A connection that has a
// *netpoll.Conn inside (by NetConn, as that of crypto/tls, or in a field that is a net.Conn, as that of
// netutil.LimitListener) is served by a new task, every other one by a new goroutine, and the log says
// so once. Serve also ends, with its error, when the context of its task does.
//
// Serve speaks HTTPS if TLS is set; ln may be an *Endpoint with settings of its own. Of a Server made by FromHTTP it speaks
// HTTP, as http.Server.Serve does.
func (s *Server) Serve(ln net.Listener) error {
	s.ready()
	config, err := s.defaultTLS()
	if err != nil {
		ln.Close()
		return err
	}
	return s.serve(ln, config)
}

// ServeTLS is Serve over TLS, as http.Server.ServeTLS is: with the certificate in the files, in PEM, or with those of
// TLS if both names are empty.
func (s *Server) ServeTLS(ln net.Listener, certFile, keyFile string) error {
	s.ready()
	config, err := s.withCertificate(certFile, keyFile)
	if err != nil {
		ln.Close()
		return err
	}
	return s.serve(ln, config)
}

// serve is Serve over TLS if config is not nil, or as an Endpoint wants it.
func (s *Server) serve(ln net.Listener, config *tls.Config) error {
	defer ln.Close()
	on, err := s.entryOf(ln, config)
	if err != nil {
		return err
	}
	ln = bare(ln)
	if err := s.std.Begin(ln); err != nil {
		return err
	}
	if !s.conns.track(ln) {
		return ErrServerClosed
	}
	defer s.conns.untrack(ln)
	if s.Listening != nil {
		s.Listening(ln.Addr())
	}
	switch ln := ln.(type) {
	case *netpoll.Listener:
		err = netpoll.ServeInline(ln, func(nc *netpoll.Conn) { s.take(nc, on) })
	case requestListener:
		err = s.serveRequests(ln, on)
	default:
		err = s.acceptForeign(ln, on)
	}
	if s.conns.stopping.Load() {
		return ErrServerClosed
	}
	return fmt.Errorf("knot: serving %v: %w", ln.Addr(), err)
}

// take is ServeConn for a caller that is held up only if there are far too many connections: the
// task that accepts. A task is only started for a client that is turned away.
func (s *Server) take(nc *netpoll.Conn, on entry) {
	c := s.newConn(nc, on)
	verdict := s.admit(c)
	if verdict == turnedAway {
		tasks.SpawnApart(func() { s.begin(c, verdict) })
		return
	}
	s.begin(c, verdict)
}

// acceptForeign serves a listener that is not of netpoll.
func (s *Server) acceptForeign(ln net.Listener, on entry) (err error) {
	ctx := task.Context()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	rt := engine.CurrentRuntime()
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
		if rt == nil {
			break
		}
		adopting := make(chan struct{}, maxAdopting)
		var busy task.WaitGroup // with accepting, and with each adoption
		busy.Add(1)
		go func() { // not on a loop, as Accept blocks
			defer busy.Done()
			err = s.acceptLoop(ln, func(nc net.Conn) {
				adopting <- struct{}{}
				busy.Add(1)
				done := func() { <-adopting; busy.Done() }
				rt.Spawn(engine.Options{Context: context.Background(), Dropped: func() { nc.Close(); done() }}, func() {
					defer done()
					s.adopt(nc, on)
				})
			})
		}()
		busy.Wait()
		return cmp.Or(ctx.Err(), err)
	}
	err = s.acceptLoop(ln, func(nc net.Conn) { s.takeForeign(nc, on) })
	return cmp.Or(ctx.Err(), err)
}

// maxAdopting is how many connections that package net has accepted may wait for a loop to adopt them; the others wait
// to be accepted.
const maxAdopting = 128

// adopt serves the socket of nc, a connection of package net, as one of netpoll of the caller's loop.
func (s *Server) adopt(nc net.Conn, on entry) {
	own, err := netpoll.FileConn(nc.(syscall.Conn))
	nc.Close()
	if err != nil {
		s.errorLog().Error("knot: a connection can't be served", "client", nc.RemoteAddr().String(), "error", err)
		return
	}
	s.take(own.(*netpoll.Conn), on)
}

// takeForeign serves nc in a task if it parks, and else on a goroutine.
func (s *Server) takeForeign(nc net.Conn, on entry) {
	c := s.newConn(nc, on)
	verdict := s.admit(c) // which may wait: clients that have not been accepted then wait, too
	if parks(reflect.ValueOf(nc)) {
		tasks.Spawn(func() { s.begin(c, verdict) })
		return
	}
	s.warnOfGoroutines(nc)
	go s.begin(c, verdict)
}

// warnOfGoroutines logs for the first connection that is served without what a runtime does for it.
func (s *Server) warnOfGoroutines(nc net.Conn) {
	if s.warned.goroutines.Swap(true) {
		return
	}
	remedy := "call Serve in capriccio.Run"
	if task.Current() != nil {
		remedy = "give Serve a listener of netpoll or net, and TLS by ServeTLS"
	}
	s.errorLog().Warn("knot: connections are served by goroutines, and nothing protects the server from overload", "connection", fmt.Sprintf("%T", nc), "remedy", remedy)
}

var (
	netConn = reflect.TypeFor[net.Conn]()
	parkers = reflect.TypeFor[parking]()
	ours    = reflect.TypeFor[*netpoll.Conn]()
)

// parks reports whether nc waits as tasks do: whether it is, or has in a field, a connection that does. Most
// wrappers have no method that returns the connection inside. (Fields that are not exported can be looked at, not used.)
func parks(nc reflect.Value) bool {
	for nc.Kind() == reflect.Interface {
		nc = nc.Elem()
	}
	if nc.IsValid() && (nc.Type() == ours || nc.Type().Implements(parkers)) {
		return true
	}
	if nc.Kind() == reflect.Pointer {
		nc = nc.Elem()
	}
	if nc.Kind() != reflect.Struct {
		return false
	}
	for i := range nc.NumField() {
		if nc.Field(i).Type().Implements(netConn) && parks(nc.Field(i)) {
			return true
		}
	}
	return false
}

// An acceptance is what Accept has returned.
type acceptance struct {
	nc  net.Conn
	err error
}

func accept(ln net.Listener) acceptance {
	nc, err := ln.Accept()
	return acceptance{nc, err}
}

// acceptLoop gives take what ln accepts.
func (s *Server) acceptLoop(ln net.Listener, take func(nc net.Conn)) error {
	const longest = time.Second
	pause := time.Duration(0)
	for {
		got := engine.Outside(accept, ln)
		nc, err := got.nc, got.err
		switch {
		case err == nil:
			pause = 0
			s.accepted.Add(1)
			take(nc)
			continue
		case s.conns.stopping.Load() || errors.Is(err, net.ErrClosed):
			return err
		}
		// Out of descriptors, most likely: wait for some to come free.
		pause = min(max(2*pause, 5*time.Millisecond), longest)
		s.errorLog().Error("knot: accept failed", "addr", ln.Addr().String(), "error", err, "retry", pause)
		if err := task.Sleep(pause); err != nil {
			return err
		}
	}
}
