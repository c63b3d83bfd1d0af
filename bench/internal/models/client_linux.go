package models

import (
	"bytes"
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
	want   int    // bytes of the response
	head   []byte // that it begins with
	got    int
	record int
}

// Load has a number of connections ask a server at a unix socket, each for the next record when it
// has the one before, and returns how many transactions there were after warm, at whose end begin is called.
func Load(path string, p Protocol, conns int, warm, length time.Duration, seed uint64, begin func()) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("epoll_create1: %w", err)
	}
	defer unix.Close(epoll)
	l := newLoader(p, seed)
	clients := map[int32]*client{}
	for range conns {
		fd, err := dial(path)
		if err != nil {
			return 0, err
		}
		defer unix.Close(fd)
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
		n, err := unix.EpollWait(epoll, events, 60_000)
		if n == 0 && err == nil {
			return 0, fmt.Errorf("no response for a minute")
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
			begin()
		case counting && spent >= length:
			return done, nil
		}
	}
}

func dial(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %s: %w", path, err)
	}
	return fd, nil
}

type loader struct {
	protocol Protocol
	random   *rand.Rand
	keys     []string
	bytes    []int
	values   []byte
	request  []byte
	buf      []byte
}

func newLoader(p Protocol, seed uint64) *loader {
	l := &loader{protocol: p, random: rand.New(rand.NewPCG(seed, 3)), values: bytes.Repeat([]byte("v"), 1024), buf: make([]byte, 64<<10)}
	for i := range Records {
		key, n := Record(i)
		l.keys, l.bytes = append(l.keys, key), append(l.bytes, n)
	}
	return l
}

// ask sends a request, drawn by lot.
func (l *loader) ask(c *client) error {
	record, get := l.random.IntN(Records), l.random.Float64() < Reads
	return l.send(c, record, get)
}

func (l *loader) send(c *client, record int, get bool) error {
	key, n := l.keys[record], l.bytes[record]
	value := l.values[:n]
	if get {
		value = nil
	}
	c.record, c.got = record, 0
	l.request = l.protocol.request(l.request[:0], key, value)
	c.head, c.want = l.protocol.response(c.head[:0], key, n, get)
	if n, err := unix.Write(c.fd, l.request); err != nil || n != len(l.request) {
		return fmt.Errorf("write: %d of %d bytes: %w", n, len(l.request), err)
	}
	return nil
}

// Fill stores all records in the server at a unix socket.
func Fill(path string, p Protocol) error {
	fd, err := dial(path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	l, c := newLoader(p, 1), &client{fd: fd}
	for record := range Records {
		if err := l.send(c, record, false); err != nil {
			return err
		}
		for whole := false; !whole; {
			if whole, err = l.read(c); err != nil {
				return err
			}
		}
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
	if c.got == 0 && n >= len(c.head) && !bytes.HasPrefix(l.buf[:n], c.head) {
		return false, fmt.Errorf("record %d: the response begins with %q, want %q", c.record, l.buf[:min(n, 40)], c.head)
	}
	if c.got += n; c.got > c.want {
		return false, fmt.Errorf("record %d: %d bytes, want %d", c.record, c.got, c.want)
	}
	return c.got == c.want, nil
}
