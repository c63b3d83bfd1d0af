//go:build linux

package uring

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Of queues for 8 none overflows, and nothing is lost, whatever is asked for.
func TestQueuesAreFull(t *testing.T) {
	for _, x := range []struct {
		name        string
		completions uint32
		prepare     func(e *SubmissionQueueEntry, fd int)
	}{
		{"submissions", 0, func(e *SubmissionQueueEntry, _ int) { e.PrepareNop() }},
		{"completions", 8, func(e *SubmissionQueueEntry, _ int) { e.PrepareNop() }},
		{"polls that end at once", 8, func(e *SubmissionQueueEntry, fd int) { e.PreparePollAdd(fd, unix.POLLIN) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothIssuers(t, Config{Entries: 8, Completions: x.completions}, func(t *testing.T, d *Driver) {
				p := pipe(t)
				var r record
				trackAll(t, d, &r, 1000, func(e *SubmissionQueueEntry) { x.prepare(e, p[0]) })
				testenv.AtMost(t, d.Pending(), 8, "entries in a queue for 8")
				must(t, d.Flush())
				if x.completions > 0 {
					testenv.AtMost(t, d.Ring().CQReady(), 8, "completions in a queue for 8")
				}
				testenv.Need(unix.Write(p[1], []byte("x")))(t)
				until(t, d, func() bool { return len(r.res) == 1000 })
				testenv.Equal(t, d.InFlight(), 0, "in flight")
			})
		})
	}
}

// trackAll makes n requests; Entry hands over when the queue is full.
func trackAll(t *testing.T, d *Driver, r *record, n int, prepare func(*SubmissionQueueEntry)) {
	t.Helper()
	for range n {
		e := need(d.Entry())(t)
		prepare(e)
		d.Track(e, r)
	}
}

func pipe(t testing.TB) [2]int {
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p
}

func socketpair(t testing.TB) [2]int {
	p := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p
}

func TestCancel(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		p := pipe(t)
		prepare := map[string]func(e *SubmissionQueueEntry, r *record){
			"poll":           func(e *SubmissionQueueEntry, r *record) { e.PreparePollAdd(p[0], unix.POLLIN) },
			"multishot poll": func(e *SubmissionQueueEntry, r *record) { e.PreparePollMultishot(p[0], unix.POLLIN) },
			"read":           func(e *SubmissionQueueEntry, r *record) { e.PrepareRead(p[0], address(r.buf), 8, ^uint64(0)) },
			"read by a thread": func(e *SubmissionQueueEntry, r *record) {
				e.PrepareRead(p[0], address(r.buf), 8, ^uint64(0))
				e.SetFlags(uint32(SqeAsync))
			},
			"timeout": func(e *SubmissionQueueEntry, r *record) {
				ts := &unix.Timespec{Sec: 100}
				r.keep = ts
				PrepareTimeout(e, ts, 0, 0)
			},
		}
		for name, f := range prepare {
			for _, handedOver := range []bool{false, true} {
				r := &record{buf: make([]byte, 8)}
				e := need(d.Entry())(t)
				f(e, r)
				token := d.Track(e, r)
				if handedOver {
					must(t, d.Wait(0))
				}
				must(t, d.Cancel(token))
				until(t, d, r.done)
				if e := unix.Errno(-r.res[0]); e != unix.ECANCELED && e != unix.EINTR {
					t.Errorf("%s, handed over %v: got %v, want ECANCELED", name, handedOver, e)
				}
				must(t, d.Cancel(token)) // too late: nothing happens
			}
		}
	})
}

// A signal to a thread of the kernel may come too early: of this many, some do.
func TestCancelOfWhatAThreadDoes(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		p := pipe(t)
		for range 3000 {
			r := &record{buf: make([]byte, 8)}
			e := need(d.Entry())(t)
			e.PrepareRead(p[0], address(r.buf), 8, ^uint64(0))
			e.SetFlags(uint32(SqeAsync))
			k := d.Track(e, r)
			must(t, d.Flush())
			must(t, d.Cancel(k))
			until(t, d, r.done)
		}
		until(t, d, func() bool { return d.InFlight() == 0 })
	})
}

func TestChurn(t *testing.T) {
	operations := testenv.Rounds(20_000, 100_000)
	bothIssuers(t, Config{Entries: 64, Completions: 64}, func(t *testing.T, d *Driver) {
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		p := pipe(t)
		left := operations
		var tokens []Token
		for range operations {
			e := need(d.Entry())(t)
			c := &ending{left: &left}
			switch rnd.IntN(3) {
			case 0:
				e.PrepareNop()
				d.Track(e, c)
			case 1:
				e.PreparePollMultishot(p[0], unix.POLLIN)
				tokens = append(tokens, d.Track(e, c))
			case 2:
				c.ts = unix.Timespec{Nsec: rnd.Int64N(1_000_000)}
				PrepareTimeout(e, &c.ts, 0, 0)
				d.Track(e, c)
			}
			if len(tokens) > rnd.IntN(200) {
				must(t, d.Cancel(tokens[0]))
				tokens = tokens[1:]
			}
			if rnd.IntN(50) == 0 {
				must(t, d.Wait(time.Duration(rnd.IntN(2))*time.Microsecond))
			}
			for d.InFlight() > 1000 {
				must(t, d.Wait(time.Millisecond))
			}
		}
		for _, k := range tokens {
			must(t, d.Cancel(k))
		}
		until(t, d, func() bool { return left == 0 && d.InFlight() == 0 })
		testenv.True(t, d.InFlight() == 0 && d.Pending() == 0, "%d in flight, %d pending; want none", d.InFlight(), d.Pending())
		s := d.Stats()
		testenv.True(t, s.Stale == 0 && s.Completions >= uint64(operations), "%+v; want at least %d completions and none stale", s, operations)
		n := len(d.table.slots)
		testenv.True(t, n <= 1100, "the table has %d places; want about as many as were in flight at once", n)
	})
}

// ending counts last completions.
type ending struct {
	left *int
	ts   unix.Timespec
}

func (c *ending) Complete(_ int32, flags uint32) {
	if flags&CQEFMore == 0 {
		*c.left--
	}
}

func TestBeforeFlush(t *testing.T) {
	d := newTestDriver(t, Config{Entries: 8})
	var r record
	calls := 0
	var again func()
	again = func() {
		calls++
		for range 20 { // more than the queue holds
			e := need(d.Entry())(t)
			e.PrepareNop()
			d.Track(e, &r)
		}
		if calls == 1 {
			d.BeforeFlush(again)
		}
	}
	d.BeforeFlush(again)
	if d.Pending() != 1 || calls != 0 {
		t.Fatalf("pending %d, %d calls; want 1, 0", d.Pending(), calls)
	}
	must(t, d.Wait(time.Second))
	testenv.MustEqual(t, calls, 1, "calls")
	until(t, d, func() bool { return len(r.res) == 40 })
	testenv.True(t, calls == 2 && d.Pending() == 0, "%d calls, %d pending; want 2, 0", calls, d.Pending())
}

// A Completer asks for the next request; it must neither be called out of a method of its
// own, nor lose anything.
func TestCompleterThatAsksForMore(t *testing.T) {
	bothIssuers(t, Config{Entries: 8, Completions: 8}, func(t *testing.T, d *Driver) {
		c := &chain{t: t, d: d, left: 500}
		for range 8 {
			c.ask()
		}
		until(t, d, func() bool { return c.left <= 0 && d.InFlight() == 0 })
		testenv.True(t, !c.nested, "Complete was called in Complete")
	})
}

type chain struct {
	t      testing.TB
	d      *Driver
	left   int
	inside bool
	nested bool
}

func (c *chain) ask() {
	e := need(c.d.Entry())(c.t)
	e.PrepareNop()
	c.d.Track(e, c)
}

func (c *chain) Complete(int32, uint32) {
	c.nested = c.nested || c.inside
	c.inside = true
	c.left--
	for range 2 {
		if c.d.InFlight() < 30 && c.left > 0 {
			c.ask()
		}
	}
	testenv.Equal(c.t, c.d.Reap(), 0, "Reap in Complete")
	c.inside = false
}

func TestNothingIsAllocated(t *testing.T) {
	if Implementation != "internal" {
		t.Skip("giouring allocates")
	}
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		var c last
		n := testing.AllocsPerRun(1000, func() {
			for range 8 {
				e, _ := d.Entry()
				e.PrepareNop()
				d.Track(e, &c)
			}
			d.Wait(time.Second)
		})
		testenv.True(t, n == 0, "%v allocations per turn", n)
	})
}

// last keeps the last completion.
type last struct{ res int32 }

func (l *last) Complete(res int32, _ uint32) { l.res = res }

func TestConfig(t *testing.T) {
	for _, cfg := range []Config{{Entries: 1 << 16}, {Entries: 64, Completions: 32}, {Completions: 1 << 17}} {
		if d, err := NewDriver(cfg); err == nil {
			d.Close()
			t.Errorf("%+v: no error", cfg)
		}
	}
}

// result is request for one completion.
func result(t testing.TB, d *Driver, r *record, prepare func(e *SubmissionQueueEntry)) int32 {
	t.Helper()
	*r = record{buf: r.buf, keep: r.keep}
	request(t, d, r, prepare)
	return r.res[0]
}

func want(t testing.TB, what string, got, want int32) {
	t.Helper()
	testenv.True(t, got == want, "%s: got %d (%v), want %d", what, got, syscall.Errno(max(-got, 0)), want)
}

func TestMultishotPoll(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		fd := need(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))(t)
		defer unix.Close(fd)
		var r record
		e := need(d.Entry())(t)
		e.PreparePollMultishot(fd, unix.POLLIN)
		token := d.Track(e, &r)
		must(t, d.Flush())
		for i := range 20 {
			testenv.Need(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))(t)
			until(t, d, func() bool { return len(r.res) > i })
		}
		if r.done() || d.InFlight() != 1 {
			t.Fatalf("ended: flags %v, in flight %d", r.flags, d.InFlight())
		}
		must(t, d.Cancel(token))
		until(t, d, r.done)
	})
}
