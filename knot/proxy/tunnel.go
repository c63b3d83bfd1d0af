package proxy

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

var (
	errUnasked  = errors.New("it switches to a protocol that nobody has asked for")
	errHalfSent = errors.New("it switches protocols, and does not take the body of the request")
	errNoTunnel = errors.New("it switches protocols, and the client's connection can't be taken over")
)

// switchProtocols makes a tunnel of the two connections, after a response 101 (RFC 9110, 7.8).
func (e *exchange) switchProtocols() error {
	upgrade := e.res.Find(e.head, "upgrade")
	if !e.upgrade || upgrade == nil || e.p.FastCGI != nil {
		return e.malformed(errUnasked)
	}
	if e.source != nil { // the client uses the new protocol behind the body (RFC 9110, 7.8)
		if e.sending.Wait(); !e.sent {
			return e.broken(errHalfSent, false, false)
		}
	}
	named := e.connectionNames()
	head := append([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "), upgrade...)
	head = append(head, "\r\n"...)
	e.res.Each(e.head, func(name, value []byte) bool {
		if !hopByHop(name) && !contains(named, name) && !h1.TextIs(name, "content-length") {
			head = appendLine(head, h1.Text(name), value)
		}
		return true
	})
	if cookie := e.stickyCookie(); cookie != "" {
		head = appendLine(head, "Set-Cookie", h1.Bytes(cookie))
	}
	head = append(append(head, "\r\n"...), e.head[e.res.Size:]...)
	client, rest, err := e.x.Hijack()
	if err != nil {
		return e.malformed(errors.Join(errNoTunnel, err))
	}
	e.waits.attach(nil)
	e.taken = true
	t := &tunnel{b: e.b, u: e.u, client: client}
	t.movedAt.Store(elapsed())
	t.up, t.down = pipe{t: t, from: client, to: e.u}, pipe{t: t, from: e.u, to: client}
	e.b.counts.status[1].Add(1)
	e.b.counts.tunnels.Add(1)
	e.b.counts.openTunnels.Add(1)
	e.b.noteAnswer()
	t.open(head, rest)
	return nil
}

// A tunnel copies between two connections in both directions. It holds a task only while bytes move.
type tunnel struct {
	b        *backend
	u        *upstream
	client   net.Conn
	up, down pipe
	movedAt  atomic.Int64 // when bytes moved last, see elapsed; atomic
	ended    atomic.Int32 // directions that have; atomic
	closed   atomic.Bool
}

// A pipe is one direction. One task at a time has it.
type pipe struct {
	t         *tunnel
	from, to  net.Conn
	transport *tlsTransport // below the TLS of from; nil: without
	big       *[largeBuffer]byte
}

// open sends what is there already, and lets bytes flow.
func (t *tunnel) open(head, rest []byte) {
	limit := t.limit()
	if !limit.IsZero() {
		t.u.SetDeadline(limit)
		t.client.SetDeadline(limit)
	} else {
		t.u.SetDeadline(time.Time{})
	}
	if _, err := t.client.Write(head); err != nil {
		t.close()
		return
	}
	if len(rest) > 0 {
		if _, err := t.u.Write(rest); err != nil {
			t.close()
			return
		}
	}
	t.up.wait()
	if t.down.transport = t.u.transport; t.down.transport == nil {
		t.down.wait()
		return
	}
	t.down.transport.bufferedOnly = true // crypto/tls may have read more than the head
	spawn(t.down.pump)
}

// limit is when the tunnel has been silent for too long.
func (t *tunnel) limit() time.Time {
	if t.b.p.TunnelTimeout <= 0 {
		return time.Time{}
	}
	return loaded.Add(time.Duration(t.movedAt.Load())).Add(t.b.p.TunnelTimeout)
}

// close ends both connections, once.
func (t *tunnel) close() {
	if t.closed.Swap(true) {
		return
	}
	t.client.Close()
	t.b.counts.openTunnels.Add(-1)
	t.b.leave(t.u, false)
}

// readable is a connection that can wait without a task.
type readable interface{ OnReadable(fn func()) error }

// wait has pump called when there is something, and gives the task back if it can.
func (p *pipe) wait() {
	if on, ok := below(p.from).(readable); ok {
		if on.OnReadable(p.pump) != nil {
			p.t.close()
		}
		return
	}
	spawn(p.pump)
}

func spawn(fn func()) {
	if engine.CurrentLoop() == nil {
		go fn()
		return
	}
	engine.Start(fn)
}

// pump moves what there is, and then waits again.
func (p *pipe) pump() {
	if p.move() {
		p.wait()
	}
}

// move passes on what there is, and reports whether to wait for more.
func (p *pipe) move() bool {
	small := smallBuffers.Get().(*[smallBuffer]byte)
	defer smallBuffers.Put(small)
	defer p.shrink()
	for buf := small[:]; ; {
		n, err := p.from.Read(buf)
		if n > 0 {
			p.t.movedAt.Store(elapsed())
			if limit := p.t.limit(); !limit.IsZero() {
				p.to.SetWriteDeadline(limit)
			}
			if _, err := p.to.Write(buf[:n]); err != nil {
				p.t.close()
				return false
			}
		}
		switch {
		case err == nil && p.transport != nil:
			p.transport.bufferedOnly = true // look for more of what crypto/tls has read
			continue
		case err == nil && n == len(buf):
			if buf = p.grow(); buf == nil {
				buf = small[:]
			}
			continue
		case p.transport != nil && p.transport.bufferedOnly && errors.Is(err, os.ErrDeadlineExceeded):
			p.transport.bufferedOnly = false // it has no more
		case err == io.EOF:
			p.end()
			return false
		case errors.Is(err, os.ErrDeadlineExceeded) && !p.t.closed.Load():
			limit := p.t.limit()
			if !limit.IsZero() && !now().Before(limit) {
				p.t.close()
				return false
			}
			p.from.SetReadDeadline(limit)
		case err != nil:
			p.t.close()
			return false
		}
		return true
	}
}

// grow returns a large buffer if there is more to read, and as large as the bytes that the other end takes without a wait: the
// buffer is held until it takes them. It returns nil if a small buffer will do.
func (p *pipe) grow() []byte {
	from, ok := ownconn.Of(below(p.from)).(interface{ Unread() bool })
	if p.transport != nil || !ok || !from.Unread() {
		p.shrink()
		return nil
	}
	room := math.MaxInt
	if to, ok := ownconn.Of(below(p.to)).(interface{ WriteRoom() int }); ok {
		room = to.WriteRoom()
	}
	if room <= smallBuffer {
		p.shrink()
		return nil
	}
	if p.big == nil {
		p.big = largeBuffers.Get().(*[largeBuffer]byte)
	}
	return p.big[:min(room, largeBuffer)]
}

// shrink gives the large buffer back.
func (p *pipe) shrink() {
	if p.big != nil {
		largeBuffers.Put(p.big)
		p.big = nil
	}
}

// below is nc, or what is below the TLS of an upstream.
func below(nc net.Conn) net.Conn {
	if u, ok := nc.(*upstream); ok {
		return u.raw
	}
	return nc
}

// end passes the end of one direction on; with the second one the tunnel ends.
func (p *pipe) end() {
	to := p.to
	if u, ok := to.(*upstream); ok {
		to = u.Conn
	}
	half, ok := to.(interface{ CloseWrite() error })
	if p.t.ended.Add(1) == 2 || !ok || half.CloseWrite() != nil {
		p.t.close()
	}
}
