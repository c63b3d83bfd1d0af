package main

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How sockets are closed that have data their clients don't read: the kernel goes on sending it, drops it,
// or keeps the caller of close(2) for a second (SO_LINGER, socket(7)).
var lingers = map[string]*unix.Linger{
	"background": nil,
	"reset":      {Onoff: 1},
	"waiting":    {Onoff: 1, Linger: 1},
}

// lingeringData is what each socket has to send, in bytes.
const lingeringData = 16 << 10

// lingering closes j.x sockets at once.
func (s *threads) lingering(j job) {
	ln := must(s.listen())
	defer ln.Close()
	conns := make([]net.Conn, j.x)
	for i := range conns {
		peer := dialDeaf(ln.Addr())
		defer unix.Close(peer)
		conns[i] = must(ln.Accept())
		setLinger(conns[i], lingers[j.metric])
		must(conns[i].Write(make([]byte, lingeringData)))
	}
	var closed, stall atomic.Int64
	var begun, ended atomic.Bool
	s.spawn(func() {
		for last := time.Now(); closed.Load() < int64(j.x); {
			s.sleep(time.Millisecond)
			now := time.Now()
			if begun.Load() {
				stall.Store(max(stall.Load(), int64(now.Sub(last)-time.Millisecond)))
			}
			last = now
		}
		ended.Store(true)
	})
	s.sleep(20 * time.Millisecond)
	began := time.Now()
	begun.Store(true)
	for _, c := range conns {
		s.spawn(func() {
			c.Close()
			closed.Add(1)
		})
	}
	for !ended.Load() {
		s.sleep(time.Millisecond)
	}
	j.emit("stall-"+j.metric, "ms", float64(stall.Load())/1e6)
	j.emit("close-"+j.metric, "µs", float64(time.Since(began).Microseconds())/float64(j.x))
}

// dialDeaf connects a socket that is never read, whose receive buffer holds less than lingeringData.
func dialDeaf(addr net.Addr) int {
	return dialRaw(addr, func(fd int) {
		check(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096))
		check(unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})) // leaves no port waiting
	})
}

// dialRaw connects a socket that waits in its system calls; prepare, which may be nil, is called before.
func dialRaw(addr net.Addr, prepare func(fd int)) int {
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	if prepare != nil {
		prepare(fd)
	}
	tcp := addr.(*net.TCPAddr)
	check(unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte(tcp.IP.To4()), Port: tcp.Port}))
	return fd
}

func setLinger(c net.Conn, linger *unix.Linger) {
	if linger != nil {
		raw := must(c.(syscall.Conn).SyscallConn())
		check(onFD(raw, func(fd int) error { return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, linger) }))
	}
}

// onFD calls f with a descriptor.
func onFD(raw syscall.RawConn, f func(fd int) error) (err error) {
	failed := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(failed, err)
}
