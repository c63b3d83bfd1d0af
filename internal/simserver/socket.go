//go:build linux

package simserver

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is the server's end of a connection. Guarded by World.mu.
type socket struct {
	pollable
	n    *Network
	link *Link
	port uint16
	fd   int

	in       queue         // received and not read yet
	inAt     time.Duration // when the last of it came
	inRoom   int
	flying   int  // bytes on their way to in, which have their place there
	inEnd    bool // the client has sent its last byte
	shutRead bool

	out     queue // sent and not taken by the client yet
	outRoom int
	segment int  // bytes
	noSpace bool // a send found too little room
	outEnd  bool // the server has sent its last byte
	moving  bool // a delivery is under way

	reset   bool // by the client
	pending syscall.Errno
	closed  bool
}

// level is what poll(2) would say.
func (s *socket) level() (is uint32) {
	if s.in.len() > 0 || s.inEnd || s.shutRead || s.reset {
		is |= unix.EPOLLIN
	}
	if s.inEnd || s.shutRead {
		is |= unix.EPOLLRDHUP
	}
	if s.outRoom-s.out.len() >= s.outRoom/3 || s.outEnd || s.reset {
		is |= unix.EPOLLOUT
	}
	if s.inEnd && s.outEnd || s.reset {
		is |= unix.EPOLLHUP
	}
	if s.pending != 0 {
		is |= unix.EPOLLERR
	}
	return is
}

func (n *Network) socket(fd int) *socket {
	s, _ := n.fds[fd].(*socket)
	return s
}

func (n *Network) Recv(fd int32, b []byte, flags int) (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := n.socket(int(fd))
	switch {
	case s == nil:
		return 0, unix.EBADF
	case n.interrupted():
		return 0, unix.EINTR
	}
	n.w.charge(costRecv)
	switch {
	case s.pending != 0:
		e := s.pending
		s.pending = 0
		return 0, e
	case s.in.len() > 0:
		k := copy(b, s.in.bytes())
		if flags&unix.MSG_PEEK == 0 {
			s.in.drop(k)
			n.w.charge(time.Duration(k) * costKiB / 1024)
			s.link.roomAgain()
		}
		return uintptr(k), 0
	case s.inEnd || s.reset || s.shutRead:
		return 0, 0
	}
	return 0, unix.EAGAIN
}

// writable reports why nothing can be sent, if so.
func (s *socket) writable() syscall.Errno {
	switch {
	case s == nil:
		return unix.EBADF
	case s.n.interrupted():
		return unix.EINTR
	case s.pending != 0:
		e := s.pending
		s.pending = 0
		return e
	case s.outEnd || s.reset:
		return unix.EPIPE
	case s.out.len() >= s.outRoom:
		s.noSpace = true
		s.n.w.charge(costSmall)
		return unix.EAGAIN
	}
	return 0
}

// room is how much of size bytes a send may take. If that is not all, there will be an
// event.
func (s *socket) room(size int) int {
	k := min(size, s.outRoom-s.out.len())
	if k > 1 && s.n.chance(s.n.faults.Short) {
		k = 1 + s.n.w.draw().IntN(k-1)
		s.n.w.post(s.n.w.now()+time.Duration(s.n.w.draw().IntN(int(time.Millisecond))), s.roomLater)
	}
	if k < size {
		s.noSpace = true
	}
	return k
}

// roomLater tells of room after a send that was cut short though there was some.
func (s *socket) roomLater() {
	s.n.w.mu.Lock()
	defer s.n.w.mu.Unlock()
	s.offerRoom()
}

func (s *socket) offerRoom() {
	if s.noSpace && s.outRoom-s.out.len() >= s.outRoom/3 {
		s.noSpace = false
		s.changed()
	}
}

// sent has the client get what has been added to out, n bytes.
func (s *socket) sent(n int) {
	s.n.w.charge(costSend + time.Duration(n)*costKiB/1024)
	if s.segment < segment {
		s.n.w.charge(time.Duration(n/s.segment) * costTiny)
	}
	s.link.deliverLater()
}

func (n *Network) Send(fd int32, b []byte) (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := n.socket(int(fd))
	if e := s.writable(); e != 0 {
		return 0, e
	}
	k := s.room(len(b))
	s.out.add(b[:k])
	s.sent(k)
	return uintptr(k), 0
}

func (n *Network) SendMsg(fd int32, vector []unix.Iovec) (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := n.socket(int(fd))
	if e := s.writable(); e != 0 {
		return 0, e
	}
	size := 0
	for i := range vector {
		size += int(vector[i].Len)
	}
	k := s.room(size)
	left := k
	for i := range vector {
		b := unsafe.Slice(vector[i].Base, int(vector[i].Len))
		b = b[:min(left, len(b))]
		s.out.add(b)
		left -= len(b)
	}
	s.sent(k)
	return uintptr(k), 0
}

func (n *Network) SendFile(fd, file int, off int64, size int) (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := n.socket(fd)
	if e := s.writable(); e != 0 {
		return 0, e
	}
	room := s.room(size)
	if len(n.page) < room {
		n.page = make([]byte, room)
	}
	k, err := unix.Pread(file, n.page[:room], off)
	if err != nil {
		return 0, err.(syscall.Errno)
	}
	if k > 0 {
		s.out.add(n.page[:k])
		s.sent(k)
	}
	return uintptr(k), 0
}

// finish ends the sending.
func (s *socket) finish() {
	if !s.outEnd {
		s.outEnd = true
		s.link.raced = s.link.raced || s.in.len() == 0 && (s.flying > 0 || len(s.link.unsent) > 0)
		s.link.deliverLater()
	}
}

// close is close(2): what has been sent still gets to the client, unless it has sent
// something that was not read, which resets the connection.
func (s *socket) close() {
	s.closed = true
	if s.in.len() > 0 {
		s.in = queue{}
		s.link.lost(unix.ECONNRESET)
		return
	}
	s.finish()
}
