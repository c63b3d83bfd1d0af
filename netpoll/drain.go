//go:build linux

package netpoll

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

const (
	// drainPause is the time between two looks at the backlogs. A handshake that had begun before has as long to end.
	drainPause = 2 * time.Millisecond
	// drainQuiet is how many looks in a row must find nothing.
	drainQuiet = 2
	// drainOpen is for how long backlogs are waited for if new clients can't be kept out.
	drainOpen = time.Second
)

// Drain lets no new connection in, waits until all connections in the queue have been accepted, and
// then closes ln, as Close does. Serve, ServeInline or callers of Accept must go on accepting
// meanwhile. If ctx ends first, or the tasks are cancelled because the runtime shuts down, ln is closed at once, which
// resets the connections that are left, and the error of ctx, or task.ErrShutdown, is returned.
//
// Clients that try to connect to a TCP listener meanwhile get no answer: they try again
// after a second, and are refused or come to the process that listens there then. That takes a
// filter on the socket (SO_ATTACH_FILTER, socket(7)), which goes when ln is closed, so that a
// process that has got the socket (Files) can go on with it. Where it can't be had, and with unix
// sockets, whose file is removed first, clients may go on coming in, and Drain waits for a
// second at most.
//
// It parks, and does not end early when the task is cancelled.
func (ln *Listener) Drain(ctx context.Context) error {
	var err error
	if !ln.shared {
		err = engine.Shield(ctx, func() error { return engine.OffloadContext(ctx, ln.drain) })
	}
	if closed := ln.Close(); err == nil {
		err = closed
	}
	return err
}

// drain is for a plain goroutine.
func (ln *Listener) drain(ctx context.Context) error {
	if ln.family == unix.AF_UNIX {
		ln.removeFile()
	}
	began := time.Now()
	end := ln.d.loop.Runtime().Context() // from then on no task accepts
	tick := time.NewTicker(drainPause)
	defer tick.Stop()
	for quiet := 0; quiet < drainQuiet; {
		all, complete := ln.all()
		empty, alone := complete, true
		for _, each := range all {
			alone = each.refuseNew() && alone
			empty = !each.d.acceptNoneAhead() && each.d.backlogEmpty() && empty
		}
		quiet++
		if !empty {
			quiet = 0
		}
		if !alone && time.Since(began) > drainOpen {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.Done():
			return engine.ContextError(end)
		case <-tick.C:
		}
	}
	return nil
}

// all returns ln and its clones; complete is false if there are going to be more, which may have
// clients already.
func (ln *Listener) all() (all []*Listener, complete bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	all = append(all, ln)
	for c := range ln.clones {
		all = append(all, c)
	}
	return all, ln.cloning == 0
}

func (ln *Listener) addCloning(n int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.cloning += n
}

// onlyBegun is a filter that drops TCP segments with SYN and without ACK (RFC 9293, 3.1): new clients. Segments of a
// handshake that has begun pass. Accepted connections inherit the filter; such segments mean nothing to them.
var onlyBegun = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13}, // the flags
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0x12},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0x02, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
}

// refuseNew keeps new clients out, and reports whether it could.
func (ln *Listener) refuseNew() bool {
	if ln.family == unix.AF_UNIX {
		return false
	}
	if ln.copied || ln.d.use() != nil {
		return true // another Listener has the same socket, or it is closed
	}
	defer ln.d.unuse()
	refused := unix.SetsockoptSockFprog(int(ln.d.fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
		Len: uint16(len(onlyBegun)), Filter: &onlyBegun[0],
	}) == nil
	if refused {
		ln.filtered.Store(true)
	}
	return refused
}

// admitNew undoes refuseNew if other processes may have the socket too, whose clients would be kept out for as long as
// it lives. Its caller is about to close the descriptor, and its only user.
func (ln *Listener) admitNew() {
	if ln.filtered.Load() && ln.d.flags.Load()&flagShared != 0 {
		unix.SetsockoptInt(int(ln.d.fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	}
}

// backlogEmpty reports whether no connection waits to be accepted. A closed listener is empty.
func (d *desc) backlogEmpty() bool {
	if d.use() != nil {
		return true
	}
	defer d.unuse()
	if r := d.requests; r != nil && r.accepted != nil {
		r.mu.Lock()
		taken := r.accepted.len()
		r.mu.Unlock()
		if taken > 0 {
			return false
		}
	}
	look := []unix.PollFd{{Fd: d.fd, Events: unix.POLLIN}}
	_, err := unix.Poll(look, 0)
	return err == nil && look[0].Revents&unix.POLLIN == 0
}

// Unread reports whether there is something to read: bytes of the peer, or that it has ended its side or reset
// the connection. It never parks.
func (c *inner) Unread() bool {
	if c.d.use() != nil {
		return false
	}
	defer c.d.unuse()
	if r := c.d.requests; r != nil && c.d.kind == kindTCP {
		r.mu.Lock()
		kept := r.held > 0 || r.ended
		r.mu.Unlock()
		if kept {
			return true
		}
	}
	var b [1]byte // also while the kernel streams, as the loop may not have seen its completion yet
	_, e := sys.Recv(c.d.fd, b[:], unix.MSG_PEEK)
	return e != unix.EAGAIN
}
