//go:build linux

package netpoll

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
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

var _ engine.Rester = (*epoll)(nil)

// A Hold ends with an event, a wake, its timeout, or a signal, as which the Go runtime asks for the processor; and it is
// one: until then no other goroutine runs on the only processor.
func TestHold(t *testing.T) {
	procs := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(procs)
	poller := need(newEpoll())(t)
	defer func() { must(t, poller.Close()) }()
	p := poller.(*epoll)
	const hold = 100 * time.Microsecond
	for whole := 0; whole < 3; {
		var ran atomic.Bool
		go ran.Store(true)
		start := time.Now()
		must(t, p.Hold(hold))
		if p.noPwait2 {
			t.Skip("the kernel lacks epoll_pwait2")
		}
		took, others := time.Since(start), ran.Load()
		for !ran.Load() {
			runtime.Gosched()
		}
		if took >= hold && !others {
			whole++
		}
	}
	must(t, p.Wake())
	start := time.Now()
	must(t, p.Hold(time.Minute))
	testenv.AtMost(t, time.Since(start), 10*time.Second, "a hold that is woken was over after")
}

// A loop is not alone if plain goroutines may get data at any time.
func TestWatchesOthers(t *testing.T) {
	poller := need(sys.EpollCreate())(t)
	defer sys.Close(poller)
	watch := func(fd int) {
		t.Helper()
		ev := unix.EpollEvent{Events: unix.EPOLLIN}
		must(t, sys.EpollAdd(poller, fd, &ev))
	}
	for range 200 { // more than fit into one reading of what the kernel tells
		fd := need(unix.Eventfd(0, unix.EFD_CLOEXEC))(t)
		defer sys.Close(fd)
		watch(fd)
	}
	timer := need(unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC))(t)
	defer sys.Close(timer)
	watch(timer)
	listener := need(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer sys.Close(listener)
	must(t, unix.Bind(listener, &unix.SockaddrUnix{}))
	must(t, unix.Listen(listener, 1))
	watch(listener)
	testenv.Equal(t, watchesOthers(poller), false, "with what can be late: it watches others")
	pair := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var pipe [2]int
	must(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	for what, fd := range map[string]int{"a connection": pair[0], "a pipe": pipe[0]} {
		watch(fd)
		testenv.Equal(t, watchesOthers(poller), true, "with "+what+": it watches others")
		must(t, unix.EpollCtl(poller, unix.EPOLL_CTL_DEL, fd, nil))
	}
	testenv.Equal(t, watchesOthers(poller), false, "without them: it watches others")
	for _, fd := range []int{pair[0], pair[1], pipe[0], pipe[1]} {
		sys.Close(fd)
	}
	testenv.Equal(t, watchesOthers(listener), false, "what is no poller watches others")
	testenv.Equal(t, watchesOthers(1<<30), true, "what can't be looked at watches others")
}

// aloneChild is a process that has nothing but the poller of a loop.
const aloneChild = "alone"

func TestAloneInAProcess(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+aloneChild)
	out := need(child.Output())(t)
	want := eachWatched(openedResting(t).fd, func(int) bool { return true }) // else /proc does not tell
	testenv.Equal(t, string(out), strconv.FormatBool(want), "alone")
}

// The Go runtime's poller is found, and a connection of package net in it; one look is good for a while.
func TestAlone(t *testing.T) {
	p := openedResting(t)
	c := &p.rest.pollerWatch
	alone := func(p *epoll, now time.Duration) bool { return p.Alone(now, &ticks{now: now}) }
	if !eachWatched(p.fd, func(int) bool { return true }) {
		t.Skip("/proc does not tell what a poller watches")
	}
	ln := need(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	nc := need(net.Dial("tcp", ln.Addr().String()))(t)
	defer nc.Close()
	testenv.Equal(t, alone(p.epoll, 5), false, "beside a connection: alone")
	c.alone = true
	testenv.Equal(t, alone(p.epoll, 5+aloneFor-1), true, "before the next look: alone")
	testenv.Equal(t, alone(p.epoll, 5+aloneFor), false, "then: alone")
	c.alone = true
	testenv.Equal(t, alone(p.epoll, 5+3*aloneFor-1), true, "before the one after, for which it waits longer: alone")
	testenv.Equal(t, alone(p.epoll, 5+3*aloneFor), false, "then: alone")
	testenv.Equal(t, pollerThatWatches(p.rest.set), c.poller, "the poller that watches the set of a loop")
	testenv.Equal(t, pollerThatWatches(p.fd), p.rest.set, "the poller that watches the loop's")
	testenv.Equal(t, pollerThatWatches(1<<30), 0, "the poller that watches nothing")
	q := &epoll{}
	testenv.Equal(t, alone(q, time.Hour), false, "with a poller that is not known: alone")
}

// ticks is a clock that goes on by step with each reading.
type ticks struct{ now, step time.Duration }

func (c *ticks) Now() time.Duration {
	c.now += c.step
	return c.now
}

// What is expensive to look at is looked at rarely: the kernel holds up the Go runtime's poller meanwhile. But a look may also
// have taken long as another thread had the processor.
func TestLooksThatTakeLong(t *testing.T) {
	p := openedResting(t)
	c := &p.rest.pollerWatch
	if c.poller == 0 {
		t.Skip("/proc does not tell what a poller watches")
	}
	c.poller = need(sys.EpollCreate())(t) // which watches nothing
	defer sys.Close(c.poller)
	const took = 200 * time.Millisecond
	look := func(took, pause time.Duration, alone bool) {
		t.Helper()
		clock := &ticks{now: c.until, step: took}
		testenv.Equal(t, p.Alone(c.until, clock), alone, "alone")
		testenv.Equal(t, c.until, clock.now+pause, "the next look")
	}
	look(took, aloneFor, true)
	look(lookMost, aloneFor, true)
	look(took, aloneFor, true)
	look(took, lookShare*took, false)
	look(time.Minute, rarestLook, false)
	look(lookMost, aloneFor, true)
}
