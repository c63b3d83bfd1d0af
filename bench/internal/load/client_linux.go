package load

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"golang.org/x/sys/unix"
)

// never is later than any run lasts.
const never = time.Duration(math.MaxInt64)

// Limits of what is asked of a client.
const (
	MaxConns = 19_500
	MaxDepth = 64
)

// longestWait is how long a client waits at most before it asks its traffic again.
const longestWait = 100 * time.Millisecond

// traffic decides what a client sends and learns what becomes of it. A tag names a
// request that is under way; it is the traffic's own.
type traffic interface {
	// due sends what is due and returns when it wants to be called next.
	due(now time.Duration) (next time.Duration, err error)
	// answered: the link is idle again, or closed if the server closes it.
	answered(tag int32, r response, now time.Duration) error
	// lost: the connection broke under the request, or could not be made. The cause is an unanswered if nothing
	// of a response had come.
	lost(tag int32, cause error, now time.Duration) error
}

// unanswered is why a connection broke on which nothing had come since the request was sent.
type unanswered struct{ error }

func (u unanswered) Unwrap() error { return u.error }

var errClosed = errors.New("closed by the server")

// linkState is where a link is. At most one request is under way on it.
//
//	closed ──dial──→ connecting ──→ busy ←──request── idle
//	  ↑                  │           │ └──answered──→  │
//	  └──────────────────┴───────────┴─────────────────┘
type linkState uint8

const (
	linkClosed linkState = iota
	linkConnecting
	linkIdle
	linkBusy
)

// link is one connection, with at most one request under way.
type link struct {
	fd      socket
	serial  uint32 // of the socket: an event for an earlier one is stale
	tag     int32  // of the request under way
	state   linkState
	pool    uint8  // of client.pools
	stacked bool   // is in its pool's idle, whatever its state
	request []byte // to send when connected
	partial []byte // of a response's head
	body    bool   // the head is there, or the lengths of all responses were known before
	left    int64  // bytes still to come, with body
	answer  response
}

// pool is the links that start from one address, or from all of sources in turn.
type pool struct {
	source [4]byte // 0.0.0.0: any
	idle   []int32 // a stack; not all of them need still be idle
}

// client drives links with one thread over epoll(7), for a traffic. Everything in it
// is private to its goroutine.
type client struct {
	addr    netip.AddrPort
	base    time.Time
	epoll   int
	ended   bool // set by the traffic: nothing more to do
	limit   int  // links
	links   []link
	pools   []pool
	closed  []int32 // links to use again
	dials   int
	traffic traffic
	buffer  [maxHead]byte
	events  [256]unix.EpollEvent
}

// newClient makes a client of at most limit connections. The caller's goroutine keeps
// its thread until close.
func newClient(addr netip.AddrPort, limit int, t traffic) (*client, error) {
	if limit < 1 || limit > MaxConns {
		return nil, fmt.Errorf("load: %d connections, want 1 to %d", limit, MaxConns)
	}
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	runtime.LockOSThread()
	// Else the kernel lets a timeout run 50 µs longer to save a wake-up. It matters
	// little, and what it does is measured: see Tally.Late.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return &client{addr: addr, base: time.Now(), epoll: epoll, limit: limit, traffic: t, pools: make([]pool, 1)}, nil
}

func (c *client) close() {
	for i := range c.links {
		if c.links[i].state != linkClosed {
			c.links[i].fd.close()
		}
	}
	unix.Close(c.epoll)
	runtime.UnlockOSThread()
}

// now reads the run's clock.
func (c *client) now() time.Duration { return time.Since(c.base) }

// drive lets the traffic happen until a time, or until it has ended.
func (c *client) drive(until time.Duration) error {
	for !c.ended {
		now := c.now()
		if now >= until {
			return nil
		}
		next, err := c.traffic.due(now)
		if err != nil {
			return err
		}
		n, errno := c.wait(min(next, until) - now)
		if errno != 0 && errno != unix.EINTR {
			return fmt.Errorf("epoll_pwait2: %w", errno)
		}
		for i := range n {
			if err := c.handle(&c.events[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// usedBy lets the traffic happen until a time, and returns when that was over and what was used by then.
func (c *client) usedBy(until time.Duration, t *Target) (u Usage, at time.Duration, err error) {
	if err := c.drive(until); err != nil {
		return u, 0, err
	}
	at = c.now()
	u, err = t.usage()
	return u, at, err
}

// wait is epoll_pwait2 without the scheduler's part of a system call: nothing else in
// this process has anything to do.
func (c *client) wait(timeout time.Duration) (int, unix.Errno) {
	ts := unix.NsecToTimespec(int64(min(max(timeout, 0), longestWait)))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(c.epoll), uintptr(unsafe.Pointer(&c.events[0])),
		uintptr(len(c.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	return max(int(n), 0), errno
}

// shuffle lets any of the idle links be the next, by lot.
func (p *pool) shuffle(random *rand.Rand) {
	if last := len(p.idle) - 1; last > 0 {
		i := random.IntN(last + 1)
		p.idle[i], p.idle[last] = p.idle[last], p.idle[i]
	}
}

// take returns a link of a pool that is idle, the one used last.
func (c *client) take(from uint8) (i int32, ok bool) {
	p := &c.pools[from]
	for len(p.idle) > 0 {
		i := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		c.links[i].stacked = false
		if c.links[i].state == linkIdle {
			return i, true
		}
	}
	return 0, false
}

// request sends a request on an idle link. If the length of its response, or responses, is known it is not looked at.
func (c *client) request(i int32, text []byte, tag int32, known int64) error {
	l := &c.links[i]
	l.state, l.tag = linkBusy, tag
	l.expect(known)
	return c.write(i, text)
}

func (l *link) expect(known int64) { l.left, l.body, l.answer = known, known > 0, response{} }

// room reports whether dial can make one more connection.
func (c *client) room() bool { return len(c.closed) > 0 || len(c.links) < c.limit }

// dial makes a connection of a pool and then sends a request on it, like request. There must be room.
func (c *client) dial(text []byte, tag int32, to uint8, known int64) (i int32, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	c.dials++
	s := socket(fd)
	source := c.pools[to].source
	if source == ([4]byte{}) {
		source = sources[c.dials%len(sources)]
	}
	if err := s.prepare(c.addr, source); err != nil && err != unix.EINPROGRESS {
		s.close()
		return 0, fmt.Errorf("connect to %v: %w", c.addr, err)
	}
	i = c.slot()
	l := &c.links[i]
	l.fd, l.state, l.tag, l.request, l.pool = s, linkConnecting, tag, text, to
	l.serial++
	l.expect(known)
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: i, Pad: int32(l.serial),
	}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return 0, fmt.Errorf("epoll_ctl: %w", err)
	}
	return i, nil
}

// busyWith reports whether link i is still at the request with this tag.
func (c *client) busyWith(i, tag int32) bool {
	l := &c.links[i]
	return (l.state == linkBusy || l.state == linkConnecting) && l.tag == tag
}

func (c *client) slot() int32 {
	if n := len(c.closed); n > 0 {
		i := c.closed[n-1]
		c.closed = c.closed[:n-1]
		return i
	}
	c.links = append(c.links, link{})
	return int32(len(c.links) - 1)
}

// hangUp closes a link; what it was doing is the caller's business.
func (c *client) hangUp(i int32) {
	l := &c.links[i]
	l.fd.close()
	l.serial++
	l.state, l.partial = linkClosed, l.partial[:0]
	c.closed = append(c.closed, i)
}

// broken is the end of a link that the other side or the network has brought about.
func (c *client) broken(i int32, cause error) error {
	l := c.links[i]
	c.hangUp(i)
	if l.state == linkIdle {
		return nil
	}
	if len(l.partial) == 0 && !l.body {
		cause = unanswered{cause}
	}
	return c.traffic.lost(l.tag, cause, c.now())
}

func (c *client) write(i int32, text []byte) error {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(c.links[i].fd),
		uintptr(unsafe.Pointer(&text[0])), uintptr(len(text)), unix.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return c.broken(i, errno)
	}
	if int(n) != len(text) {
		return fmt.Errorf("load: sent %d bytes of a request of %d", n, len(text))
	}
	return nil
}

// handle takes up one event.
func (c *client) handle(e *unix.EpollEvent) error {
	i := e.Fd
	l := &c.links[i]
	if l.serial != uint32(e.Pad) || l.state == linkClosed {
		return nil
	}
	if l.state == linkConnecting {
		if errno, err := unix.GetsockoptInt(int(l.fd), unix.SOL_SOCKET, unix.SO_ERROR); err != nil || errno != 0 {
			return c.broken(i, errors.Join(err, unix.Errno(errno)))
		}
		l.state = linkBusy
		if err := c.write(i, l.request); err != nil {
			return err
		}
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) == 0 {
		return nil
	}
	return c.receive(i, e.Events&^(unix.EPOLLIN|unix.EPOLLOUT) != 0)
}

// receive reads what has come, and with ended to the end of the stream. Events are
// reported once (edge triggered), so that a short read needs no second one. What is left of a body
// that is longer than the buffer the kernel drops uncopied (MSG_TRUNC, tcp(7)).
func (c *client) receive(i int32, ended bool) error {
	l := &c.links[i]
	for serial := l.serial; l.serial == serial && l.state != linkClosed; {
		room, flags := int64(len(c.buffer)), uintptr(0)
		if l.state == linkBusy && l.left > room {
			room, flags = l.left, unix.MSG_TRUNC
		}
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(l.fd),
			uintptr(unsafe.Pointer(&c.buffer[0])), uintptr(room), flags, 0, 0)
		switch {
		case errno == unix.EAGAIN:
			return nil
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return c.broken(i, errno)
		case n == 0:
			return c.broken(i, errClosed)
		}
		data := c.buffer[:min(int(n), len(c.buffer))]
		if flags != 0 {
			l.left -= int64(n)
			data = nil
		}
		if err := c.taken(i, data); err != nil {
			return err
		}
		if int64(n) < room && !ended {
			return nil
		}
		l = &c.links[i] // taken may have made room for more
	}
	return nil
}

// taken looks at bytes that a link has received.
func (c *client) taken(i int32, data []byte) error {
	l := &c.links[i]
	if l.state == linkIdle {
		c.hangUp(i) // a server's last words
		return nil
	}
	if !l.body {
		if len(l.partial) > 0 {
			l.partial = append(l.partial, data...)
			data = l.partial
		}
		r, length, err := parseHead(data)
		if err != nil {
			return fmt.Errorf("load: %w", err)
		}
		if length == 0 {
			l.partial = append(l.partial[:0], data...)
			return nil
		}
		l.body, l.left, l.answer = true, r.body, r
		data = data[length:]
		l.partial = l.partial[:0]
	}
	if l.left -= int64(len(data)); l.left < 0 {
		return fmt.Errorf("load: %d bytes more than the response has", -l.left)
	}
	if l.left > 0 {
		return nil
	}
	if l.answer.closes {
		c.hangUp(i)
	} else {
		l.state = linkIdle
		if !l.stacked {
			l.stacked = true
			c.pools[l.pool].idle = append(c.pools[l.pool].idle, i)
		}
	}
	return c.traffic.answered(l.tag, l.answer, c.now())
}

// Usage is CPU time.
type Usage struct {
	Server time.Duration // of the server's processes together
	Client time.Duration // of this process
	Others time.Duration // of whatever else ran on the server's core, to some ticks of 10 ms
}

// Target is the server that is to be loaded.
type Target struct {
	Addr netip.AddrPort // IPv4 loopback
	PIDs []int          // its processes
	Core int            // where they run
}

// usage is what has been used so far.
func (t *Target) usage() (u Usage, err error) {
	for _, pid := range t.PIDs {
		one, err := proc.CPUTime(pid)
		if err != nil {
			return u, err
		}
		u.Server += one
	}
	if u.Client, err = proc.CPUTime(unix.Getpid()); err != nil {
		return u, err
	}
	busy, err := proc.CoreBusy(t.Core)
	u.Others = busy - u.Server
	return u, err
}

// since is what has been used since before.
func (u Usage) since(before Usage) Usage {
	return Usage{u.Server - before.Server, u.Client - before.Client, max(0, u.Others-before.Others)}
}
