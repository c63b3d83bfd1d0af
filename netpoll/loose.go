//go:build linux

package netpoll

import (
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// A descriptor is loose while its events come through looseSet, which belongs to the
// process, and not through the poller of its loop: a task may hold that loop in a native
// wait, for the very goroutine that waits here.
//
//	       a plain goroutine waits: loosen
//	      ┌───────────────────────────────────▶ loose
//	bound ◀───────────────────────────────────┘
//	       a task of the loop waits, and no plain goroutine does: bind
//
// Its deadlines then are timers of the Go runtime, and no loop owns its slots: the attempts
// of the loop's tasks are like those of other callers (see slot and desc.own).
//
// No event gets lost in between. A task that waits publishes its Waiter first and looks
// after that where the descriptor is; and both sets report what is there already when a
// descriptor is added. An attempt of a task of the loop that began before the descriptor
// got loose may wipe out what an event of looseSet says; so it looks afterwards whether
// that can have happened, see desc.exhausted. Loosening stores flagLoose before it adds
// the descriptor to the set.
//
// The caller that waits and the one that binds see each other by a Dekker handshake, too: the first stores its bit
// (flagPlainReads, flagPlainWrites) and loads flagLoose; the second clears flagLoose and loads the bits, and puts
// flagLoose back if one is set.

// A looseSet is an epoll set with a goroutine that waits for it in the Go runtime's own
// poller, so that no thread is held. There is one in the process, for as long as there are
// pollers; it is made when it is first needed.
type looseSet struct {
	mu         sync.Mutex
	pollers    int                  // guarded by mu: pollers that are not closed
	file       *os.File             // guarded by mu: of the epoll descriptor, nil: none
	fd         int                  // guarded by mu
	descs      map[int32]looseEntry // guarded by mu: by descriptor number
	generation uint32               // guarded by mu: of the entry last made
	done       chan struct{}        // guarded by mu: closed when the goroutine has ended
}

// A looseEntry tells events of a descriptor from those of an earlier one with its number.
type looseEntry struct {
	d          *desc
	generation uint32
}

// loose is of the process: it serves plain goroutines, which have no runtime.
var loose looseSet

// opened counts a poller that has been made.
func (s *looseSet) opened() {
	s.mu.Lock()
	s.pollers++
	s.mu.Unlock()
}

// closed is called when a poller has closed its descriptors. The last one closes the set.
func (s *looseSet) closed() {
	s.mu.Lock()
	s.pollers--
	file, done := s.file, s.done
	if s.pollers > 0 || file == nil {
		s.mu.Unlock()
		return
	}
	s.file, s.descs = nil, nil
	s.mu.Unlock()
	file.Close()
	<-done
}

// open makes the set and starts its goroutine. Caller holds mu.
func (s *looseSet) open() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that package os has the Go runtime poll it
		unix.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "epoll set of plain goroutines")
	raw, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return err
	}
	s.file, s.fd, s.done = file, fd, make(chan struct{})
	s.descs = make(map[int32]looseEntry)
	go s.run(raw, s.done)
	return nil
}

// run delivers events until the set is closed.
func (s *looseSet) run(raw syscall.RawConn, done chan struct{}) {
	defer close(done)
	var events [maxLooseEvents]unix.EpollEvent
	raw.Read(func(fd uintptr) bool {
		for {
			n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&events[0])), maxLooseEvents, 0, 0, 0)
			if e != 0 && e != unix.EINTR {
				return false // not expected; the next event tries again
			}
			if e == 0 {
				s.deliver(events[:n])
			}
			if e == 0 && n < maxLooseEvents {
				return false
			}
		}
	})
}

// maxLooseEvents is how many events are taken at once; the kernel keeps the rest.
const maxLooseEvents = 128

func (s *looseSet) deliver(events []unix.EpollEvent) {
	var found [maxLooseEvents]*desc
	s.mu.Lock()
	for i := range events {
		if e := s.descs[events[i].Fd]; e.generation == uint32(events[i].Pad) {
			found[i] = e.d
		}
	}
	s.mu.Unlock()
	for i, d := range found[:len(events)] {
		if d != nil {
			d.deliverLoose(readiness(events[i].Events))
		}
	}
}

// deliverLoose is deliver for an event of looseSet.
func (d *desc) deliverLoose(in, out bool, news uint32) {
	d.flags.Or(news)
	if news&flagHangup != 0 {
		if d.flags.Load()&flagEnters != 0 {
			d.loop.Post(d.hook.ticket.Hangup)
		}
		d.tellHangup()
	}
	if in {
		d.take(d.read.event(), news&flagHangup != 0)
	}
	if out {
		d.take(d.write.event(), false)
	}
}

// take wakes or runs what slot.event has returned, off the loop.
func (d *desc) take(w *engine.Waiter, hangup bool) {
	switch w {
	case nil:
	case hooked:
		fn, e := d.takeHook()
		if e != nil && hangup && d.over() {
			e = nil
		}
		d.startHook(e, fn)
	default:
		w.Wake()
	}
}

// add has the set report what d is ready for, now and later.
func (s *looseSet) add(d *desc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pollers == 0 {
		return errPollerClosed
	}
	if s.file == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	s.generation++
	s.descs[d.fd] = looseEntry{d, s.generation}
	ev := unix.EpollEvent{Events: epollEvents(d), Fd: d.fd, Pad: int32(s.generation)}
	if err := unix.EpollCtl(s.fd, unix.EPOLL_CTL_ADD, int(d.fd), &ev); err != nil {
		delete(s.descs, d.fd)
		return os.NewSyscallError("epoll_ctl", err)
	}
	return nil
}

// remove ends what add began. An event already taken may still be delivered: a false alarm.
func (s *looseSet) remove(d *desc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.descs[d.fd].d != d {
		return
	}
	delete(s.descs, d.fd)
	unix.EpollCtl(s.fd, unix.EPOLL_CTL_DEL, int(d.fd), nil)
}

// looseFromStart makes d, which a plain goroutine is about to register, loose: most likely plain goroutines will use
// it.
func (d *desc) looseFromStart() {
	if engine.CurrentLoop() == nil && kernel.Net == nil {
		d.flags.Or(flagLoose)
	}
}

// startLoose has looseSet serve d if d is to be loose from the start, and reports whether it does. Its caller holds the
// lock of the poller's table, so that the poller can't close d before it is in both.
func (d *desc) startLoose() bool {
	if d.flags.Load()&flagLoose == 0 {
		return false
	}
	if loose.add(d) == nil {
		return true
	}
	d.flags.And(^uint32(flagLoose))
	return false
}

// loosen makes d loose, after the caller, a plain goroutine, has published its Waiter. It returns false if that is not
// possible; then the loop serves d.
func (d *desc) loosen() bool {
	if d.flags.Load()&flagLoose != 0 {
		return true
	}
	if kernel.Net != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flags.Load()&(flagLoose|flagClosing) != 0 {
		return true // or Close has woken the caller, or is about to
	}
	d.flags.Or(flagLoose)
	if d.poller.leave(d) {
		if loose.add(d) == nil {
			d.rearmDeadline()
			return true
		}
		d.flags.And(^uint32(flagLoose))
		d.poller.enter(d)
		return false
	}
	d.flags.And(^uint32(flagLoose))
	return false
}

// bind gives d back to its loop, unless plain goroutines wait on it. Own loop only, after the waiter has been
// published. It reports whether d is bound.
func (d *desc) bind() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flags.And(^uint32(flagLoose))
	if d.flags.Load()&(flagPlainReads|flagPlainWrites|flagClosing) != 0 {
		d.flags.Or(flagLoose)
		return false
	}
	loose.remove(d)
	if d.poller.enter(d) != nil {
		d.flags.Or(flagLoose)
		if d.poller.leave(d) {
			loose.add(d) // it was there a moment ago
		}
		return false
	}
	d.rearmDeadline()
	return true
}

// rearm makes sure that a waiter published just now, off the loop or with requests to be
// made for it, gets its event.
func (d *desc) rearm() {
	if d.flags.Load()&flagLoose != 0 && (!d.loop.Runs() || !d.bind()) {
		return
	}
	d.poller.rearm(d)
}

// waitPlain is wait for a plain goroutine, with its Waiter w.
func (d *desc) waitPlain(w *engine.Waiter, s *slot, expired uint32, why engine.Reason) error {
	waits := uint32(flagPlainReads)
	if s == &d.write {
		waits = flagPlainWrites
	}
	d.flags.Or(waits)
	defer d.flags.And(^waits)
	if !s.p.CompareAndSwap(drained, w) {
		if p := s.p.Load(); p == hooked || p == unhooking {
			return ErrBusy
		}
		s.begin(false)
		return nil
	}
	// Published: from here on a deadline, a Close or the end of the runtime finds w; look for earlier ones.
	if err := d.failedPlain(expired); err != nil && s.withdraw(w) {
		return err
	}
	if !d.loosen() {
		d.poller.rearm(d)
	}
	w.Wait(why, nil)
	err := d.failedPlain(expired)
	if err != nil {
		s.more()
	}
	return err
}

// failedPlain is failed for a plain goroutine, whose waits the end of the runtime ends too.
func (d *desc) failedPlain(expired uint32) error {
	err := d.failed(expired)
	if err == nil && d.flags.Load()&flagForTasks != 0 {
		return net.ErrClosed
	}
	return err
}

// interruptPlain ends the wait of a plain goroutine, and those to come.
func (d *desc) interruptPlain() {
	d.flags.Or(flagForTasks)
	f := d.flags.Load()
	for _, x := range [...]struct {
		waits uint32
		s     *slot
	}{{flagPlainReads, &d.read}, {flagPlainWrites, &d.write}} {
		// A task that has come to wait there instead finds nothing, and waits again.
		if w := x.s.p.Load(); f&x.waits != 0 && isWaiter(w) && x.s.withdraw(w) {
			w.Wake()
		}
	}
}
