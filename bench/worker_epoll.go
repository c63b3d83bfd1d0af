package main

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollMetrics measure a bare event loop in Go: what c/epoll.c does, by raw
// system calls. The difference to C is the price of Go's process (a kernel that
// knows several threads counts references to each descriptor used), the
// difference to our tasks the price of tasks.
var epollMetrics = map[string]metricFunc{"tokens": epollTokens}

type rawPipe struct {
	r, w int
	lot  uint64
}

// eventLoop passes tokens. It belongs to its goroutine.
type eventLoop struct {
	epoll  int
	pipes  []rawPipe
	events [256]unix.EpollEvent
	buffer [tokensRead * tokenBytes]byte
}

func epollTokens(j job) {
	l := &eventLoop{epoll: must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))}
	l.open(j.x)
	tokens := tokensFor(j.x)
	for t := range tokens {
		l.write(l.pipes[t*j.x/tokens].w, make([]byte, tokenBytes))
	}
	for warm := 0; warm < j.x+1000; {
		warm += l.turn()
	}
	passed, start := 0, time.Now()
	for {
		for range 16 {
			passed += l.turn()
		}
		if took := time.Since(start); took >= j.duration {
			j.emit("tokens", "tokens/s", float64(passed)/took.Seconds())
			return
		}
	}
}

func (l *eventLoop) open(pipes int) {
	add := func(r, w int) pipe {
		i := len(l.pipes)
		l.pipes = append(l.pipes, rawPipe{r: r, w: w, lot: uint64(i)})
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(i)}
		check(unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, r, &event))
		return pipe{}
	}
	openPipes(pipes, func() pipe {
		var ends [2]int
		check(unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
		return add(ends[0], ends[1])
	}, func(fd int) pipe { return add(fd, fd) })
}

func (l *eventLoop) turn() (passed int) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.epoll),
		uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)), ^uintptr(0), 0, 0)
	if errno == unix.EINTR {
		return 0
	}
	if errno != 0 {
		check(fmt.Errorf("epoll_wait: %w", errno))
	}
	for i := range int(n) {
		passed += l.drain(&l.pipes[l.events[i].Fd])
	}
	return passed
}

// drain passes on what is in a pipe. A read shorter than the buffer means that
// no more is there, and writes of 12 bytes are never split (pipe(7)).
func (l *eventLoop) drain(p *rawPipe) (passed int) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(p.r), uintptr(unsafe.Pointer(&l.buffer[0])), uintptr(len(l.buffer)))
		if errno == unix.EAGAIN {
			return passed
		}
		if errno != 0 {
			check(fmt.Errorf("read: %w", errno))
		}
		for at := 0; at < int(n); at += tokenBytes {
			l.write(l.pipes[p.draw(len(l.pipes))].w, l.buffer[at:at+tokenBytes])
			passed++
		}
		if int(n) < len(l.buffer) {
			return passed
		}
	}
}

func (p *rawPipe) draw(pipes int) int {
	p.lot = p.lot*6364136223846793005 + 1442695040888963407
	return int(p.lot >> 33 % uint64(pipes))
}

func (l *eventLoop) write(fd int, token []byte) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&token[0])), uintptr(len(token)))
	if errno != 0 || int(n) != len(token) {
		check(fmt.Errorf("write: %d bytes of %d: %w", n, len(token), errno))
	}
}
