//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
	"github.com/capriccio-go/capriccio/task"
)

// Serve accepts connections on all loops of ln's runtime and runs handler for each as
// a new task on the loop that accepted it; handler owns the connection and closes it.
//
// With TCP each loop gets a listening socket of its own on the same address
// (SO_REUSEPORT, socket(7)), between which the kernel spreads the connections, so that
// no loop accepts for another. Unix sockets can't do that: there the loops share one.
//
// After a temporary error (see Listener.AcceptConn), as when descriptors or memory run
// out, the accept task of that loop pauses, 5 ms at first and up to 1 s, and logs that at most
// every 10 s.
//
// Serve parks until ln is closed, and then returns net.ErrClosed, or until the calling
// task's context ends: then it drains, which closes ln (see ListenConfig.DrainLimit), and returns the
// error of that context. Another error that lasts closes ln. When ln is closed, and when the runtime shuts
// down, handlers that still run are not waited for.
func Serve(ln *Listener, handler func(*Conn)) error {
	sv := newServing(ln, handler)
	if ln.cfg.DrainLimit < 0 {
		return ln.serve(sv.take, nil)
	}
	return ln.serve(sv.take, sv)
}

// ServeInline is Serve for a taker of connections that has little to do: it is called on the task that accepts, on the
// loop of the connection, and that accepts no other before it has returned. A take that only calls OnReadable or
// OnReadableAt needs no task for a connection that has not sent anything yet, and the first request of the connection
// waits in the queue once: Serve's task would wait there before it.
func ServeInline(ln *Listener, take func(*Conn)) error {
	return ln.serve(func(c *Conn) { engine.Outside(callTake, taking{take, c}) }, nil)
}

// A taking is a call of the function given to ServeInline.
type taking struct {
	take func(*Conn)
	c    *Conn
}

// callTake is for engine.Outside; there is no result.
func callTake(t taking) struct{} {
	t.take(t.c)
	return struct{}{}
}

// serve accepts until ln is closed. If the calling task is cancelled, and sv is not nil, it drains.
func (ln *Listener) serve(take func(*Conn), sv *serving) error {
	rt := ln.d.loop.Runtime()
	each, err := ln.forLoops(rt)
	if err != nil {
		return err
	}
	defer ln.dropClones(each)
	errs := make([]error, len(each))
	tasks := make([]*engine.Task, len(each))
	for i, l := range each {
		o := engine.Options{Loop: rt.Loop(i)}
		if sv != nil {
			o.Context = context.Background() // it goes on while sv drains
		}
		accept := func() { errs[i] = ln.acceptLoop(l, take) }
		if l == nil {
			accept = func() { errs[i] = ln.acceptLater(take) }
		}
		if tasks[i], err = rt.Spawn(o, accept); err != nil {
			return err
		}
	}
	for i, t := range tasks {
		if err := t.Join(); err != nil {
			if sv != nil && engine.Err() != nil && rt.Context().Err() == nil {
				sv.drain(tasks)
			}
			return err
		}
		if !errors.Is(errs[i], net.ErrClosed) {
			return errs[i]
		}
	}
	return errs[0]
}

// forLoops returns one listener for each loop, nil for loops that don't work; the one of ln's own loop is ln.
func (ln *Listener) forLoops(rt *engine.Runtime) ([]*Listener, error) {
	ln.addCloning(1)
	defer ln.addCloning(-1)
	each := make([]*Listener, rt.Loops())
	working := rt.Working()
	for i := range each {
		l := rt.Loop(i)
		if l == ln.d.loop {
			each[i] = ln
			continue
		}
		if i >= working {
			continue
		}
		c, err := ln.kept(l)
		if err != nil {
			ln.dropClones(each)
			return nil, err
		}
		each[i] = c
	}
	return each, nil
}

// kept makes a clone that ln.Close closes too.
func (ln *Listener) kept(l *engine.Loop) (*Listener, error) {
	c, err := ln.clone(l)
	if err != nil {
		return nil, err
	}
	c.fault = ln.fault
	ln.mu.Lock()
	closed := ln.closed
	if !closed {
		if ln.clones == nil {
			ln.clones = make(map[*Listener]bool)
		}
		ln.clones[c] = true
	}
	ln.mu.Unlock()
	if closed {
		c.d.close()
		return nil, ln.opError("accept", "", net.ErrClosed)
	}
	return c, nil
}

// keeps reports whether c is a clone that is not dropped yet.
func (ln *Listener) keeps(c *Listener) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.clones[c]
}

// acceptLater is acceptLoop for a loop that does not work yet.
func (ln *Listener) acceptLater(take func(*Conn)) error {
	loop := engine.CurrentLoop()
	over := ln.untilClosed()
	var pause time.Duration
	for {
		grown := loop.Runtime().Grown() // before the look
		if !loop.Works() {
			either, stop := context.WithCancel(over)
			unbind := context.AfterFunc(grown, stop)
			engine.Await(either)
			unbind()
			stop()
			switch cancelled := engine.Err(); {
			case over.Err() != nil:
				return ln.acceptError(net.ErrClosed)
			case cancelled != nil:
				return ln.acceptError(&contextError{cancelled})
			}
			continue
		}
		ln.addCloning(1)
		c, err := ln.kept(loop)
		ln.addCloning(-1)
		if err == nil {
			defer ln.dropClones([]*Listener{c})
			return ln.acceptLoop(c, take)
		}
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err := ln.pauseAfter(err, &pause); err != nil {
			return err
		}
	}
}

// untilClosed returns a context that ends when ln is closed.
func (ln *Listener) untilClosed() context.Context {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.over == nil {
		ln.over, ln.end = context.WithCancel(context.Background())
	}
	if ln.closed {
		ln.end()
	}
	return ln.over
}

// clone makes a listener on the same address for loop l.
func (ln *Listener) clone(l *engine.Loop) (*Listener, error) {
	if err := ln.d.use(); err != nil {
		return nil, ln.opError("accept", "", err)
	}
	defer ln.d.unuse()
	fd := int(ln.d.fd)
	if ln.family != unix.AF_UNIX && !ln.adopted {
		// The option is needed on the first socket too, but only from now on: until
		// here a second listener by mistake was an error.
		if err := setInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return nil, ln.opError("accept", "", err)
		}
		cfg := ln.cfg
		cfg.ReusePort = true
		network := "tcp"
		if ln.family == unix.AF_INET6 {
			if only, _ := sys.Option(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY); only != 0 {
				network = "tcp6"
			}
		} else {
			network = "tcp4"
		}
		if c, err := cfg.listenOn(l, network, ln.local); err == nil {
			return c, nil
		}
	}
	return ln.share(l)
}

// share makes a listener of loop l on the same socket.
func (ln *Listener) share(l *engine.Loop) (*Listener, error) {
	fd, err := unix.FcntlInt(uintptr(ln.d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, ln.opError("accept", "fcntl", err)
	}
	ln.d.flags.Or(flagShared)
	c := &Listener{network: ln.network, local: ln.local, family: ln.family, cfg: ln.cfg, copied: true}
	if err := c.begin(fd, l, ln.sharedFlags()); err != nil {
		unix.Close(fd)
		return nil, ln.opError("accept", "", err)
	}
	return c, nil
}

// dropClones closes the clones. If the calling task's context has ended, closing does
// not wait for their accept tasks, so their sockets are made to stop listening first:
// the next connection is to go to ln.
func (ln *Listener) dropClones(each []*Listener) {
	for _, c := range each {
		if c == nil || c == ln {
			continue
		}
		ln.mu.Lock()
		delete(ln.clones, c)
		ln.mu.Unlock()
		if c.d.flags.Load()&flagShared == 0 && c.d.use() == nil {
			sys.Shutdown(int(c.d.fd), unix.SHUT_RDWR)
			c.d.unuse()
		}
		c.d.close()
	}
}

// acceptLoop is the accept task of one loop, on l, which is ln or a clone of it.
func (ln *Listener) acceptLoop(l *Listener, take func(*Conn)) error {
	loop := engine.CurrentLoop()
	forNewWork := loop.ForNewWork
	var pause time.Duration
	for {
		c, err := l.accept(forNewWork)
		switch {
		case err == nil:
			pause = 0
			if c.d.loop == loop {
				take(c)
			} else {
				passOn(c, take)
			}
		case lasting(err):
			err = ln.acceptError(err)
			if !errors.Is(err, net.ErrClosed) && engine.Err() == nil && (l == ln || ln.keeps(l)) {
				ln.Close()
			}
			return err
		default:
			if err := ln.pauseAfter(err, &pause); err != nil {
				return err
			}
		}
	}
}

// passOn has a task on the loop of c take it, and waits until it has: so no more connections are accepted ahead than
// otherwise.
func passOn(c *Conn, take func(*Conn)) {
	t, err := c.d.loop.Runtime().Spawn(engine.Options{Loop: c.d.loop}, func() { take(c) })
	if err != nil {
		c.Close()
		return
	}
	t.Join() // cancelled or not, the next accept knows
}

// Bounds of the pause after a temporary error, which are those of net/http: most likely the process has run out of
// descriptors or memory. A shorter pause takes processor time from the tasks that would free some, a longer pause keeps
// clients waiting.
const (
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// longer is the pause after one of d; 0: the first.
func longer(d time.Duration) time.Duration { return min(max(2*d, minPause), maxPause) }

// pauseAfter reports a temporary error and pauses, for longer than the last time. The error is that of pause.
func (ln *Listener) pauseAfter(err error, last *time.Duration) error {
	ln.reportAccept(err)
	*last = longer(*last)
	return ln.pause(*last)
}

// pause parks for d, or until ln is closed, and then returns net.ErrClosed.
func (ln *Listener) pause(d time.Duration) error {
	switch i, err := task.Select(task.DoneCase(ln.untilClosed()), task.AfterCase(d)); i {
	case 0:
		return ln.acceptError(net.ErrClosed)
	case 1:
		return nil
	default:
		return ln.acceptError(&contextError{err})
	}
}

// acceptReportEvery is how often failures of a listener's accept loops are logged at most.
const acceptReportEvery = 10 * time.Second

// reportAccept logs a failure of one of the accept loops, unless there was one a little while ago.
func (ln *Listener) reportAccept(err error) {
	now := time.Now()
	ln.mu.Lock()
	seldom := ln.reported.IsZero() || now.Sub(ln.reported) >= acceptReportEvery
	unreported := ln.silent
	if ln.silent++; seldom {
		ln.reported, ln.silent = now, 0
	}
	ln.mu.Unlock()
	if !seldom {
		return
	}
	log := ln.cfg.Log
	if log == nil {
		log = ln.d.loop.Runtime().Log()
	}
	log.Warn("netpoll: accept fails for now, pausing", "listener", ln.Addr().String(), "error", err, "unreported", unreported)
}
