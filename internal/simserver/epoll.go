//go:build linux

package simserver

import (
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A pollable is what a descriptor has to be put into an epoll set. Guarded by World.mu.
type pollable struct{ items []*item }

// A polled is what can be put into a set.
type polled interface {
	inSets() *pollable
	level() uint32 // what poll(2) would say
}

// An item is a descriptor in an epoll set, edge triggered: it is in the set's ready list
// from an edge until the set has reported it.
type item struct {
	set    *epollSet
	event  unix.EpollEvent
	of     polled
	listed bool
	gone   bool
}

// An epollSet is waited for by one loop.
type epollSet struct {
	n     *Network
	cpu   *cpu
	ready []*item
	all   []*item           // for events that are none; in the order of their coming
	old   []unix.EpollEvent // of descriptors that have been closed
}

// changed is an edge.
func (p *pollable) changed() {
	for _, i := range p.items {
		i.edge()
	}
}

func (i *item) edge() {
	if !i.listed && !i.gone {
		i.listed = true
		i.set.ready = append(i.set.ready, i)
	}
	if i.listed {
		i.set.n.w.wake(i.set.cpu)
	}
}

const keptOld = 16

func (i *item) leave() {
	i.gone = true
	s := i.set
	if k := slices.Index(s.all, i); k >= 0 {
		s.all[k] = s.all[len(s.all)-1]
		s.all = s.all[:len(s.all)-1]
	}
	if len(s.old) < keptOld {
		s.old = append(s.old, i.event)
	} else {
		s.old[s.n.w.draw().IntN(keptOld)] = i.event
	}
}

func (p *pollable) leaveSets() {
	for _, i := range p.items {
		i.leave()
	}
	p.items = nil
}

type eventfd struct {
	pollable
	count uint64
}

func (e *eventfd) level() uint32 {
	if e.count > 0 {
		return unix.EPOLLIN
	}
	return 0
}

func (n *Network) Eventfd() (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	fd, e := n.open(&eventfd{})
	return uintptr(fd), e
}

func (n *Network) EventfdWrite(fd int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	f, ok := n.fds[fd].(*eventfd)
	if !ok {
		return unix.EBADF
	}
	if n.interrupted() {
		return unix.EINTR
	}
	n.w.charge(costPoll)
	f.count++
	f.changed()
	return 0
}

func (n *Network) EpollCreate() (uintptr, syscall.Errno) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	c := &cpu{index: len(n.w.cpus), resume: make(chan struct{})}
	fd, e := n.open(&epollSet{n: n, cpu: c})
	if e == 0 {
		n.w.cpus = append(n.w.cpus, c)
	}
	return uintptr(fd), e
}

func (n *Network) EpollAdd(set, fd int, event unix.EpollEvent) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s, ok := n.fds[set].(*epollSet)
	if !ok {
		return unix.EBADF
	}
	n.w.charge(costSmall)
	of, ok := n.fds[fd].(polled)
	if !ok {
		return unix.EBADF
	}
	i := &item{set: s, event: event, of: of}
	of.inSets().items = append(of.inSets().items, i)
	s.all = append(s.all, i)
	if i.of.level()&event.Events != 0 {
		i.edge()
	}
	return 0
}

func (n *Network) EpollDelete(set, fd int) syscall.Errno {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s, ok := n.fds[set].(*epollSet)
	p, pok := n.fds[fd].(polled)
	if !ok || !pok {
		return unix.EBADF
	}
	for k, i := range p.inSets().items {
		if i.set == s {
			i.leave()
			p.inSets().items = slices.Delete(p.inSets().items, k, k+1)
			return 0
		}
	}
	return unix.ENOENT
}

func (p *pollable) inSets() *pollable { return p }

func (n *Network) EpollWait(set int, events []unix.EpollEvent, timeout time.Duration) (uintptr, syscall.Errno) {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := n.fds[set].(*epollSet)
	if !ok {
		return 0, unix.EBADF
	}
	c := s.cpu
	if w.running == nil { // the loop starts, beside others
		w.wait(c, timeout)
		return uintptr(s.take(events)), 0
	}
	w.charge(costPoll)
	if time.Duration(w.clock.Load())-c.since > quantum {
		w.pay(c)
	}
	if k := s.take(events); k > 0 || timeout == 0 {
		return uintptr(k), 0
	}
	if n.interrupted() {
		return 0, unix.EINTR
	}
	if n.chance(n.faults.Spurious) {
		return 0, 0 // early
	}
	w.wait(c, timeout)
	if n.chance(n.faults.Steal) {
		w.charge(time.Duration(w.draw().ExpFloat64() * float64(time.Millisecond)))
	}
	return uintptr(s.take(events)), 0
}

// take reports what is ready, as many as fit.
func (s *epollSet) take(events []unix.EpollEvent) int {
	n, w := s.n, s.n.w
	if len(s.all) > 0 && n.chance(n.faults.Spurious) {
		i := s.all[w.draw().IntN(len(s.all))]
		if i.event.Fd != 0 || i.event.Pad != 0 { // not the waker's
			events[0] = i.event
			events[0].Events &= unix.EPOLLIN | unix.EPOLLOUT
			return 1
		}
	}
	if len(s.old) > 0 && n.chance(n.faults.Stale) {
		events[0] = s.old[w.draw().IntN(len(s.old))]
		events[0].Events &= unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLHUP
		return 1
	}
	k, done := 0, 0
	for _, i := range s.ready {
		if k == len(events) {
			break
		}
		done++
		i.listed = false
		level := i.of.level() & (i.event.Events | unix.EPOLLERR | unix.EPOLLHUP)
		if i.gone || level == 0 {
			continue
		}
		events[k] = i.event
		events[k].Events = level
		k++
		w.charge(50 * time.Nanosecond)
	}
	s.ready = s.ready[:copy(s.ready, s.ready[done:])]
	return k
}
