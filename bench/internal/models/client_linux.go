package models

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Reads is the share of gets among the requests.
const Reads = 0.9

// client is one connection with one request under way.
type client struct {
	fd     int
	want   int // bytes of the response
	got    int
	record int
	get    bool
}

// Load has a number of connections ask a server at a unix socket, each for the next record when it
// has the one before, and returns how many transactions there were after warm. measuring is
// called when that time begins and when it ends.
func Load(path string, conns int, warm, length time.Duration, seed uint64, measuring func(begins bool) error) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(epoll)
	l := &loader{random: rand.New(rand.NewPCG(seed, 3)), values: make([]byte, 1024), buf: make([]byte, 64<<10)}
	for i := range Records {
		key, n := Record(i)
		l.keys, l.bytes = append(l.keys, key), append(l.bytes, n)
	}
	clients := map[int32]*client{}
	for range conns {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return 0, fmt.Errorf("socket: %w", err)
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return 0, fmt.Errorf("connect to %s: %w", path, err)
		}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return 0, fmt.Errorf("epoll_ctl: %w", err)
		}
		c := &client{fd: fd}
		clients[int32(fd)] = c
		if err := l.ask(c); err != nil {
			return 0, err
		}
	}
	done, events := 0, make([]unix.EpollEvent, 256)
	began, counting := time.Now(), false
	for {
		n, err := unix.EpollWait(epoll, events, 5000)
		if n == 0 && err == nil {
			return 0, fmt.Errorf("no response for 5 s")
		}
		for _, e := range events[:max(n, 0)] {
			c := clients[e.Fd]
			whole, err := l.read(c)
			if err != nil {
				return 0, err
			}
			if whole {
				done++
				if err := l.ask(c); err != nil {
					return 0, err
				}
			}
		}
		switch spent := time.Since(began); {
		case !counting && spent >= warm:
			began, done, counting = time.Now(), 0, true
			if err := measuring(true); err != nil {
				return 0, err
			}
		case counting && spent >= length:
			return done, measuring(false)
		}
	}
}

type loader struct {
	random  *rand.Rand
	keys    []string
	bytes   []int
	values  []byte
	request []byte
	buf     []byte
}

// ask sends a request, drawn by lot.
func (l *loader) ask(c *client) error {
	c.record, c.got, c.want, c.get = l.random.IntN(Records), 0, headBytes, l.random.Float64() < Reads
	if c.get {
		l.request = appendRequest(l.request[:0], opGet, l.keys[c.record], nil)
		c.want += l.bytes[c.record]
	} else {
		l.request = appendRequest(l.request[:0], opSet, l.keys[c.record], l.values[:l.bytes[c.record]])
	}
	if n, err := unix.Write(c.fd, l.request); err != nil || n != len(l.request) {
		return fmt.Errorf("write: %d of %d bytes: %w", n, len(l.request), err)
	}
	return nil
}

// read takes what has come and reports whether the response is whole. One that is not as
// expected is an error.
func (l *loader) read(c *client) (bool, error) {
	n, err := unix.Read(c.fd, l.buf)
	if err == unix.EINTR {
		return false, nil
	}
	if err != nil || n == 0 {
		return false, fmt.Errorf("read: %d bytes, %w", n, err)
	}
	if c.got == 0 && n >= headBytes {
		if length := int(binary.LittleEndian.Uint32(l.buf[4:])); l.buf[0] != statusGood || headBytes+length != c.want {
			return false, fmt.Errorf("record %d: status %d, %d bytes; want 0 and %d", c.record, l.buf[0], length, c.want-headBytes)
		}
	}
	if c.got += n; c.got > c.want {
		return false, fmt.Errorf("record %d: %d bytes, want %d", c.record, c.got, c.want)
	}
	return c.got == c.want, nil
}
