package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/tlsout"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A backend is one server that requests go to.
type backend struct {
	p                *Proxy
	group            *group
	name             string       // for logs and metrics: the address
	weight           atomic.Int64 // 0: only for clients that stick to it; atomic
	seed             uint64       // hash of the name
	token            string       // the value of the cookie that leads here
	network, address string
	tls              *tls.Config // nil: without
	bit              uint64      // in masks of backends
	pool             netpoll.Pool
	http2            *http.Transport // nil: HTTP/1.1 or FastCGI, over connections of the pool
	slots            *task.Semaphore // requests and tunnels at a time; nil: any number

	// outstanding are the requests that are here or wait for a connection; atomic.
	outstanding atomic.Int64
	// removed: requests that enter go to another backend; atomic.
	removed atomic.Bool
	// retired: the pool is closed as soon as outstanding is 0; atomic.
	retired atomic.Bool
	uncheck context.CancelFunc // ends the checks; nil: there are none; guarded by Proxy.mu
	// sick: checks say so; atomic.
	sick atomic.Bool
	// downUntil is when it may be tried again, by Proxy.clock; 0: it may; atomic.
	downUntil atomic.Int64
	// backAt is when it began to get requests again, by Proxy.clock, while SlowStart is not over; 0: it is over; atomic.
	backAt atomic.Int64

	// fails are failures in a row; atomic, changed with mu held.
	fails atomic.Int64

	latency  atomic.Int64     // mean time to the head of a response, see measured, in nanoseconds; 0: unknown; atomic
	failures balance.Failures // errors of the server that came sooner than answers do

	heard *loadReports // what it says of its load; nil: the balance does not go by that
	zone  string       // where it is; "": unknown

	mu    sync.Mutex
	falls int // checks in a row that failed, or, below 0, succeeded; guarded by mu

	counts counts
}

// noLimit is the WaitTimeout for a wait without a limit: with 0 Get would not wait for a descriptor at all.
const noLimit = time.Duration(math.MaxInt64 / 4)

func (p *Proxy) newBackend(text string) (*backend, error) {
	network, addr, secure, err := address(text, p.FastCGI != nil)
	if err != nil {
		return nil, err
	}
	b := &backend{p: p, name: addr, network: network, address: addr}
	if p.byReports {
		b.heard = newLoadReports()
	}
	if p.Check != nil {
		b.falls = p.Check.Fall - 1 // it may have been out before a reload
	}
	if secure {
		b.tls = &tls.Config{}
		if p.TLS != nil {
			b.tls = p.TLS.Clone()
		}
		if b.tls.ServerName == "" {
			b.tls.ServerName, _, _ = net.SplitHostPort(addr)
		}
		b.tls.NextProtos = []string{"http/1.1"}
		b.tls.Renegotiation = tls.RenegotiateNever // a reader would wait for the backend with locks of writers
		if p.HTTP2 {
			b.tls.NextProtos = []string{"h2", "http/1.1"}
		}
		if b.tls.ClientSessionCache == nil {
			b.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
		}
	}
	b.pool = netpoll.Pool{MaxConns: p.MaxConns, MaxIdle: p.KeepConns, IdleTimeout: p.KeepTimeout, WaitTimeout: cmp.Or(p.QueueTimeout, noLimit), Dial: b.dial}
	if p.MaxConns > 0 {
		b.slots = task.NewSemaphore(int64(p.MaxConns))
	}
	if p.HTTP2 || p.copies {
		b.http2 = b.newHTTP2()
	}
	return b, nil
}

// An upstream is a connection to a backend. One request at a time has it.
type upstream struct {
	net.Conn
	raw       net.Conn                  // Conn, or what is below its TLS
	quiet     interface{ Quiet() bool } // raw, if it can tell
	used      bool                      // it has had a request
	transport *tlsTransport             // between raw and its TLS; nil: a connection without TLS, or of HTTP/2
}

// A tlsTransport is the connection that crypto/tls reads from and writes to for a secureConn.
type tlsTransport struct {
	net.Conn
	out          tlsout.Out
	bufferedOnly bool // a Read of the tls.Conn returns only what it has read ahead, else a timeout; of the task that has the upstream
	one          [1]byte
}

// A secureConn is a connection over TLS whose Write, unlike that of crypto/tls, waits for the backend without a lock for
// which a Read can wait.
type secureConn struct {
	*tls.Conn
	raw net.Conn
	out *tlsout.Out
}

// Read sends the alert, too, that crypto/tls writes when it fails.
func (c secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.out.Flush() // an alert
	}
	return n, err
}

func (c secureConn) Write(p []byte) (int, error) { return c.out.Send(c.Conn, p) }
func (c secureConn) CloseWrite() error           { return c.out.CloseWrite(c.Conn) }
func (c secureConn) Close() error                { return c.out.Close(c.Conn) }

// Deadlines bypass the tlsTransport, which ignores deadlines for writing.
func (c secureConn) SetDeadline(t time.Time) error      { return c.raw.SetDeadline(t) }
func (c secureConn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// Write keeps the bytes that crypto/tls has encrypted in out, whose Flush sends them. It never parks: crypto/tls calls it with
// its lock held.
func (t *tlsTransport) Write(p []byte) (int, error) { return t.out.Write(p) }

// SetWriteDeadline does nothing: crypto/tls calls it for the end of the connection, which it does not send.
func (t *tlsTransport) SetWriteDeadline(time.Time) error { return nil }

// Read implements net.Conn.
func (t *tlsTransport) Read(p []byte) (int, error) {
	if t.bufferedOnly {
		return 0, os.ErrDeadlineExceeded // crypto/tls goes on after a timeout
	}
	t.out.Flush()
	return t.Conn.Read(p)
}

// unasked reports whether crypto/tls has something that the backend has said behind its response. It reads ahead, and
// Quiet knows only of what it has not read.
func (u *upstream) unasked() bool {
	t := u.transport
	if t == nil {
		return false
	}
	t.bufferedOnly = true
	_, err := u.Conn.Read(t.one[:])
	t.bufferedOnly = false
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// NetConn tells the pool which connection it is.
func (u *upstream) NetConn() net.Conn { return u.raw }

// dial makes a connection that a request can be sent on, TLS included, within ConnectTimeout, until ctx ends.
func (b *backend) dial(ctx context.Context) (c net.Conn, err error) {
	err = engine.Under(ctx, func() error {
		deadline, _ := ctx.Deadline()
		c, err = b.dialBy(deadline)
		return err
	})
	return c, err
}

// dialBy is dial with a deadline; zero: none.
func (b *backend) dialBy(deadline time.Time) (net.Conn, error) {
	b.counts.dials.Add(1)
	by, limit := sooner(deadline, elapsed(), b.p.ConnectTimeout), time.Duration(0)
	if !by.IsZero() {
		limit = max(time.Until(by), 1) // 0 would be none
	}
	c, err := b.p.Dial(b.network, b.address, limit)
	if err != nil {
		return nil, err
	}
	u := &upstream{Conn: c, raw: c}
	u.quiet, _ = ownconn.Of(c).(interface{ Quiet() bool })
	if b.tls == nil {
		return u, nil
	}
	c.SetDeadline(by)
	secure := tls.Client(c, b.tls)
	if b.http2 == nil { // else it is for goroutines of net/http, which asks for a tls.Conn
		u.transport = &tlsTransport{Conn: c}
		u.transport.out.Init(c)
		secure = tls.Client(u.transport, b.tls)
	}
	err = secure.HandshakeContext(context.Background())
	if u.transport != nil {
		u.transport.out.Flush() // the last part of the handshake, or an alert
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("TLS: %w", err)
	}
	c.SetDeadline(time.Time{})
	u.Conn = secure
	if u.transport != nil {
		u.Conn = secureConn{secure, c, &u.transport.out}
	}
	return u, nil
}

// enter takes up a request, and reports whether there is room for it; gone: b was removed meanwhile.
func (b *backend) enter() (room, gone bool) {
	n := b.outstanding.Add(1)
	gone = b.removed.Load()
	if most := b.p.MaxConns; gone || most > 0 && n > int64(most)+int64(b.p.Queue) {
		b.exit()
		return false, gone
	}
	return true, false
}

// exit ends what enter has begun.
func (b *backend) exit() {
	if b.outstanding.Add(-1) == 0 && b.retired.Load() {
		b.close()
	}
}

// load returns how many requests count as under way at b: those that are, and its failures that count.
func (b *backend) load() int64 {
	n := b.outstanding.Load()
	if b.failures.Any() {
		n += b.failures.Count(b.p.clock())
	}
	return n
}

// get returns a connection: one that rests and from which nothing has come since, or a new one, until ctx ends and by deadline at the
// latest; zero: no limit. The request holds one of slots, so the pool has room for its connection. It parks.
func (b *backend) get(ctx context.Context, deadline time.Time) (*upstream, error) {
	ctx, drop := withDeadline(ctx, deadline)
	defer drop()
	for {
		c, err := b.pool.Get(ctx)
		if err != nil {
			return nil, err
		}
		u := c.(*upstream)
		if !u.used || u.quiet == nil || u.quiet.Quiet() {
			return u, nil
		}
		b.pool.Put(u, true) // the backend has closed it, or sent something without a request
	}
}

// leave gives the connection back, if there is one, and ends what enter and admit have begun.
func (b *backend) leave(u *upstream, keep bool) {
	if u != nil {
		u.used = true
		b.pool.Put(u, !keep)
	}
	if b.slots != nil {
		b.slots.Release(1)
	}
	b.exit()
}

// noteAnswer notes that b has answered. That ends a row of failures, whose number it returns for failed: the answer may
// break off yet.
func (b *backend) noteAnswer() (ended int64) {
	if b.downUntil.Load() == 0 && b.fails.Load() == 0 {
		return 0
	}
	b.mu.Lock()
	ended = b.fails.Swap(0)
	was := b.downUntil.Swap(0)
	b.mu.Unlock()
	if was != 0 {
		b.back(min(was, b.p.clock()))
		b.p.Log.Info("knot: a backend answers again", "backend", b.name)
	}
	return ended
}

// failed notes that b has not answered a request, or not to the end: then ended is what noteAnswer has returned, else 0.
func (b *backend) failed(ended int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fails := int(b.fails.Add(ended + 1))
	if b.p.MaxFails <= 0 || fails < b.p.MaxFails || b.p.FailTime <= 0 || b.p.isOnly(b) {
		return
	}
	until := b.p.clock() + int64(b.p.FailTime)
	b.back(until)
	if b.downUntil.Swap(until) == 0 {
		b.counts.ejected.Add(1)
		b.p.Log.Warn("knot: a backend fails; it gets no requests for a while", "backend", b.name, "failures", fails, "for", b.p.FailTime)
	}
}

// checked notes the outcome of a check.
func (b *backend) checked(err error) {
	c := b.p.Check
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if b.falls = max(0, b.falls) + 1; b.falls == c.Fall && !b.sick.Swap(true) {
			b.counts.ejected.Add(1)
			b.p.Log.Warn("knot: a backend is not well; it gets no requests", "backend", b.name, "error", err)
		}
		return
	}
	if b.falls = min(0, b.falls) - 1; -b.falls >= c.Rise && b.sick.Swap(false) {
		b.back(b.p.clock())
		b.p.Log.Info("knot: a backend is well again", "backend", b.name)
	}
}
