//go:build linux

package netpoll

import (
	"errors"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/uring"
)

// eachPoller runs the test on every poller, without a runtime: the test's goroutine, on
// a thread of its own, plays the loop.
func eachPoller(t *testing.T, f func(t *testing.T, p engine.Poller)) {
	for _, x := range pollers {
		t.Run(x.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			p, err := x.open()
			skipRefused(t, err)
			must(t, err)
			defer func() { must(t, p.Close()) }()
			f(t, p)
		})
	}
}

// bareDesc registers fd with p, apart from any loop.
func bareDesc(t testing.TB, p engine.Poller, fd int) *desc {
	d := &desc{fd: int32(fd), kind: kindStream, poller: p.(registrar)}
	must(t, d.poller.register(d))
	if u, ok := p.(*uringPoller); ok { // the others ask without being asked
		u.ask(d.requests, askedRead)
		u.ask(d.requests, askedWrite)
	}
	return d
}

func bareSocketpair(t testing.TB) (a, b int) {
	p := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(p[1]) })
	return p[0], p[1]
}

// closedPair is a bareSocketpair of which the caller keeps nothing.
func closedPair(t testing.TB) (a, b int) {
	a, b = bareSocketpair(t)
	t.Cleanup(func() { unix.Close(a) })
	return a, b
}

func TestPollTimeout(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		early := time.Duration(0)
		if _, ok := p.(restingEpoll); ok { // the loop waits for what is left of the time
			early = restSlack
		}
		check := func(d time.Duration) {
			t.Helper()
			var took time.Duration
			for range 100 { // a signal, like those of the Go runtime, ends it early: see below
				start := time.Now()
				must(t, p.Poll(d))
				if took = time.Since(start); took >= d-early {
					return
				}
			}
			t.Errorf("Poll(%v) returned after %v", d, took)
		}
		check(0)
		check(300 * time.Microsecond)
		check(3 * time.Millisecond)
		if e, ok := p.(*epoll); ok {
			e.noPwait2 = true // as on a kernel before 5.11
			check(300 * time.Microsecond)
			for d, want := range map[time.Duration]int{1: 1, 1e6: 1, 1e6 + 1: 2, math.MaxInt64: math.MaxInt32} {
				testenv.Equal(t, milliseconds(d), want, "%v becomes N ms", d)
			}
		}
	})
}

func TestWake(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		for range 3 {
			for range 5 {
				must(t, p.Wake()) // before Poll, several times
			}
			must(t, p.Poll(-1))
		}
		for range 100 {
			go p.Wake()
			must(t, p.Poll(-1))
		}
		testenv.True(t, !p.Active(), "Active with nothing registered")
	})
}

func TestInterruptedPoll(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		tid := unix.Gettid()
		var done atomic.Bool
		ended := make(chan error)
		go func() {
			var err error
			for !done.Load() && err == nil {
				breathe(time.Millisecond)
				err = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
			}
			ended <- err
		}()
		for range 5 {
			must(t, p.Poll(20*time.Millisecond)) // EINTR is no error
		}
		done.Store(true)
		must(t, <-ended)
	})
}

// The fd of a closed descriptor is still known to the kernel because it was duplicated
// behind our back, and its event comes when its slot, and even its number, belong to
// somebody else.
func TestStaleEvent(t *testing.T) {
	p := need(newEpoll())(t)
	defer p.Close()
	a, b := bareSocketpair(t)
	old := bareDesc(t, p, a)
	duplicate := need(unix.Dup(a))(t)
	must(t, p.Poll(0)) // the event that comes with registering
	must(t, old.shut())
	old.unuse()
	a2, b2 := bareSocketpair(t)
	d := bareDesc(t, p, a2)
	if uint32(d.token) != uint32(old.token) || d.fd != old.fd {
		t.Fatalf("slot %d and fd %d are not used again, but slot %d and fd %d", uint32(old.token), old.fd, uint32(d.token), d.fd)
	}
	if d.token == old.token {
		t.Fatal("the same token again")
	}
	must(t, p.Poll(0))
	d.read.p.Store(drained)
	need(unix.Write(b, []byte("for the dead")))(t)
	var raw [4]unix.EpollEvent
	n := need(unix.EpollWait(p.(*epoll).fd, raw[:], 0))(t)
	if n != 1 || uint64(uint32(raw[0].Pad)) != old.token>>32 {
		t.Fatalf("%d events, the first with generation %d; want one with generation %d", n, raw[0].Pad, old.token>>32)
	}
	need(unix.Write(b, []byte("again")))(t)
	must(t, p.Poll(0))
	testenv.Equal(t, d.read.p.Load(), drained, "an event for a closed descriptor reached the one that has its slot now")
	need(unix.Write(b2, []byte("for the living")))(t)
	must(t, p.Poll(0))
	testenv.Equal(t, d.read.p.Load(), ready, "an event for the descriptor did not reach it")
	unix.Close(duplicate)
	must(t, d.shut())
	d.unuse()
}

func TestManyEvents(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		const n = maxEvents + 100
		var descs []*desc
		for range n {
			a, b := bareSocketpair(t)
			descs = append(descs, bareDesc(t, p, a))
			need(unix.Write(b, []byte("x")))(t)
		}
		testenv.True(t, p.Active(), "not Active with descriptors registered")
		polls := 2
		must(t, p.Poll(-1))
		for range polls - 1 {
			must(t, p.Poll(0))
		}
		for i, d := range descs {
			if d.read.p.Load() != ready || d.write.p.Load() != ready {
				t.Fatalf("descriptor %d of %d got no event in %d polls", i, n, polls)
			}
			must(t, d.shut())
			d.unuse()
		}
		for range polls {
			must(t, p.Poll(0)) // what is left is cancelled
		}
		testenv.True(t, !p.Active(), "Active after the last was closed")
	})
}

// Close closes the descriptors that are left, takes no new ones, and a Wake after it does nothing.
func TestPollerClose(t *testing.T) {
	for _, x := range pollers {
		before := len(testenv.OpenFiles())
		p, err := x.open()
		if refused(err) {
			continue
		}
		must(t, err)
		a, _ := bareSocketpair(t)
		d := bareDesc(t, p, a)
		must(t, p.Close())
		testenv.ErrorIs(t, d.use(), net.ErrClosed, "use after the poller was closed")
		must(t, p.Wake())
		testenv.ErrorIs(t, p.(registrar).register(&desc{fd: -1}), errPollerClosed, "register after Close")
		testenv.AtMost(t, len(testenv.OpenFiles()), before+1, "descriptors are open with the other end of the pair, %d were before", before)
	}
}

// The table uses slots again, grows by chunks, and finds nothing under an old token.
func TestTable(t *testing.T) {
	var tab table
	ok := func() error { return nil }
	seen := make(map[uint64]bool)
	const n = 3*tableChunkSize + 5
	for range 4 {
		descs := make([]*desc, n)
		for i := range descs {
			descs[i] = new(desc)
			must(t, tab.add(descs[i], ok))
			testenv.MustEqual(t, seen[descs[i].token] || descs[i].token == 0, false, "token %#x was given twice or is zero", descs[i].token)
			seen[descs[i].token] = true
		}
		testenv.MustEqual(t, tab.active.Load(), n, "active")
		testenv.MustEqual(t, tab.used, n, "slots")
		for _, d := range descs {
			testenv.MustEqual(t, tab.find(d.token), d, "token %#x does not lead to its descriptor", d.token)
			tab.remove(d, func() {})
			tab.remove(d, func() { t.Fatal("removed twice") })
			testenv.MustEqual(t, tab.find(d.token), nil, "token %#x leads somewhere after removal", d.token)
		}
	}
	for token := range seen {
		testenv.MustEqual(t, tab.find(token), nil, "token %#x leads somewhere after removal", token)
	}
	testenv.Equal(t, tab.find(1<<32|99999), nil, "a token beyond the table leads somewhere")
	failure := errors.New("no")
	err := tab.add(new(desc), func() error { return failure })
	testenv.True(t, err == failure && tab.active.Load() == 0, "a failed registration: %v, %d active", err, tab.active.Load())
	// The generation skips zero when it wraps.
	d := new(desc)
	c, at := tab.entry(tab.free[len(tab.free)-1])
	c.generation[at] = 1<<32 - 1
	must(t, tab.add(d, ok))
	testenv.Equal(t, d.token>>32, 1, "generation after the last")
}

// A driven poller lends its ring.
type driven interface {
	engine.Poller
	Driver() (*uring.Driver, error)
}

// withRing runs the test with the ring beside epoll.
func withRing(t *testing.T, f func(t *testing.T, p driven, d *uring.Driver)) {
	before := rings()
	p := need(newEpoll())(t).(driven)
	d, err := p.Driver()
	if err != nil {
		must(t, p.Close())
		skipRefused(t, err)
		t.Fatal(err)
	}
	testenv.True(t, rings() != before, "the ring is in neither list of /proc/self: this test sees nothing")
	f(t, p, d)
	must(t, p.Close())
	testenv.Equal(t, rings(), before, "descriptors and mappings of rings")
}

// rings counts descriptors and mappings of rings in this process.
func rings() int {
	maps, _ := os.ReadFile("/proc/self/maps")
	n := strings.Count(string(maps), "[io_uring]")
	for _, fd := range testenv.OpenFiles() {
		if strings.Contains(fd, "[io_uring]") {
			n++
		}
	}
	return n
}

// outcome takes one completion.
type outcome struct {
	res  int32
	done bool
}

func (o *outcome) Complete(res int32, _ uint32) { o.res, o.done = res, true }

func pollIn(t testing.TB, d *uring.Driver, fd int) *outcome {
	e := need(d.Entry())(t)
	o := new(outcome)
	e.PreparePollAdd(fd, unix.POLLIN)
	d.Track(e, o)
	return o
}

func TestCompletionEndsThePoll(t *testing.T) {
	withRing(t, func(t *testing.T, p driven, d *uring.Driver) {
		again, err := p.Driver()
		testenv.True(t, again == d && err == nil, "second call: %p, %v; want %p", again, err, d)
		// What completes while it is handed over must not be waited for.
		e, o := need(d.Entry())(t), new(outcome)
		e.PrepareNop()
		d.Track(e, o)
		must(t, p.Poll(-1))
		testenv.MustEqual(t, o.done, true, "a no-op has completed when Poll ends")
		a, b := closedPair(t)
		for range 50 {
			o := pollIn(t, d, a)
			testenv.MustEqual(t, p.Active(), true, "Active with a request that is to be handed over")
			must(t, p.Poll(0))
			if o.done || d.Pending() != 0 || !p.Active() {
				t.Fatalf("after Poll(0): done %v, pending %d, Active %v; want false, 0, true", o.done, d.Pending(), p.Active())
			}
			go unix.Write(b, []byte("x"))
			for !o.done {
				must(t, p.Poll(-1))
			}
			testenv.MustEqual(t, o.res&unix.POLLIN, unix.POLLIN, "the poll's result")
			unix.Read(a, make([]byte, 8))
			testenv.MustEqual(t, p.Active(), false, "Active with nothing in flight")
		}
	})
}

// A Poll between descriptors and completions must not mistake one for the other.
func TestSocketsBesideTheRing(t *testing.T) {
	withRing(t, func(t *testing.T, p driven, d *uring.Driver) {
		a, b := bareSocketpair(t)
		s := bareDesc(t, p, a)
		must(t, p.Poll(0)) // the event that comes with registering
		s.read.p.Store(nil)
		x, y := closedPair(t)
		o := pollIn(t, d, x)
		must(t, p.Poll(0))
		unix.Write(b, []byte("x"))
		must(t, p.Poll(-1))
		testenv.True(t, s.read.p.Load() == ready && !o.done,
			"the socket is ready: %v, the request done: %v; want true, false", s.read.p.Load() == ready, o.done)
		unix.Write(y, []byte("x"))
		for !o.done {
			must(t, p.Poll(-1))
		}
		must(t, s.shut())
		s.unuse()
	})
}

func TestCloseEndsRequests(t *testing.T) {
	p := need(newEpoll())(t).(driven)
	d, err := p.Driver()
	if err != nil {
		must(t, p.Close())
		t.Skip(err)
	}
	a, _ := closedPair(t)
	sent := pollIn(t, d, a)
	must(t, p.Poll(0))
	queued := pollIn(t, d, a)
	must(t, p.Close())
	for i, o := range []*outcome{sent, queued} {
		testenv.True(t, o.done && o.res == -int32(unix.ECANCELED), "request %d: done %v, result %v; want ECANCELED", i, o.done, syscall.Errno(-o.res))
	}
	testenv.ErrorIs(t, testenv.Err(p.Driver()), errPollerClosed, "Driver after Close")
}

func TestNoRing(t *testing.T) {
	for _, x := range pollers {
		t.Run(x.name, func(t *testing.T) {
			p, err := poller.NoRing(x.open)()
			skipRefused(t, err)
			must(t, err)
			defer p.Close()
			testenv.ErrorSays(t, testenv.Err(p.(driven).Driver()), "NoRing")
		})
	}
	failing := func() (engine.Poller, error) { return nil, unix.EMFILE }
	testenv.ErrorIs(t, testenv.Err(poller.NoRing(failing)()), unix.EMFILE, "NoRing of a constructor that fails")
	anothers := func() (engine.Poller, error) { return idlePoller{}, nil }
	testenv.Fails(t, testenv.Err(poller.NoRing(anothers)()), "NoRing of somebody else's poller")
}

// idlePoller is a poller of somebody else.
type idlePoller struct{ engine.Poller }

func (idlePoller) Close() error { return nil }
