//go:build linux

package netpoll

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

func openedResting(t *testing.T) restingEpoll {
	t.Helper()
	p := need(newResting())(t)
	t.Cleanup(func() { must(t, p.Close()) })
	return p.(restingEpoll)
}

// A rest is one, and what comes while the loop does not rest is no event for the Go runtime.
func TestRestIsTheGoRuntimes(t *testing.T) {
	const rest = 3 * restSlack
	p := openedResting(t)
	for range 3 {
		start := time.Now()
		must(t, p.Poll(rest))
		testenv.AtLeast(t, time.Since(start), rest-restSlack, "a rest of %v was over after", rest)
		must(t, p.Wake())
		must(t, p.Poll(-1))
		testenv.True(t, p.rest.conn != nil && !p.rest.armed, "it works: %v, is armed: %v; want true, false", p.rest.conn != nil, p.rest.armed)
		var events [1]unix.EpollEvent
		must(t, p.Wake())
		testenv.Got(unix.EpollWait(p.rest.set, events[:], 0))(t, 0, "outside of a rest the set has N events ()")
		must(t, p.Poll(-1))
	}
}

// An event that comes when a rest has just ended by its deadline is there, and the next one is told, too.
func TestRestEndsAsAnEventComes(t *testing.T) {
	p := openedResting(t)
	idle, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	defer idle.Close()
	r := &p.rest
	for range 3 {
		r.armed = r.modify(p.fd, unix.EPOLLIN|unix.EPOLLONESHOT)
		must(t, p.Wake())
		// The Go runtime is told of it while this goroutine waits for something else.
		idle.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		r.n, r.e = 0, 0
		if r.disarm(p.epoll); r.n != 1 || r.e != 0 {
			t.Fatalf("%d events (%v), want 1", r.n, r.e)
		}
		p.waker.taken()
		must(t, p.Wake())
		start := time.Now()
		must(t, p.Poll(10*time.Second))
		testenv.AtMost(t, time.Since(start), 5*time.Second, "the next event was told after")
	}
}

// One more than maxResters waits as it does otherwise, until another is closed.
func TestMostResters(t *testing.T) {
	first := openedResting(t)
	others := maxResters - resters.Load()
	resters.Add(others)
	defer resters.Add(-others)
	p := openedResting(t)
	testenv.True(t, p.rest.conn == nil, "%d rest", maxResters+1)
	first.rest.close()
	if p := openedResting(t); p.rest.conn == nil {
		t.Errorf("%d do not rest", maxResters)
	}
}

// Where it can't be had, or stops to work, the loop waits as it does otherwise.
func TestRestRefused(t *testing.T) {
	const rest = 3 * restSlack
	for name, spoil := range map[string]func(p restingEpoll){
		"from the start":     func(p restingEpoll) { p.rest.conn = nil },
		"the file is closed": func(p restingEpoll) { p.rest.file.Close() },
		"it can't be armed":  func(p restingEpoll) { sys.EpollDelete(p.rest.set, p.fd) },
	} {
		t.Run(name, func(t *testing.T) {
			p := openedResting(t)
			must(t, p.Poll(rest))
			spoil(p)
			for range 2 {
				must(t, p.Poll(rest))
				must(t, p.Wake())
				must(t, p.Poll(-1))
			}
			testenv.True(t, p.rest.conn == nil, "it goes on trying")
		})
	}
}

// hold holds for as long, and says whether that ended for a plain goroutine.
func hold(t *testing.T, p restingEpoll, timeout time.Duration) (others bool) {
	t.Helper()
	others, err := p.Hold(timeout)
	must(t, err)
	return others
}

// openedWatching opens a poller that watches the Go runtime's, which another of this process may do already.
func openedWatching(t *testing.T) restingEpoll {
	t.Helper()
	before := watcher.exists.Swap(false)
	t.Cleanup(func() { watcher.exists.Store(before) })
	p := openedResting(t)
	if p.rest.goPoller.both == 0 {
		t.Skip("the Go runtime's poller is not to be found in /proc, or the kernel lacks epoll_pwait2")
	}
	return p
}

// A Hold ends with an event, a wake, its timeout, or a signal, as which the Go runtime asks for the processor; and it is
// one: until then no other goroutine runs on the only processor.
func TestHold(t *testing.T) {
	for name, opened := range map[string]func(*testing.T) restingEpoll{"watching": openedWatching, "not watching": openedResting} {
		t.Run(name, func(t *testing.T) {
			procs := runtime.GOMAXPROCS(1)
			defer runtime.GOMAXPROCS(procs)
			p := opened(t)
			const brief = 100 * time.Microsecond
			for whole := 0; whole < 3; {
				var ran atomic.Bool
				go ran.Store(true)
				start := time.Now()
				hold(t, p, brief)
				if p.noPwait2 {
					t.Skip("the kernel lacks epoll_pwait2")
				}
				took, others := time.Since(start), ran.Load()
				for !ran.Load() {
					runtime.Gosched()
				}
				if took >= brief && !others {
					whole++
				}
			}
			must(t, p.Wake())
			start := time.Now()
			testenv.Equal(t, hold(t, p, time.Minute), false, "woken by Wake, it ends for a plain goroutine")
			testenv.AtMost(t, time.Since(start), 10*time.Second, "a hold that is woken was over after")
		})
	}
}

// An event that a plain goroutine waits for ends a Hold, once, and a Rest lets that goroutine go on.
func TestHoldEndsForAPlainGoroutine(t *testing.T) {
	procs := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(procs)
	p := openedWatching(t)
	timer := need(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK))(t)
	f := os.NewFile(uintptr(timer), "timer")
	defer f.Close()
	must(t, p.Poll(3*restSlack)) // after which no thread without a processor is left in the Go runtime's poller
	for range 3 {
		read := make(chan error)
		go func() {
			_, err := f.Read(make([]byte, 8))
			read <- err
		}()
		runtime.Gosched() // which lets it begin to wait
		in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(2 * time.Millisecond))}
		must(t, unix.TimerfdSettime(timer, 0, &in, nil))
		ended := false
		for range 100 { // a signal may end it, too
			ended = ended || hold(t, p, 2*time.Second)
		}
		testenv.Equal(t, ended, true, "a hold has ended for a plain goroutine")
		must(t, p.Poll(3*restSlack))
		must(t, <-read)
		testenv.Equal(t, hold(t, p, time.Millisecond), false, "after that it ends for a plain goroutine")
	}
}

// One loop of a process watches the Go runtime's poller, until it is closed. The others may hold while it waits.
func TestOneLoopWatches(t *testing.T) {
	p, q := openedWatching(t), openedResting(t)
	mayHold := func(want bool, when string) {
		t.Helper()
		testenv.Equal(t, p.MayHold(), true, when+": the one that watches may hold")
		testenv.Equal(t, q.MayHold(), want, when+": another may hold")
	}
	mayHold(false, "before the first waits")
	p.rest.goPoller.waits(true)
	mayHold(true, "while it waits")
	must(t, p.Poll(3*restSlack))
	hold(t, p, time.Microsecond)
	mayHold(false, "after it has waited")
	p.rest.close()
	testenv.Equal(t, q.MayHold(), false, "with none that watches: another may hold")
	testenv.Equal(t, openedResting(t).rest.goPoller.both != 0, true, "the next one watches")
}

// All loops that can rest may accept from one listener.
func TestAllRestersShareAListener(t *testing.T) {
	ln := need(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer sys.Close(ln)
	first := openedWatching(t)
	for p := first; p.rest.conn != nil; p = openedResting(t) {
		ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
		must(t, sys.EpollAdd(p.fd, ln, &ev))
	}
	testenv.Equal(t, resters.Load(), int32(maxResters), "resters")
}

func TestPollerThatWatches(t *testing.T) {
	p := openedWatching(t)
	testenv.Equal(t, pollerThatWatches(p.fd), p.rest.set, "the poller that watches the loop's")
	testenv.Equal(t, pollerThatWatches(1<<30), 0, "the poller that watches nothing")
}
