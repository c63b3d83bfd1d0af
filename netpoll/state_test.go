//go:build linux

package netpoll

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// nullRegistrar is a poller whose events the test delivers.
type nullRegistrar struct{}

func (nullRegistrar) register(*desc) error { return nil }
func (nullRegistrar) deregister(*desc)     {}
func (nullRegistrar) rearm(*desc)          {}
func (nullRegistrar) leave(*desc) bool     { return false }
func (nullRegistrar) enter(*desc) error    { return nil }

// A supply stands for the kernel's side of a descriptor: units that can be taken from
// either direction.
type supply struct {
	d         desc
	available [2]atomic.Int64
	given     [2]int64 // by the deliverer
	taken     [2]atomic.Int64
}

func (s *supply) take(i int) syscall.Errno {
	for {
		n := s.available[i].Load()
		if n == 0 {
			return unix.EAGAIN
		}
		if s.available[i].CompareAndSwap(n, n-1) {
			s.taken[i].Add(1)
			return 0
		}
	}
}

// newSupply makes one whose fd is an idle eventfd, so that closing it is real.
func newSupply(t testing.TB, l *engine.Loop) *supply {
	fd := need(unix.Eventfd(0, unix.EFD_CLOEXEC))(t)
	s := &supply{}
	s.d.fd, s.d.kind, s.d.loop, s.d.poller = int32(fd), kindFile, l, nullRegistrar{}
	return s
}

// TestStateMachine lets readers and writers (tasks of the loop, tasks of another loop,
// goroutines), events, deadlines, hooks and a Close meet in random order. Every unit
// that was announced is taken, no error is other than those of the interruptions, and
// nobody waits for ever.
func TestStateMachine(t *testing.T) {
	rng := testenv.Rand(t, *seedFlag)
	rt := withEpoll(t)
	for range testenv.Rounds(8, 40) {
		stateRound(t, rt, rng)
	}
}

func stateRound(t *testing.T, rt *engine.Runtime, rng *rand.Rand) {
	s := newSupply(t, rt.Loop(0))
	var hooks atomic.Int64 // started and not yet run
	var users, closers sync.WaitGroup
	user := func(i int, seed uint64) func() {
		return func() {
			defer users.Done()
			s.use(t, i, rand.New(rand.NewPCG(seed, 2)), &hooks)
		}
	}
	for i := range 2 + rng.IntN(4) {
		users.Add(1)
		switch f := user(i%2, rng.Uint64()); rng.IntN(3) {
		case 0:
			engine.GoOn(rt.Loop(0), f)
		case 1:
			engine.GoOn(rt.Loop(1), f)
		default:
			go f()
		}
	}
	closers.Add(2)
	go s.disturb(rand.New(rand.NewPCG(rng.Uint64(), 3)), &closers)
	go s.deliverRandomly(rand.New(rand.NewPCG(rng.Uint64(), 4)), &closers)
	closers.Wait()
	// Quiet now: no deadline, everything announced. Users take the rest.
	must(t, s.d.setDeadline(flagReadExpired|flagWriteExpired, time.Time{}))
	s.announce(true, true)
	for i := range 2 {
		for n := 0; s.available[i].Load() > 0; n++ {
			if n > 10_000 {
				t.Fatalf("direction %d: %d units announced and not taken; slot %p", i, s.available[i].Load(), s.d.slots()[i].p.Load())
			}
			breathe(time.Millisecond)
		}
	}
	must(t, s.d.close())
	users.Wait()
	for n := 0; hooks.Load() != 0; n++ {
		if n > 10_000 {
			t.Fatalf("%d hooks were registered and not run", hooks.Load())
		}
		breathe(time.Millisecond)
	}
	for i := range 2 {
		testenv.MustEqual(t, s.taken[i].Load(), s.given[i], "direction %d: N units taken", i)
	}
	if life := s.d.life.Load(); life != lifeClosed {
		t.Fatalf("life is %#x after the last user, want %#x", life, lifeClosed)
	}
}

func (d *desc) slots() [2]*slot { return [2]*slot{&d.read, &d.write} }

// use takes units in direction i until the descriptor is closed.
func (s *supply) use(t *testing.T, i int, rng *rand.Rand, hooks *atomic.Int64) {
	sd, why := readSide, engine.ReasonRead
	if i == 1 {
		sd, why = writeSide, engine.ReasonWrite
	}
	for {
		err := s.d.attempt(sd, why, func() syscall.Errno { return s.take(i) })
		switch {
		case err == nil:
		case errors.Is(err, ErrBusy):
			rest(50 * time.Microsecond)
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, net.ErrClosed):
			return
		default:
			t.Errorf("unexpected error %v", err)
			return
		}
		if i == 0 && rng.IntN(8) == 0 {
			hooks.Add(1)
			if s.d.onReadable(nil, func() { hooks.Add(-1) }, func() (int, syscall.Errno) {
				if s.available[0].Load() == 0 {
					return 0, unix.EAGAIN
				}
				return 1, 0
			}) != nil {
				hooks.Add(-1)
			}
		}
		if engine.Current() != nil {
			engine.Yield()
		}
	}
}

// disturb sets deadlines, past and near and none.
func (s *supply) disturb(rng *rand.Rand, done *sync.WaitGroup) {
	defer done.Done()
	for range 100 {
		which := uint32(flagReadExpired)
		if rng.IntN(2) == 0 {
			which = flagWriteExpired
		}
		var at time.Time
		switch rng.IntN(3) {
		case 0:
			at = time.Now().Add(-time.Second)
		case 1:
			at = time.Now().Add(time.Duration(rng.IntN(300)) * time.Microsecond)
		}
		s.d.setDeadline(which, at)
		if rng.IntN(4) == 0 {
			breathe(time.Duration(rng.IntN(100)) * time.Microsecond)
		}
	}
}

// deliverRandomly gives units and announces them, on the loop as a poller does.
func (s *supply) deliverRandomly(rng *rand.Rand, done *sync.WaitGroup) {
	defer done.Done()
	for range 200 {
		i := rng.IntN(2)
		n := int64(rng.IntN(3))
		s.given[i] += n
		s.available[i].Add(n)
		s.announce(i == 0, i == 1 || rng.IntN(5) == 0)
		if rng.IntN(10) == 0 {
			breathe(time.Duration(rng.IntN(50)) * time.Microsecond)
		}
	}
}

func (s *supply) announce(in, out bool) {
	s.d.loop.Post(func() { s.d.deliver(in, out, 0) })
}

// Every registered descriptor is counted, and counted off when it is closed.
func TestDescriptorsAreCounted(t *testing.T) {
	both(t, func(t *testing.T) {
		before := engine.Descriptors.InUse()
		r, w := pipe(t)
		testenv.Equal(t, engine.Descriptors.InUse()-before, 2, "a pipe counts for N descriptors")
		must(t, r.Close())
		must(t, w.Close())
		testenv.Equal(t, engine.Descriptors.InUse()-before, 0, "descriptors are counted after all are closed")
	})
}

// Connections are written to and read from by tasks of any loop and by goroutines, with
// deadlines that pass, hooks, half closes, and sudden ends. What arrives is what was sent,
// up to the end, and nobody waits for ever.
func TestStorm(t *testing.T) {
	rng := testenv.Rand(t, *seedFlag)
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ln := listen(t, "tcp")
		var all sync.WaitGroup
		start := func(rng *rand.Rand, f func()) {
			all.Add(1)
			g := func() { defer all.Done(); f() }
			if rng.IntN(3) == 0 {
				go g()
			} else {
				engine.GoOn(rt.Loop(rng.IntN(rt.Loops())), g)
			}
		}
		for range testenv.Rounds(15, 30) {
			c, s := dial(t, ln.Addr()), accept(t, ln)
			sudden := rng.IntN(3) == 0
			size := rng.IntN(300_000)
			seed := rng.Uint64()
			start(rng, func() { stormWrite(t, rand.New(rand.NewPCG(seed, 5)), c, size, sudden) })
			start(rng, func() { stormRead(t, rand.New(rand.NewPCG(seed, 6)), s, size, sudden) })
		}
		all.Wait()
	})
}

// stormByte is what a connection carries at an offset.
func stormByte(at int) byte { return byte(at*7 + at>>8) }

func stormWrite(t *testing.T, rng *rand.Rand, c *Conn, size int, sudden bool) {
	defer c.Close()
	for at := 0; at < size; {
		if sudden && rng.IntN(40) == 0 {
			if rng.IntN(2) == 0 {
				c.SetLinger(0)
			}
			return
		}
		piece := make([]byte, 1+rng.IntN(min(size-at, 1<<(4+rng.IntN(12)))))
		for i := range piece {
			piece[i] = stormByte(at + i)
		}
		n, err := c.Write(piece)
		at += n
		if err != nil {
			testenv.True(t, sudden && (errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)), "writing at %d of %d: %v", at, size, err)
			return
		}
	}
	if !sudden {
		must(t, c.CloseWrite())
		n, err := c.Read(make([]byte, 1))
		testenv.True(t, n == 0 && err == io.EOF, "the writer reads %d bytes, %v, want io.EOF", n, err)
	}
}

func stormRead(t *testing.T, rng *rand.Rand, s *Conn, size int, sudden bool) {
	defer s.Close()
	buf := make([]byte, 1<<(3+rng.IntN(14)))
	for at := 0; ; {
		switch rng.IntN(10) {
		case 0:
			s.SetReadDeadline(time.Now().Add(time.Duration(rng.IntN(300)) * time.Microsecond))
		case 1:
			readable := task.NewChan[bool](1)
			if err := s.OnReadable(func() { readable.Send(true) }); err != nil {
				t.Errorf("OnReadable: %v", err)
				return
			}
			readable.Recv()
		case 2:
			if sudden && rng.IntN(10) == 0 {
				return
			}
			rest(time.Duration(rng.IntN(200)) * time.Microsecond)
		}
		n, err := s.Read(buf)
		for i := range buf[:n] {
			if buf[i] != stormByte(at+i) {
				t.Errorf("byte %d is %d, want %d", at+i, buf[i], stormByte(at+i))
				return
			}
		}
		at += n
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			s.SetReadDeadline(time.Time{})
		case sudden && (err == io.EOF || errors.Is(err, unix.ECONNRESET)):
			return
		case err == io.EOF && at == size:
			return
		default:
			t.Errorf("reading at %d of %d: %v", at, size, err)
			return
		}
	}
}

// The random programs that task runs on a scripted poller and a false clock, on the
// real pollers and the real clock.
func TestRandomPrograms(t *testing.T) {
	for _, x := range pollers {
		if !testenv.Full() && x.name != "epoll" && x.name != "uring" {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			programs.Run(t, testenv.Rounds(4, 20), func(t testing.TB, loops int, seed uint64) *engine.Runtime {
				rt, err := engine.New(engine.Config{
					Loops:     loops,
					NewPoller: func(int) (engine.Poller, error) { return x.open() },
					OnPanic:   func(*engine.PanicError) {},
					Log:       slog.New(slog.DiscardHandler),
				})
				skipRefused(t, err)
				testenv.Must(t, err)
				return rt
			})
		})
	}
}
