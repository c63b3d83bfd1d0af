//go:build linux

package netpoll

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// runtimePollerWatch reports whether plain goroutines wait for events in the Go runtime's poller: for data on a
// connection of package net, say. While a loop waits in a raw system call, which keeps its P, that poller may not be
// asked (see engine.Rester). The kernel lists what an epoll(7) watches (proc_pid_fdinfo(5)), and the Go runtime's
// poller is one. Loop-private.
type runtimePollerWatch struct {
	poller int           // the Go runtime's; 0: not known, and plain goroutines are taken to wait there
	until  time.Duration // the time of the clock up to which alone counts
	pause  time.Duration // from the last look to until; 0: there was no look
	slow   bool          // the last look took long
	alone  bool
}

// aloneFor is how long the result of a look counts: for so long, data of a new connection of a plain goroutine may wait
// for the end of raw waits. Where plain goroutines wait, the result counts longer each time, up to othersFor, as the
// kernel lists every descriptor at each look.
const (
	aloneFor  = 200 * time.Millisecond
	othersFor = 10 * time.Second
	// A second look in a row that takes longer than lookMost is followed by a pause lookShare times as long, up to
	// rarestLook. The kernel takes 2 µs for each descriptor in the poller, and the poller can't be used meanwhile.
	lookMost   = time.Millisecond
	lookShare  = 1000
	rarestLook = 5 * time.Minute
)

// fewFDs is how many descriptors of the process are searched for the Go runtime's poller.
const fewFDs = 1000

// goPoller is the Go runtime's poller, once it has been found; it never changes.
var goPoller atomic.Int64

// findGoPoller returns the Go runtime's poller, in which set is, or 0.
func findGoPoller(set int) int {
	if goPoller.Load() == 0 {
		goPoller.Store(int64(pollerThatWatches(set)))
	}
	return int(goPoller.Load())
}

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
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		eachWatched(fd, func(watched int) bool {
			if watched == set {
				poller = fd
			}
			return poller == 0
		})
		if poller != 0 {
			break
		}
	}
	return poller
}

// Alone implements engine.Rester.
func (p *epoll) Alone(now time.Duration, clock engine.Clock) bool {
	c := &p.rest.pollerWatch
	if c.poller != 0 && (c.pause == 0 || now >= c.until) {
		before := c.pause
		c.alone = !watchesOthers(c.poller)
		if c.pause = aloneFor; !c.alone {
			c.pause = min(max(2*before, aloneFor), othersFor)
		}
		after := clock.Now()
		took, again := after-now, c.slow
		c.slow = took > lookMost
		if c.slow && again { // a single slow look may be due to another thread on the processor
			// Plain goroutines may come to wait during so long a pause.
			c.alone, c.pause = false, max(c.pause, min(took*lookShare, rarestLook))
		}
		c.until = after + c.pause
	}
	return c.alone
}

// watchesOthers reports whether an epoll watches a connection, a pipe or a device. Anything else, from listeners to timers,
// can be late by a millisecond or two.
func watchesOthers(poller int) (others bool) {
	whole := eachWatched(poller, func(fd int) bool {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil { // it is being closed
			return true
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFIFO, unix.S_IFCHR: // of the latter tun(4), say
			others = true
		case unix.S_IFSOCK:
			listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
			others = err != nil || listens == 0
		}
		return !others
	})
	return others || !whole
}

// eachWatched calls fn with each descriptor that an epoll watches, until it returns false. It returns false if the
// kernel's list could not be read to its end.
func eachWatched(poller int, fn func(fd int) bool) bool {
	info, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(poller))
	if err != nil {
		return false
	}
	defer info.Close()
	lines := bufio.NewScanner(info)
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "tfd:")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(strings.TrimLeft(value, " "), " ")
		watched, err := strconv.Atoi(number)
		if err != nil {
			return false
		}
		if !fn(watched) {
			return true
		}
	}
	return lines.Err() == nil
}
