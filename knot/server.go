package knot

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/counters"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
)

// Defaults of Server.
const (
	DefaultAddr            = "127.0.0.1:8080"
	DefaultIdleTimeout     = 75 * time.Second
	DefaultHeadTimeout     = 10 * time.Second
	DefaultBodyTimeout     = 30 * time.Second
	DefaultWriteTimeout    = 30 * time.Second
	DefaultLeastRate       = 240 // bytes in a second: a 2400 baud modem
	DefaultShutdownTimeout = 10 * time.Second
	DefaultMaxConns        = 100_000
	DefaultMaxHead         = 32 << 10
	DefaultMaxBody         = 8 << 20
)

const (
	defaultMaxRequestLine = 8 << 10
	defaultMaxFields      = 100
	defaultMaxDrain       = 256 << 10
)

// Server serves HTTP/1.1, HTTP/1.0 and HTTP/2. The zero value is ready and answers every
// request with 404; the zero value of each field is its default. Fields must not be changed
// once the server has been started: Reconfigure is for that.
type Server struct {
	// Addr is the address that ListenAndServe and Run listen on: a TCP address, or "unix:" and the path of a socket,
	// whose file must not be there yet and goes when it is closed. Default: DefaultAddr.
	Addr string
	// Listeners, if not nil, is called by Run and returns the listeners to serve in place of a listener on Addr: sockets
	// that were opened elsewhere (netpoll.ListenOn), or several. An *Endpoint among them has settings of its own. While
	// Run goes on, further ones can be served by Serve, and one that is closed is no longer served.
	Listeners func() ([]net.Listener, error)
	// Handler answers the requests. nil answers every one with 404.
	Handler Handler
	// Name is sent as the Server header; "" sends none.
	Name string
	// TLS, if not nil, has the server speak TLS on every connection that it accepts itself;
	// a listener of crypto/tls needs none. It must have a certificate, see certs.Load,
	// or a function that finds one; Knot uses a copy. Functions in it are called in tasks.
	TLS *tls.Config
	// ShedTLSBuffers makes idle connections over TLS release the buffers that crypto/tls keeps for input: 4 KB since the
	// handshake, up to 33 KB since an upload. Off by default, as it writes into private fields of tls.Conn, found by name
	// and type when the program starts; with a release of Go that has other fields, no buffer is released.
	ShedTLSBuffers bool
	// HTTP2 has the limits for clients of HTTP/2. nil: 100 requests at a time on
	// a connection, windows of 1 MB, timeouts by WriteTimeout. HTTP/2 is served over TLS
	// unless NextProtos of TLS leaves "h2" out.
	HTTP2 *http.HTTP2Config
	// H2C has the server speak HTTP/2 without TLS too, with clients that begin with it
	// (RFC 9113, 3.3).
	H2C bool
	// Connect has requests with the method CONNECT go to the handler, which then has to look at the method: with a 2xx
	// response it opens a tunnel. Otherwise they get 501. Serve sets it.
	Connect bool
	// Trust names the proxies in front of the server whose word about clients counts, see Ctx.ClientAddr.
	Trust Trust
	// Listening, if not nil, is called by Serve with the address it serves.
	Listening func(addr net.Addr)
	// AccessLog gets a line per request; nil writes none.
	AccessLog *AccessLog
	// ErrorLog gets failures of handlers and of the listener, on the loops: its handler must not wait for the reader
	// of a log. Nil means slog.Default, on a goroutine, where it may. Clients that misbehave or vanish are not failures.
	ErrorLog *slog.Logger

	// ErrorPage makes the page of an error: its type and content, or nil for the standard page.
	// It is also called for requests that are refused before a handler sees them. For a request that
	// can't be parsed x has neither path nor host. It must not send anything, nor park, and
	// the server does not change what it returns.
	ErrorPage func(x *Ctx, status int) (ctype string, page []byte)

	// IdleTimeout is how long a connection may wait for its next request, or for its first: clients
	// connect ahead. It is then closed without a word. Default: DefaultIdleTimeout. Negative: for ever.
	IdleTimeout time.Duration
	// HeadTimeout is how long a request head may take from its first byte; one that takes longer
	// gets 408. Default: DefaultHeadTimeout. Negative: for ever.
	HeadTimeout time.Duration
	// BodyTimeout is how long a client may stop in the middle of a request body (it is noticed
	// after half of it at the earliest); then it gets 408. Default: DefaultBodyTimeout.
	// Negative: for ever.
	BodyTimeout time.Duration
	// WriteTimeout is how long one write of a response, of 256 KB at most, may be held up by a client
	// that does not read (noticed after twice as long at the latest). The connection is closed then.
	// Default: DefaultWriteTimeout. Negative: for ever.
	WriteTimeout time.Duration
	// LeastRate is how many bytes in a second a client has to take of a response, and to send of a request's body until the
	// response begins and behind its end, while the server waits for it: one that is slower has 30 s of such waiting, or WriteTimeout or
	// BodyTimeout if that is longer, and every LeastRate bytes give it a second. It bounds for how long slow clients can hold
	// what the server has: the timeouts begin anew with each write and read. Event streams and connections with nothing to
	// send do not wait for their clients, and a body of HTTP/2 without a length may be a stream of messages, as of gRPC: it
	// has BodyTimeout only. Default: DefaultLeastRate. Negative: as slow as the timeouts let it.
	LeastRate int64

	// ShutdownTimeout is how long Run waits for requests under way, and for the first ones of
	// clients that have connected, when it is told to stop, see Shutdown. Default:
	// DefaultShutdownTimeout. Negative: it does not wait.
	ShutdownTimeout time.Duration

	// Timed means that Stats is to count how long requests take: two readings of the clock for each.
	Timed bool

	// MaxConns is how many connections are served at a time. Hijacked connections count until they
	// are closed, unless they come from a listener of another package. For a further one a connection is
	// closed that has waited for a request for a second; if there is none, the new one gets 503, over TLS
	// an alert, and is closed. If more than an eighth of MaxConns and 8, or 256, are being told so, others
	// wait to be accepted. Default: DefaultMaxConns, or, if that is less, what the limit on open
	// descriptors (getrlimit(2)) leaves besides descriptors that are open at the start, some for files and
	// the rest, and Outgoing. Negative: no limit.
	MaxConns int
	// Outgoing is how many descriptors handlers use at most for connections of their own, to databases or
	// other servers, say. The default of MaxConns leaves that many, but at most half of what there
	// is. Negative: one for each client. 0: none.
	Outgoing int
	// MaxRequestLine is how long a request line may be, in bytes; a longer one gets 414. 0 or
	// less: 8 KiB.
	MaxRequestLine int
	// MaxHead is how large a request head may be, in bytes; a larger one gets 431. 0 or less:
	// DefaultMaxHead.
	MaxHead int
	// MaxFields is how many header lines a request may have; one with more gets 431. 0 or less:
	// 100.
	MaxFields int
	// MaxBody is how large a request body may be, in bytes; a larger one gets 413. Default:
	// DefaultMaxBody. Negative: no limit. Chunked framing is not counted here, but has a limit of
	// its own: 16 bytes for each chunk, twice what the chunk carries, and 16 KiB more for all.
	MaxBody int64
	// MaxDrain is how much of a body that the handler did not read is read and dropped to keep
	// the connection, in bytes, chunked framing included. Default: 256 KiB. Negative:
	// nothing.
	MaxDrain int64

	// Priority ranks requests, from -32 to 31: when more requests come than can be served in time, those of the highest
	// priority are served first, so that those of the lowest wait too long and are refused. nil: they are all alike.
	// Requests are refused with the scheduler "resource" only; they get 503 and Retry-After. It is called in the request's
	// task and should be quick.
	Priority func(*Ctx) int

	// TimeoutHeader is the line by which peers that Trust names say for how many milliseconds the client of a request will
	// still wait. If it is set, grpc-timeout counts as well, and the lesser of both. The context of the request has that
	// deadline, and a request whose deadline has passed before its handler is called gets 503. Requests are then read before
	// they are admitted, and wait for admission until their deadline at most. "": requests have no deadlines. Package proxy
	// passes on the time that is left.
	TimeoutHeader string
	// UrgencyHeader is the line by which peers that Trust names say how important a request is: Priority (RFC 9218), or
	// another line with an urgency from 0, the most important, to 7. Without the field Priority, the priority of a request is
	// 3 minus its urgency; requests without the line have urgency 3. "": no line is read. Package proxy passes the line on, and
	// removes the lines of other peers.
	UrgencyHeader string

	std nethttp.Hooks // see FromHTTP

	once         sync.Once
	set          atomic.Pointer[settings] // set by once; see Reconfigure
	counting     sync.Once
	defaultConns int         // the default of MaxConns; fixed by counting
	handler      Handler     // fixed by once
	secure       *tls.Config // made of TLS; fixed by once; nil without
	demands      *demands    // made of TimeoutHeader and UrgencyHeader; nil: there are none; fixed by once
	counts       counters.Counters
	clock        clock.Clock
	bodies       *admit.BodyBudget // nil: that of the runtime; set by tests

	ctx    context.Context    // fixed by once
	cancel context.CancelFunc // fixed by once

	conns connTable
	// handing: stopping, but a client between requests may still send one. atomic
	handing atomic.Bool
	// endpoints are all Endpoints that were served; conn.endpoint is an index, and 1. atomic, replaced with adding held
	endpoints  atomic.Pointer[[]*Endpoint]
	adding     sync.Mutex
	handshakes handshakeCounts
	accepted   atomic.Uint64 // connections that acceptLoop has taken; atomic
	refusedAt  atomic.Int64  // clock reading when a request was refused last; atomic
	stallsAt   atomic.Int64  // clock reading when stalled responses were looked for last; 0: never; atomic

	// warned spaces out the lines of the error log.
	warned struct {
		full       clock.Rare  // too many connections
		scarcity   clock.Rare  // no descriptors for handlers
		handshakes clock.Rare  // handshakes that have failed
		unproxied  clock.Rare  // connections of proxies without a header of the PROXY protocol
		stalls     clock.Rare  // responses that were ended to make room
		goroutines atomic.Bool // connections are served by goroutines, said once; atomic
	}
}

// ErrServerClosed is returned by Serve and ListenAndServe after Shutdown or Close. It is http.ErrServerClosed, which
// programs written for net/http know.
var ErrServerClosed = http.ErrServerClosed

func orDefault[T int | int64 | time.Duration](v, standard, none T) T {
	switch {
	case v == 0:
		return standard
	case v < 0:
		return none
	}
	return v
}

const (
	// maxConns leaves room for the connections above MaxConns that admit takes up.
	maxConns = 1 << 30
	// maxHead is the largest head in bytes: what a span can point to.
	maxHead = 1 << 30
)

// ready fills in the defaults.
func (s *Server) ready() {
	s.once.Do(func() {
		if s.set.Load() == nil {
			s.set.CompareAndSwap(nil, s.settingsOf(s))
		}
		s.handler = s.Handler
		if s.handler == nil {
			s.handler = func(*Ctx) error { return Status(404) }
		}
		s.secure = s.serverTLS(s.TLS)
		s.demands = demandsOf(s)
		s.conns.drained = make(chan struct{})
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.clock.Now()
	})
}

func (s *Server) errorLog() *slog.Logger {
	if s.ErrorLog != nil {
		return s.ErrorLog
	}
	return logwriter.Default()
}

// contexts are shared by all servers: a Ctx is as good for one as for another.
var contexts = sync.Pool{New: func() any { return newCtx() }}

func (s *Server) borrow(c *conn) *Ctx {
	x := contexts.Get().(*Ctx)
	x.c, x.srv = c, s
	x.counted = 0
	x.recount()
	return x
}

func giveBack(x *Ctx) {
	x.countAnswered()
	tasks.Buffers.Release(x.counted)
	if x.spoiled {
		if x.demand != nil {
			x.dropDemand()
		}
		return
	}
	x.recycle()
	contexts.Put(x)
}

// ServeConn serves one connection and owns it from now on. It returns when the
// connection is closed or, if nc has OnReadable, when it rests for the first
// time. Call it in the connection's own task or goroutine. It parks.
func (s *Server) ServeConn(nc net.Conn) {
	s.ready()
	if s.conns.stopping.Load() {
		nc.Close()
		return
	}
	config, _ := s.defaultTLS()
	c := s.newConn(nc, entry{config: config})
	s.begin(c, s.admit(c))
}

// begin serves c as far as it was admitted.
func (s *Server) begin(c *conn, verdict admission) {
	switch verdict {
	case admitted:
		s.reportState(c, http.StateNew)
		c.start()
	case turnedAway:
		s.turnAway(c)
	default:
		c.nc.Close()
	}
}

// newConn makes a conn of nc, which has come in by e.
func (s *Server) newConn(nc net.Conn, e entry) *conn {
	opens := opensByRequest
	if e.proxies != nil && e.proxies.HasPeer(nc.RemoteAddr()) {
		opens = opensByProxy
	}
	if e.config != nil {
		nc = tlsin.New(nc, e.config, s.ShedTLSBuffers)
	}
	return &conn{nc: nc, srv: s, endpoint: e.endpoint, opens: opens}
}
