// Package http3 is HTTP/3 for command knot: a Listener to be served by a knot.Server. QUIC, frames and QPACK are quic-go's,
// on goroutines of its own; requests are answered by tasks of the server, as all others.
package http3

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// DefaultMaxConns is the default of -http3-conns, see Config.MaxConns.
const DefaultMaxConns = 1000

const (
	// streams is how many requests a client may have under way on a connection, as over HTTP/2. A request that it has reset
	// counts until its handler has returned.
	streams = 100
	// streamWindow and connWindow are how much of a body may have come that no handler has read, in bytes: of a request, and of
	// all requests of a connection.
	streamWindow, connWindow = 1 << 20, 4 << 20
	// fieldOverhead is what HTTP/3 adds to the length of each line of a head (RFC 9114, 4.2.2), and fields how many there may be.
	fieldOverhead, fields = 32, 100
	// keepAlive is how often a silent connection is asked whether it is there: a request may wait longer than MaxIdleTimeout for its
	// response. Routers forget silent paths of UDP after 30 s. A connection without a request is closed by IdleTimeout.
	keepAlive = 15 * time.Second
	// farewell is how long a client may take to know that it should send no further requests.
	farewell = time.Second
	// lingerMost is how long a client that has its last answer may take to close the connection. An answer that has not arrived
	// by then is lost.
	lingerMost = 2 * time.Second
	// reportEvery is how often a full table of connections is logged at most.
	reportEvery = 10 * time.Second
)

// Config is how a Listener serves.
type Config struct {
	// TLS is that of the address. QUIC needs TLS 1.3, whatever MinVersion says, and offers h3 alone.
	TLS *tls.Config
	// MaxHead is how large the head of a request may be, in bytes.
	MaxHead int
	// IdleTimeout is how long a connection may have no request. 0: for ever, as long as the client answers.
	IdleTimeout time.Duration
	// HeadTimeout is how long a handshake may take. 0: 5 s.
	HeadTimeout time.Duration
	// MaxConns is how many connections there may be: further ones are refused. Half of it may be of clients that have not shown
	// that their addresses are theirs.
	MaxConns int
	// Log gets a line when connections are refused.
	Log *slog.Logger
	// After, if not nil, is closed when the socket may be read: before that it is another process's.
	After <-chan struct{}
}

// A Listener is HTTP/3 on a socket of UDP.
type Listener struct {
	net.Listener // nil: it has no connections of its own
	config       Config
	socket       *net.UDPConn
	server       http3.Server
	answer       http.Handler
	overloaded   func() bool
	open         atomic.Int64 // connections, with those in their handshake
	reported     atomic.Int64 // when a full table was logged, in ns since 1970
	draining     chan struct{}
	drain        func() // begins the drain, once
	drained      chan struct{}
	serving      atomic.Bool // ServeRequests closes the socket

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu
}

// A conn is a connection.
type conn struct {
	quic   *quic.Conn
	active atomic.Int32 // handlers
}

type connKey struct{}

// closed is Config.After where there is none.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Listen makes a Listener of a socket, which is its own from now on.
func Listen(socket *net.UDPConn, c Config) *Listener {
	l := &Listener{config: c, socket: socket, draining: make(chan struct{}), drained: make(chan struct{}), conns: make(map[*conn]struct{})}
	l.server = http3.Server{Handler: http.HandlerFunc(l.serve), MaxHeaderBytes: c.MaxHead + fields*fieldOverhead, IdleTimeout: c.IdleTimeout, ConnContext: l.take, Logger: slog.New(slog.DiscardHandler)}
	l.drain = sync.OnceFunc(func() {
		close(l.draining)
		time.AfterFunc(farewell, func() { l.each((*conn).closeIdle) })
		go func() {
			defer close(l.drained)
			l.server.Shutdown(context.Background()) // its end is that of the last connection
			if !l.serving.Load() {
				l.socket.Close()
			}
		}()
	})
	return l
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.socket.LocalAddr() }

// Accept implements net.Listener. There is nothing to accept: see ServeRequests.
func (l *Listener) Accept() (net.Conn, error) { return nil, errors.ErrUnsupported }

// ServeRequests has answer take each request on a goroutine, until Close or Drain; it returns when no connection is left.
// overloaded reports whether a new client is not to get a handshake. It blocks.
func (l *Listener) ServeRequests(answer http.Handler, overloaded func() bool) error {
	l.serving.Store(true)
	defer l.socket.Close()
	after := l.config.After
	if after == nil {
		after = closed
	}
	select {
	case <-l.draining:
		return net.ErrClosed
	case <-after:
	}
	l.answer, l.overloaded = answer, overloaded
	transport := &quic.Transport{Conn: l.socket, ConnContext: l.admit, VerifySourceAddress: func(net.Addr) bool {
		return l.open.Load() >= int64(l.config.MaxConns)/2
	}}
	defer transport.Close()
	ln, err := transport.Listen(l.tls(), &quic.Config{
		HandshakeIdleTimeout: l.config.HeadTimeout, MaxIdleTimeout: l.config.IdleTimeout, KeepAlivePeriod: keepAlive,
		MaxIncomingStreams: streams, MaxIncomingUniStreams: 8, // HTTP/3 uses three
		InitialStreamReceiveWindow: 256 << 10, MaxStreamReceiveWindow: streamWindow, MaxConnectionReceiveWindow: connWindow,
	})
	if err != nil {
		return err
	}
	defer ln.Close()
	if err := l.server.ServeListener(ln); !errors.Is(err, http.ErrServerClosed) {
		l.Close()
		<-l.drained
		return err
	}
	go refuseAll(ln) // until ln is closed
	<-l.drained
	return net.ErrClosed
}

// refuseAll closes the connections whose handshakes were under way when the drain began: nothing else would tell their clients.
func refuseAll(ln *quic.Listener) {
	for {
		q, err := ln.Accept(context.Background())
		if err != nil {
			return
		}
		go q.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
	}
}

// tls is the configuration of handshakes.
func (l *Listener) tls() *tls.Config {
	// quic-go has each handshake use a copy. The keys of tickets are those of the original only if it has them already.
	keep := func() { l.config.TLS.DecryptTicket(nil, tls.ConnectionState{}) }
	keep()
	return forQUIC(l.config.TLS, keep)
}

// forQUIC is c for QUIC. used is called for each handshake.
func forQUIC(c *tls.Config, used func()) *tls.Config {
	choose := c.GetConfigForClient
	c = c.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{http3.NextProtoH3}
	c.GetConfigForClient = nil
	if choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			used()
			special, err := choose(hello)
			if special == nil || err != nil {
				return nil, err
			}
			return forQUIC(special, used), nil
		}
	}
	return c
}

var (
	errDraining   = errors.New("knot: stopping")
	errOverloaded = errors.New("knot: overloaded")
	errFull       = errors.New("knot: too many connections")
)

// admit decides whether a client gets a handshake.
func (l *Listener) admit(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	select {
	case <-l.draining:
		return nil, errDraining
	default:
	}
	if l.overloaded() {
		return nil, errOverloaded
	}
	if l.open.Add(1) > int64(l.config.MaxConns) {
		l.open.Add(-1)
		now := time.Now().UnixNano()
		if last := l.reported.Load(); now-last >= int64(reportEvery) && l.reported.CompareAndSwap(last, now) {
			l.config.Log.Warn("knot: too many connections of HTTP/3, further ones are refused", "limit", l.config.MaxConns, "addr", l.Addr())
		}
		return nil, errFull
	}
	context.AfterFunc(ctx, func() { l.open.Add(-1) })
	return ctx, nil
}

// take notes a connection whose handshake is over.
func (l *Listener) take(ctx context.Context, q *quic.Conn) context.Context {
	c := &conn{quic: q}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	context.AfterFunc(q.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
	})
	return context.WithValue(ctx, connKey{}, c)
}

// each calls fn for all connections.
func (l *Listener) each(fn func(*conn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		fn(c)
	}
}

// closeIdle closes a connection that has no request.
func (c *conn) closeIdle() {
	if c.active.Load() == 0 {
		c.close()
	}
}

func (c *conn) close() {
	go c.quic.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") // which waits for the connection
}

// serve answers a request.
func (l *Listener) serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connKey{}).(*conn)
	defer func() {
		if c.active.Add(-1) > 0 {
			return
		}
		select {
		case <-l.draining:
			time.AfterFunc(lingerMost, c.closeIdle)
		default:
		}
	}()
	c.active.Add(1)
	l.answer.ServeHTTP(w, r)
}

// Drain has no further connection or request come in. Connections without a request are closed a second later, others two
// seconds after their last one. It does not wait.
func (l *Listener) Drain(context.Context) error {
	l.drain()
	return nil
}

// Close closes all connections. It does not wait.
func (l *Listener) Close() error {
	l.drain()
	l.each((*conn).close)
	return nil
}
