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
		if p.rest.conn == nil || p.rest.armed {
			t.Errorf("it works: %v, is armed: %v; want true, false", p.rest.conn != nil, p.rest.armed)
		}
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

// Deadlines are moved only if they have to, and an earlier one than is wanted does no harm.
func TestRestsOfDifferentLength(t *testing.T) {
	p := openedResting(t)
	for _, x := range []struct {
		timeout time.Duration
		kept    bool // the deadline of before
		none    bool
	}{
		{time.Hour, false, false},
		{2 * time.Hour, true, false},
		{-1, true, false},
		{time.Minute, false, false},
		{3 * restSlack, false, true},
		{-1, true, true},
		{time.Second, false, false},
	} {
		before := p.rest.limit
		if !x.none || x.timeout < 0 {
			must(t, p.Wake())
		}
		must(t, p.Poll(x.timeout))
		if limit := p.rest.limit; limit.Equal(before) != x.kept || limit.IsZero() != x.none {
			t.Errorf("a rest of %v: the deadline is %v, after %v", x.timeout, limit, before)
		}
	}
}

// One more than maxResters waits as it does otherwise, until another is closed.
func TestMostResters(t *testing.T) {
	first := openedResting(t)
	others := maxResters - resters.Load()
	resters.Add(others)
	defer resters.Add(-others)
	if p := openedResting(t); p.rest.conn != nil {
		t.Errorf("%d rest", maxResters+1)
	}
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
			if p.rest.conn != nil {
				t.Error("it goes on trying")
			}
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
