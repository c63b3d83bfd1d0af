//go:build linux

package simserver

import (
	"bytes"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Path is how the network between a client and the server behaves.
type Path struct {
	Latency time.Duration // one way
	Split   int           // bytes that arrive at once, about; 0: as they are sent
	UpRate  int           // bytes a second that the client sends; 0: as fast as can be
	Rate    int           // bytes a second that the client takes; 0: as fast as can be
	InRoom  int           // bytes of the server's receive buffer; 0: 128 KiB
	OutRoom int           // bytes of the server's send buffer; 0: 256 KiB
	Segment int           // bytes that are sent at once to a client with a small window; 0: 1,460
	Host    byte          // of the address that the client has; 0: each connection comes from another
}

const segment = 1460

// clientEvents are what a client hears of its connection, on the conductor and without
// World.mu held.
type clientEvents interface {
	connected()
	received(b []byte) // b is the callee's
	// ended is called once, after which nothing comes any more: 0 if the server has
	// sent all it had.
	ended(e syscall.Errno)
}

// A Link is a client's end of a connection. Guarded by World.mu.
type Link struct {
	w      *World
	id     int
	path   Path
	client clientEvents
	s      *socket // nil until the server's kernel has taken it up
	port   uint16
	tries  int
	unsent []byte
	fin    bool // nothing follows unsent
	finned bool
	left   bool // the client is gone
	leftAt time.Duration
	raced  bool // the server ended its side while something was on its way to it
	over   bool // ended has been called, or is about to be

	arrives time.Duration // of the last bytes on their way to the server
	pumping bool
}

// Connect begins a connection to a port of the server.
func (w *World) Connect(port uint16, path Path, client clientEvents) *Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Net.links++
	l := &Link{w: w, id: w.Net.links, path: path, client: client, port: port}
	w.post(w.now()+path.Latency, l.syn)
	return l
}

func (l *Link) address() unix.RawSockaddrInet4 {
	if h := l.path.Host; h > 0 {
		return inet4([4]byte{10, 2, 0, h}, uint16(1024+l.id%60_000))
	}
	return inet4([4]byte{10, 1, byte(l.id >> 8), byte(l.id)}, uint16(1024+l.id%60_000))
}

// syn is the arrival of the first packet. One that finds the backlog full is dropped, and
// sent again after 1, 2, 4 s (tcp(7), tcp_syn_retries).
func (l *Link) syn() {
	w := l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.left {
		return
	}
	all := w.Net.ports[l.port]
	if len(all) == 0 {
		l.lost(unix.ECONNREFUSED)
		return
	}
	ln := all[w.draw().IntN(len(all))]
	if len(ln.queue) >= ln.backlog {
		l.tries++
		if l.tries > 6 {
			l.lost(unix.ETIMEDOUT)
			return
		}
		w.post(w.now()+time.Second<<(l.tries-1), l.syn)
		return
	}
	s := &socket{n: w.Net, link: l, port: l.port, inRoom: 128 << 10, outRoom: 256 << 10, segment: segment}
	if l.path.Segment > 0 {
		s.segment = l.path.Segment
	}
	if l.path.InRoom > 0 {
		s.inRoom = l.path.InRoom
	}
	if l.path.OutRoom > 0 {
		s.outRoom = l.path.OutRoom
	}
	l.s = s
	ln.queue = append(ln.queue, s)
	ln.changed()
	w.note("syn", uint64(l.id))
	w.post(w.now()+l.path.Latency, func() {
		if l.alive() {
			l.client.connected()
		}
	})
}

// alive reports whether the client still hears.
func (l *Link) alive() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return !l.left && !l.over
}

// Send has the client send b, which is the link's from then on.
func (l *Link) Send(b []byte) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.left || l.over {
		return
	}
	l.raced = l.raced || l.s != nil && l.s.outEnd
	l.unsent = joined(l.unsent, b)
	l.pump()
}

// crossed reports whether the server ended its side of the connection before it could know of all that
// the client has sent.
func (l *Link) crossed() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.raced
}

// pump puts on the way what the server's buffer has room for.
func (l *Link) pump() {
	s := l.s
	if s == nil || l.pumping || s.reset {
		return
	}
	now := l.w.now()
	for len(l.unsent) > 0 {
		k := min(len(l.unsent), s.inRoom-s.in.len()-s.flying)
		if k <= 0 {
			return // roomAgain goes on
		}
		if l.path.Split > 0 {
			k = min(k, len(l.unsent)/100+1+l.w.draw().IntN(l.path.Split))
		}
		if l.path.UpRate > 0 {
			k = min(k, max(l.path.UpRate/50, 1))
		}
		b := l.unsent[:k:k]
		l.unsent = l.unsent[k:]
		s.flying += k
		l.arrive(now, func() { s.arrived(b) })
		if l.path.UpRate > 0 && len(l.unsent) > 0 {
			l.pumpAfter(time.Duration(float64(k) / float64(l.path.UpRate) * 1e9))
			return
		}
	}
	if len(l.unsent) == 0 {
		l.unsent = nil // the memory, too
	}
	if l.fin && !l.finned {
		l.finned = true
		l.arrive(now, func() {
			if !s.reset {
				s.inEnd = true
				s.changed()
			}
		})
	}
}

func (l *Link) pumpAfter(d time.Duration) {
	l.pumping = true
	l.w.post(l.w.now()+d, func() {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		l.pumping = false
		l.pump()
	})
}

// arrive has fn called, with World.mu held, when what is sent now gets to the server: not
// before what was sent earlier.
func (l *Link) arrive(now time.Duration, fn func()) {
	jitter := time.Duration(l.w.draw().IntN(int(l.path.Latency/8) + 100))
	l.arrives = max(l.arrives+1, now+l.path.Latency+jitter)
	l.w.post(l.arrives, func() {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		fn()
	})
}

// arrived takes bytes from the client into the buffer. To a closed socket they are a
// reason for a reset.
func (s *socket) arrived(b []byte) {
	s.flying -= len(b)
	switch {
	case s.reset:
	case s.closed:
		s.link.lost(unix.ECONNRESET)
	default:
		s.in.add(b)
		s.inAt = s.n.w.now()
		s.changed()
	}
}

// roomAgain goes on sending to the server when it has read enough.
func (l *Link) roomAgain() {
	if len(l.unsent) > 0 && !l.pumping && l.s.inRoom-l.s.in.len()-l.s.flying >= l.s.inRoom/4 {
		l.pumpAfter(l.path.Latency)
	}
}

// deliverLater calls deliver after the latency of the path.
func (l *Link) deliverLater() {
	if s := l.s; !s.moving && !l.over {
		s.moving = true
		l.w.post(l.w.now()+l.path.Latency+time.Duration(l.w.draw().IntN(1000)), l.deliver)
	}
}

// readEvery is the time between two reads of a client that reads slowly.
const readEvery = 20 * time.Millisecond

// deliver hands the client the bytes from the server that its path has carried, and posts itself again if more wait.
func (l *Link) deliver() {
	w, s := l.w, l.s
	w.mu.Lock()
	s.moving = false
	if l.left || l.over {
		if s.out.len() > 0 && !s.closed { // the client has closed the connection: it answers data with a reset
			w.post(w.now()+l.path.Latency, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				s.resetByClient()
			})
		}
		s.out = queue{}
		w.mu.Unlock()
		return
	}
	k := s.out.len()
	if l.path.Rate > 0 {
		k = min(k, max(l.path.Rate/int(time.Second/readEvery), 1))
	}
	var b []byte
	if k < s.out.len() {
		b = bytes.Clone(s.out.bytes()[:k])
		s.out.drop(k)
	} else {
		b = s.out.take()
	}
	s.offerRoom()
	if s.out.len() > 0 {
		s.moving = true
		w.post(w.now()+readEvery, l.deliver)
	}
	last := s.outEnd && s.out.len() == 0
	if last {
		l.over = true
	}
	w.mu.Unlock()
	if k > 0 {
		l.client.received(b)
	}
	if last {
		l.client.ended(0)
	}
}

// lost ends the connection for the client with an error, after the way of the packet that
// says so. The caller holds World.mu.
func (l *Link) lost(e syscall.Errno) {
	if l.over {
		return
	}
	l.over = true
	if s := l.s; s != nil {
		s.out = queue{}
	}
	left := l.left
	l.w.post(l.w.now()+l.path.Latency, func() {
		if !left {
			l.client.ended(e)
		}
	})
}

// CloseWrite ends the client's sending.
func (l *Link) CloseWrite() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.fin = true
	l.pump()
}

// Close ends the connection: the client neither sends nor listens any more. What it has
// sent gets to the server, and whatever the server sends then is answered by a reset.
func (l *Link) Close() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.left {
		return
	}
	l.left, l.fin, l.leftAt = true, true, l.w.now()
	if l.s == nil {
		return
	}
	if l.s.out.len() > 0 { // unread when the client closes
		l.abort()
		return
	}
	l.pump()
}

// Abort resets the connection.
func (l *Link) Abort() {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.left {
		return
	}
	l.left, l.leftAt = true, l.w.now()
	if l.s != nil {
		l.abort()
	}
}

func (l *Link) abort() {
	s := l.s
	l.unsent = nil
	l.arrive(l.w.now(), s.resetByClient)
}

// resetByClient is the arrival of a reset: what was received is gone too.
func (s *socket) resetByClient() {
	if s.reset {
		return
	}
	s.reset = true
	if !s.closed {
		s.pending = unix.ECONNRESET
	}
	s.in = queue{}
	s.out = queue{}
	s.changed()
}
