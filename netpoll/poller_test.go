//go:build linux

package netpoll

import (
	"errors"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
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

// bareDesc registers fd with p, apart from any loop. The caller keeps fd.
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
	return p[0], p[1]
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
		if p.Active() {
			t.Error("Active with nothing registered")
		}
	})
}

func TestInterruptedPoll(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		tid := unix.Gettid()
		done := make(chan struct{})
		ended := make(chan error)
		go func() {
			for {
				select {
				case <-done:
					ended <- nil
					return
				case <-time.After(time.Millisecond):
					if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
						ended <- err
						return
					}
				}
			}
		}()
		for range 5 {
			must(t, p.Poll(20*time.Millisecond)) // EINTR is no error
		}
		close(done)
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
	for _, fd := range []int{b, b2, duplicate} {
		unix.Close(fd)
	}
	must(t, d.shut())
	d.unuse()
}

func TestManyEvents(t *testing.T) {
	eachPoller(t, func(t *testing.T, p engine.Poller) {
		const n = maxEvents + 100
		var descs []*desc
		var peers []int
		for range n {
			a, b := bareSocketpair(t)
			descs = append(descs, bareDesc(t, p, a))
			peers = append(peers, b)
			need(unix.Write(b, []byte("x")))(t)
		}
		if !p.Active() {
			t.Error("not Active with descriptors registered")
		}
		polls := 2
		if t.Name() == "TestManyEvents/"+lockedUring {
			polls += n / 10 // the kernel does a bounded number of things before it returns
		}
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
			unix.Close(peers[i])
		}
		for range polls {
			must(t, p.Poll(0)) // what is left is cancelled
		}
		if p.Active() {
			t.Error("Active after the last was closed")
		}
	})
}

// Close closes the descriptors that are left, takes no new ones, and a Wake after it does nothing.
func TestPollerClose(t *testing.T) {
	before := len(testenv.OpenFiles())
	for _, x := range pollers {
		p, err := x.open()
		if refused(err) {
			continue
		}
		must(t, err)
		a, b := bareSocketpair(t)
		d := bareDesc(t, p, a)
		must(t, p.Close())
		testenv.ErrorIs(t, d.use(), net.ErrClosed, "use after the poller was closed")
		must(t, p.Wake())
		testenv.ErrorIs(t, p.(registrar).register(&desc{fd: -1}), errPollerClosed, "register after Close")
		unix.Close(b)
	}
	testenv.AtMost(t, len(testenv.OpenFiles()), before, "descriptors are open, %d were before", before)
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
			if seen[descs[i].token] || descs[i].token == 0 {
				t.Fatalf("token %#x was given twice or is zero", descs[i].token)
			}
			seen[descs[i].token] = true
		}
		if tab.active.Load() != n || tab.used != n {
			t.Fatalf("%d active in %d slots, want %d in %d", tab.active.Load(), tab.used, n, n)
		}
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
	if err := tab.add(new(desc), func() error { return failure }); err != failure || tab.active.Load() != 0 {
		t.Errorf("a failed registration: %v, %d active", err, tab.active.Load())
	}
	// The generation skips zero when it wraps.
	d := new(desc)
	c, at := tab.entry(tab.free[len(tab.free)-1])
	c.generation[at] = 1<<32 - 1
	must(t, tab.add(d, ok))
	testenv.Equal(t, d.token>>32, 1, "generation after the last")
}
