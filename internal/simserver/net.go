//go:build linux

package simserver

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The processor time of the system calls, about what they take on loopback, each with what the
// server itself does beside it.
const (
	costAccept = 8 * time.Microsecond
	costRecv   = 1500 * time.Nanosecond
	costSend   = 4 * time.Microsecond
	costClose  = 6 * time.Microsecond
	costPoll   = time.Microsecond
	costSmall  = 300 * time.Nanosecond
	costKiB    = 100 * time.Nanosecond // copied
	costTiny   = 800 * time.Nanosecond // a segment, where these are tiny
)

// firstFD is above all descriptors that a real process has, so that a system call that
// gets past the simulation fails.
const firstFD = 1 << 24

// A Network is the simulated kernel's part that kernel.Network is. All is guarded by
// World.mu.
type Network struct {
	w       *World
	fds     map[int]any
	free    []int
	next    int
	limit   int // open descriptors
	ports   map[uint16][]*listener
	somax   int
	links   int
	sockets int // accepted and open
	faults  Faults
	page    []byte // what SendFile reads
}

// Faults says how often something goes wrong that may: each is a probability.
type Faults struct {
	Interrupt float64 // EINTR
	Short     float64 // a send takes only a part
	Spurious  float64 // an event that is none
	Stale     float64 // an event of a descriptor that has been closed
	Abort     float64 // accept fails with ECONNABORTED
	Steal     float64 // a loop that is resumed has to wait for a processor
}

func newNetwork(w *World) *Network {
	return &Network{
		w: w, fds: map[int]any{}, next: firstFD, limit: 20_000,
		ports: map[uint16][]*listener{}, somax: 4096,
	}
}

// open gives x a descriptor.
func (n *Network) open(x any) (int, syscall.Errno) {
	if len(n.fds) >= n.limit {
		return 0, unix.EMFILE
	}
	fd := n.next
	if k := len(n.free); k > 0 {
		fd = n.free[k-1]
		n.free = n.free[:k-1]
	} else {
		n.next++
	}
	n.fds[fd] = x
	return fd, 0
}

// chance is true with probability p.
func (n *Network) chance(p float64) bool { return p > 0 && n.w.draw().Float64() < p }

// interrupted is asked by calls that may fail with EINTR.
func (n *Network) interrupted() bool { return n.chance(n.faults.Interrupt) }

// A listener is a socket that may listen. Bind sets the port.
type listener struct {
	pollable
	port    uint16
	backlog int
	queue   []*socket
	options map[[2]int]int
}

func (l *listener) level() uint32 {
	if len(l.queue) > 0 {
		return unix.EPOLLIN
	}
	return 0
}

// Epoch is when the world began.
func (n *Network) Epoch() time.Time { return n.w.began.Add(-time.Second) }

func (n *Network) Socket(family, typ int) (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if family != unix.AF_INET || typ != unix.SOCK_STREAM {
		return 0, unix.EAFNOSUPPORT
	}
	fd, e := n.open(&listener{options: map[[2]int]int{}})
	return uintptr(fd), e
}

func (n *Network) Bind(fd int, sa *unix.RawSockaddrAny, _ uint32) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	l, ok := n.fds[fd].(*listener)
	if !ok {
		return unix.EBADF
	}
	p := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
	l.port = p.Port<<8 | p.Port>>8
	return 0
}

func (n *Network) Listen(fd, backlog int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	l, ok := n.fds[fd].(*listener)
	if !ok {
		return unix.EBADF
	}
	reuse := [2]int{unix.SOL_SOCKET, unix.SO_REUSEPORT}
	for _, other := range n.ports[l.port] {
		if l.options[reuse] == 0 || other.options[reuse] == 0 {
			return unix.EADDRINUSE
		}
	}
	l.backlog = min(backlog, n.somax)
	n.ports[l.port] = append(n.ports[l.port], l)
	return 0
}

// SetOption is setsockopt(2) for the options that netpoll sets.
func (n *Network) SetOption(fd, level, option, value int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.charge(costSmall)
	switch x := n.fds[fd].(type) {
	case *listener:
		x.options[[2]int{level, option}] = value
	case *socket:
		if option == unix.TCP_NOTSENT_LOWAT {
			x.outRoom = min(x.outRoom, value)
		}
	default:
		return unix.EBADF
	}
	return 0
}

// Option is getsockopt(2) for the options that netpoll reads.
func (n *Network) Option(fd, level, option int) (int, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	switch x := n.fds[fd].(type) {
	case *listener:
		return x.options[[2]int{level, option}], 0
	case *socket:
		switch option {
		case unix.TCP_MAXSEG:
			return x.segment, 0
		case unix.TCP_INFO: // as netpoll asks for it
			return int((n.w.now() - x.inAt) / time.Millisecond), 0
		}
	}
	return 0, unix.EBADF
}

func (n *Network) Name(fd int32, peer bool, sa *unix.RawSockaddrAny) (uint32, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	p := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
	switch x := n.fds[int(fd)].(type) {
	case *listener:
		*p = inet4([4]byte{10, 0, 0, 1}, x.port)
	case *socket:
		*p = inet4([4]byte{10, 0, 0, 1}, x.port)
		if peer {
			*p = x.link.address()
		}
	default:
		return 0, unix.EBADF
	}
	return unix.SizeofSockaddrInet4, 0
}

func inet4(ip [4]byte, port uint16) unix.RawSockaddrInet4 {
	return unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: ip, Port: port<<8 | port>>8}
}

// Accept finds out that there is no descriptor left before it looks at the queue, as
// Linux does.
func (n *Network) Accept(fd int32, sa *unix.RawSockaddrAny) (uintptr, uint32, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	l, ok := n.fds[int(fd)].(*listener)
	switch {
	case !ok:
		return 0, 0, unix.EBADF
	case n.interrupted():
		return 0, 0, unix.EINTR
	case len(n.fds) >= n.limit:
		n.w.charge(costSmall)
		return 0, 0, unix.EMFILE
	case len(l.queue) == 0:
		n.w.charge(costSmall)
		return 0, 0, unix.EAGAIN
	case n.chance(n.faults.Abort):
		s := l.queue[0]
		l.queue = l.queue[1:]
		s.link.lost(unix.ECONNABORTED)
		return 0, 0, unix.ECONNABORTED
	}
	n.w.charge(costAccept)
	s := l.queue[0]
	l.queue = l.queue[1:]
	s.fd, _ = n.open(s)
	n.sockets++
	*(*unix.RawSockaddrInet4)(unsafe.Pointer(sa)) = s.link.address()
	n.w.note("accept", uint64(s.fd), uint64(s.link.id))
	return uintptr(s.fd), unix.SizeofSockaddrInet4, 0
}

func (n *Network) Shutdown(fd, how int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	n.w.charge(costSmall)
	switch x := n.fds[fd].(type) {
	case *listener:
		n.unlisten(x)
		x.changed()
	case *socket:
		if how == unix.SHUT_WR || how == unix.SHUT_RDWR {
			x.finish()
		}
		if how == unix.SHUT_RD || how == unix.SHUT_RDWR {
			x.shutRead = true
		}
		x.changed()
	default:
		return unix.EBADF
	}
	return 0
}

func (n *Network) Close(fd int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	x := n.fds[fd]
	if x == nil {
		return unix.EBADF
	}
	n.w.charge(costClose)
	n.w.note("close", uint64(fd))
	delete(n.fds, fd)
	n.free = append(n.free, fd)
	switch x := x.(type) {
	case *listener:
		x.leaveSets()
		n.unlisten(x)
		for _, s := range x.queue {
			s.link.lost(unix.ECONNRESET)
		}
		x.queue = nil
	case *socket:
		x.leaveSets()
		n.sockets--
		x.close()
	case *eventfd:
		x.leaveSets()
	case *epollSet:
	}
	return 0
}

func (n *Network) unlisten(l *listener) {
	all := n.ports[l.port]
	for i, x := range all {
		if x == l {
			n.ports[l.port] = append(all[:i:i], all[i+1:]...)
		}
	}
}

// Open is the number of open descriptors.
func (n *Network) Open() int {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return len(n.fds)
}

// forgotten is a connection whose client has gone, as the server's kernel knows since
// before the given time, and that the server has not closed; nil if there is none.
func (n *Network) forgotten(before time.Duration) *Link {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	var oldest *Link
	for _, x := range n.fds {
		s, ok := x.(*socket)
		if !ok || !s.link.left || !s.inEnd && !s.reset {
			continue
		}
		if l := s.link; l.leftAt < before && (oldest == nil || l.id < oldest.id) {
			oldest = l
		}
	}
	return oldest
}

// Sockets is the number of connections that the server has not closed.
func (n *Network) Sockets() (open int) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.sockets
}

// SetFaults says how often something goes wrong from now on.
func (w *World) SetFaults(f Faults) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Net.faults = f
}
