//go:build linux

package uring

import (
	"math/rand/v2"
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
		prepare     func(fd int) func(*SubmissionQueueEntry)
	}{
		{"submissions", 0, func(int) func(*SubmissionQueueEntry) { return noOp }},
		{"completions", 8, func(int) func(*SubmissionQueueEntry) { return noOp }},
		{"polls that end at once", 8, poll},
	} {
		t.Run(x.name, func(t *testing.T) {
			bothWays(t, Config{Entries: 8, Completions: x.completions}, func(t *testing.T, d *Driver) {
				p := pipe(t)
				var r record
				for range 1000 { // Entry hands over when the queue is full
					track(t, d, &r, x.prepare(p[0]))
				}
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
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		p := pipe(t)
		prepare := map[string]func(r *record) func(*SubmissionQueueEntry){
			"poll": func(*record) func(*SubmissionQueueEntry) { return poll(p[0]) },
			"multishot poll": func(*record) func(*SubmissionQueueEntry) {
				return func(e *SubmissionQueueEntry) { e.PreparePollMultishot(p[0], unix.POLLIN) }
			},
			"read":             func(r *record) func(*SubmissionQueueEntry) { return blockingRead(r, p[0], false) },
			"read by a thread": func(r *record) func(*SubmissionQueueEntry) { return blockingRead(r, p[0], true) },
			"timeout":          func(r *record) func(*SubmissionQueueEntry) { return timeout(r, unix.Timespec{Sec: 100}) },
		}
		for name, f := range prepare {
			for _, handedOver := range []bool{false, true} {
				r := new(record)
				token := track(t, d, r, f(r))
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
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		p := pipe(t)
		for range testenv.Rounds(1500, 3000) {
			r := new(record)
			k := track(t, d, r, blockingRead(r, p[0], true))
			must(t, d.Flush())
			must(t, d.Cancel(k))
			until(t, d, r.done)
		}
		until(t, d, func() bool { return d.InFlight() == 0 })
	})
}

func TestChurn(t *testing.T) {
	operations := testenv.Rounds(20_000, 100_000)
	bothWays(t, Config{Entries: 64, Completions: 64}, func(t *testing.T, d *Driver) {
		seed := time.Now().UnixNano()
		t.Logf("seed %d", seed)
		rnd := rand.New(rand.NewPCG(uint64(seed), 0))
		p := pipe(t)
		left := operations
		var tokens []Token
		for range operations {
			c := &ending{left: &left}
			switch rnd.IntN(3) {
			case 0:
				track(t, d, c, noOp)
			case 1:
				tokens = append(tokens, track(t, d, c, func(e *SubmissionQueueEntry) { e.PreparePollMultishot(p[0], unix.POLLIN) }))
			case 2:
				c.ts = unix.Timespec{Nsec: rnd.Int64N(1_000_000)}
				track(t, d, c, func(e *SubmissionQueueEntry) { PrepareTimeout(e, &c.ts, 0, 0) })
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
			track(t, d, &r, noOp)
		}
		if calls == 1 {
			d.BeforeFlush(again)
		}
	}
	d.BeforeFlush(again)
	testenv.MustEqual(t, d.Pending(), 1, "pending")
	testenv.MustEqual(t, calls, 0, "calls before Wait")
	must(t, d.Wait(time.Second))
	testenv.MustEqual(t, calls, 1, "calls")
	until(t, d, func() bool { return len(r.res) == 40 })
	testenv.True(t, calls == 2 && d.Pending() == 0, "%d calls, %d pending; want 2, 0", calls, d.Pending())
}

// A Completer asks for the next request; it must neither be called out of a method of its
// own, nor lose anything.
func TestCompleterThatAsksForMore(t *testing.T) {
	bothWays(t, Config{Entries: 8, Completions: 8}, func(t *testing.T, d *Driver) {
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

func (c *chain) ask() { track(c.t, c.d, c, noOp) }

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
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
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
		testenv.Fails(t, testenv.Err(NewDriver(cfg)), "%+v", cfg)
	}
}

func TestMultishotPoll(t *testing.T) {
	bothWays(t, Config{}, func(t *testing.T, d *Driver) {
		fd := need(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))(t)
		defer unix.Close(fd)
		var r record
		token := track(t, d, &r, func(e *SubmissionQueueEntry) { e.PreparePollMultishot(fd, unix.POLLIN) })
		must(t, d.Flush())
		for i := range 20 {
			testenv.Need(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))(t)
			until(t, d, func() bool { return len(r.res) > i })
		}
		testenv.MustEqual(t, r.done(), false, "ended")
		testenv.MustEqual(t, d.InFlight(), 1, "in flight")
		must(t, d.Cancel(token))
		until(t, d, r.done)
	})
}
