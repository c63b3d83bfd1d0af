//go:build linux

package netpoll

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/uring"
)

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
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM) {
		must(t, p.Close())
		t.Skipf("io_uring is not to be had: %v", err)
	}
	must(t, err)
	if rings() == before {
		t.Error("the ring is in neither list of /proc/self: this test sees nothing")
	}
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

func (o *outcome) Complete(res int32, flags uint32) {
	o.res, o.done = res, true
}

func pollIn(t testing.TB, d *uring.Driver, fd int) *outcome {
	e := need(d.Entry())(t)
	o := new(outcome)
	e.PreparePollAdd(fd, unix.POLLIN)
	d.Track(e, o)
	return o
}

func TestCompletionEndsThePoll(t *testing.T) {
	withRing(t, func(t *testing.T, p driven, d *uring.Driver) {
		if again, err := p.Driver(); again != d || err != nil {
			t.Errorf("second call: %p, %v; want %p", again, err, d)
		}
		// What completes while it is handed over must not be waited for.
		e, o := need(d.Entry())(t), new(outcome)
		e.PrepareNop()
		d.Track(e, o)
		must(t, p.Poll(-1))
		testenv.MustEqual(t, o.done, true, "a no-op has completed when Poll ends")
		a, b := bareSocketpair(t)
		defer unix.Close(a)
		defer unix.Close(b)
		for range 50 {
			o := pollIn(t, d, a)
			if !p.Active() {
				t.Fatal("not Active with a request that is to be handed over")
			}
			must(t, p.Poll(0))
			if o.done || d.Pending() != 0 || !p.Active() {
				t.Fatalf("after Poll(0): done %v, pending %d, Active %v; want false, 0, true", o.done, d.Pending(), p.Active())
			}
			go unix.Write(b, []byte("x"))
			for !o.done {
				must(t, p.Poll(-1))
			}
			if o.res&unix.POLLIN == 0 {
				t.Fatalf("poll completed with %#x, want POLLIN", o.res)
			}
			var buf [8]byte
			unix.Read(a, buf[:])
			if p.Active() {
				t.Fatal("Active with nothing in flight")
			}
		}
	})
}

// A Poll between descriptors and completions must not mistake one for the other.
func TestSocketsBesideTheRing(t *testing.T) {
	withRing(t, func(t *testing.T, p driven, d *uring.Driver) {
		a, b := bareSocketpair(t)
		defer unix.Close(b)
		s := bareDesc(t, p, a)
		must(t, p.Poll(0)) // the event that comes with registering
		s.read.p.Store(nil)
		x, y := bareSocketpair(t)
		defer unix.Close(x)
		defer unix.Close(y)
		o := pollIn(t, d, x)
		must(t, p.Poll(0))
		unix.Write(b, []byte("x"))
		must(t, p.Poll(-1))
		if s.read.p.Load() != ready || o.done {
			t.Errorf("the socket is ready: %v, the request done: %v; want true, false", s.read.p.Load() == ready, o.done)
		}
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
	a, b := bareSocketpair(t)
	defer unix.Close(a)
	defer unix.Close(b)
	sent := pollIn(t, d, a)
	must(t, p.Poll(0))
	queued := pollIn(t, d, a)
	must(t, p.Close())
	for i, o := range []*outcome{sent, queued} {
		if !o.done || o.res != -int32(unix.ECANCELED) {
			t.Errorf("request %d: done %v, result %v; want ECANCELED", i, o.done, syscall.Errno(-o.res))
		}
	}
	if d, err := p.Driver(); d != nil || !errors.Is(err, errPollerClosed) {
		t.Errorf("Driver after Close: %v, %v; want errPollerClosed", d, err)
	}
}

func TestNoRing(t *testing.T) {
	for _, x := range pollers {
		t.Run(x.name, func(t *testing.T) {
			p, err := poller.NoRing(x.open)()
			skipRefused(t, err)
			must(t, err)
			defer p.Close()
			if d, err := p.(driven).Driver(); d != nil || err == nil || !strings.Contains(err.Error(), "NoRing") {
				t.Errorf("Driver: %v, %v; want that it was made without one", d, err)
			}
		})
	}
	if p, err := poller.NoRing(func() (engine.Poller, error) { return nil, unix.EMFILE })(); p != nil || !errors.Is(err, unix.EMFILE) {
		t.Errorf("NoRing of a constructor that fails: %v, %v; want its error", p, err)
	}
	if p, err := poller.NoRing(func() (engine.Poller, error) { return idlePoller{}, nil })(); p != nil || err == nil {
		t.Errorf("NoRing of somebody else's poller: %v, %v; want an error", p, err)
	}
}

// idlePoller is a poller of somebody else.
type idlePoller struct{ engine.Poller }

func (idlePoller) Close() error { return nil }
