//go:build linux

package netpoll

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// A goPollerWatch lets a loop keep its processor while it waits, and yet ends the wait when the Go runtime's poller has
// an event for a plain goroutine. That poller is an epoll(7) as the loop's is, so a third can watch the two:
//
//	both ─┬─▶ p.fd ──▶ descriptors of the loop
//	      └─▶ the Go runtime's epoll ──▶ descriptors of plain goroutines, and the sets of loops that rest
//
// One loop of the process watches, as an event wakes each that does. The others may keep their processors as long as
// that one waits. Loop-private.
type goPollerWatch struct {
	both   int  // epoll(7); 0: another loop watches, or none can
	others bool // the last wait has ended with an event for a plain goroutine
}

// watcher is the loop of the process that watches the Go runtime's poller.
var watcher struct {
	exists atomic.Bool
	waits  atomic.Bool // in both or, as it rests, in the Go runtime's poller
}

// The data of the two events of both.
const (
	ownEvent = 1 + iota
	goEvent
)

// open makes the loop of p the one that watches, if there is none. set is a descriptor in the Go runtime's poller.
func (w *goPollerWatch) open(p *epoll, set int) {
	if !watcher.exists.CompareAndSwap(false, true) {
		return
	}
	both, err := sys.EpollCreate()
	if err == nil {
		own := unix.EpollEvent{Events: unix.EPOLLIN, Fd: ownEvent}
		// Edge triggered: what the Go runtime has not taken by then is told once.
		others := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: goEvent}
		w.both = both
		goPoller := pollerThatWatches(set)
		if goPoller != 0 && sys.EpollAdd(both, p.fd, &own) == nil && sys.EpollAdd(both, goPoller, &others) == nil && w.wait(0) == 0 {
			return
		}
		w.both = 0
		sys.Close(both)
	}
	watcher.exists.Store(false)
}

func (w *goPollerWatch) close() {
	if w.both != 0 {
		sys.Close(w.both)
		w.both = 0
		watcher.exists.Store(false)
	}
}

// waits notes that the loop begins or ends to wait.
func (w *goPollerWatch) waits(now bool) {
	if w.both != 0 {
		watcher.waits.Store(now)
	}
}

// MayHold implements engine.Rester.
func (p *epoll) MayHold() bool { return p.rest.goPoller.both != 0 || watcher.waits.Load() }

// wait waits until one of the two pollers has an event, and does not tell the Go runtime.
func (w *goPollerWatch) wait(timeout time.Duration) syscall.Errno {
	var events [2]unix.EpollEvent
	ts := unix.NsecToTimespec(int64(timeout))
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(w.both), uintptr(unsafe.Pointer(&events)), uintptr(len(events)),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if e != 0 {
		return e
	}
	for _, ev := range events[:n] {
		w.others = w.others || ev.Fd == goEvent
	}
	return 0
}

// fewFDs is how many descriptors a process has at most among which the Go runtime's poller is looked for.
const fewFDs = 1000

// pollerThatWatches returns the epoll(7) of this process in which set is, or 0.
func pollerThatWatches(set int) (poller int) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	names, _ := dir.Readdirnames(fewFDs)
	dir.Close()
	for _, name := range names {
		if target, err := os.Readlink("/proc/self/fd/" + name); err != nil || target != "anon_inode:[eventpoll]" {
			continue
		}
		if fd, err := strconv.Atoi(name); err == nil && watches(fd, set) {
			return fd
		}
	}
	return 0
}

// watches reports whether an epoll(7) watches set, by proc_pid_fdinfo(5).
func watches(poller, set int) bool {
	info, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(poller))
	if err != nil {
		return false
	}
	defer info.Close()
	for lines := bufio.NewScanner(info); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "tfd:")
		number, _, _ := strings.Cut(strings.TrimLeft(value, " "), " ")
		if ok && number == strconv.Itoa(set) {
			return true
		}
	}
	return false
}
