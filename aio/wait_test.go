//go:build linux

package aio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// fifo makes a FIFO, open for reading and writing, so that reading it waits.
func fifo(t testing.TB) *File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(name, 0o600))
	return closing(t, need(OpenFile(name, os.O_RDWR, 0))(t))
}

// A write to a file opened with O_DSYNC waits for the disk even where it is asked not to wait: it
// is not made on the loop.
func TestSynchronousWritesLeaveTheLoop(t *testing.T) {
	onDisk(t)
	everywhere(t, func(t *testing.T) {
		f := scratchFile(t, content(100), os.O_RDWR|unix.O_DSYNC)
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			testenv.True(t, op != opWrite || where != viaLoop, "a write that waits for the disk is made on the loop")
			return n, 0
		})
		need(f.Write([]byte("first")))(t)
		need(f.WriteAt([]byte("second"), 5))(t)
		faults.Store(nil)
		holds(t, f.Name(), append([]byte("firstsecond"), content(100)[11:]...))
	})
}

// A loop that copies a lot gives its other tasks a turn now and then.
func TestWhatIsInMemoryIsMovedInPieces(t *testing.T) {
	rt := setting{"threads", openThreads, 1}.start(t)
	want := content(4*maxAtOnce + 5)
	f := scratchFile(t, want, os.O_RDWR)
	withFault(t, func(_ opcode, where via, _ int32, n int) (int, syscall.Errno) {
		testenv.True(t, where != viaLoop || n <= maxAtOnce, "%d bytes are moved at once", n)
		return n, 0
	})
	inTask(t, rt, func() {
		turns, over := 0, false
		other := engine.Go(func() {
			for ; !over; engine.Yield() {
				turns++
			}
		})
		b := make([]byte, len(want))
		for i, do := range []func() (int, error){
			func() (int, error) { return f.ReadAt(b, 0) },
			func() (int, error) { return io.ReadFull(f, b) },
			func() (int, error) { return f.WriteAt(want, 0) },
			func() (int, error) { return f.Write(want[:maxAtOnce+1]) },
		} {
			turns = 0
			n, err := do()
			testenv.True(t, err == nil && (n == len(want) || i == 3) && bytes.Equal(b, want), "%d: %d, %v", i, n, err)
			if i < 2 {
				testenv.AtLeast(t, turns, 3, "turns of the other task")
			}
		}
		over = true
		must(t, other.Join())
	})
}

// A task that ends between two pieces, as the runtime shuts down, keeps neither the file nor its position.
func TestAReadThatEndsInTheMiddleLetsGo(t *testing.T) {
	rt := testenv.Need(engine.New(engine.Config{
		Loops: 1, NewPoller: func(int) (engine.Poller, error) { return openThreads() },
		HoldLimit: -1, Grace: time.Millisecond, Log: slog.New(slog.DiscardHandler),
	}))(t)
	f := scratchFile(t, content(8*maxAtOnce), os.O_RDWR)
	stop, cancel := context.WithCancel(context.Background())
	cancel()
	begin := sync.OnceFunc(func() { go rt.Shutdown(stop) })
	reader := rt.Go(func() {
		for b := make([]byte, 8*maxAtOnce); ; begin() {
			if _, err := f.Read(b); err != nil {
				engine.Yield()
			}
			f.lseek(0, io.SeekStart)
		}
	})
	testenv.ErrorIs(t, reader.Join(), engine.ErrGoexit, "the task that reads")
	testenv.MustEqual(t, f.pos.TryLock(), true, "the position can be locked")
	f.pos.Unlock()
	must(t, f.Close())
	rt.Close()
}

// Closes of files of one file system, which may wait for it, leave threads to others.
func TestClosesThatHangLeaveThreadsToOthers(t *testing.T) {
	must(t, SetPoolLimits(3, 2))
	defer SetPoolLimits(0, 0)
	rt := setting{"threads", openThreads, 1}.start(t)
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	withFault(t, func(op opcode, _ via, _ int32, n int) (int, syscall.Errno) {
		if op == opClose {
			<-gate
		}
		return n, 0
	})
	var closers []*engine.Task
	for range 4 {
		f := need(OpenFile(scratch(t, nil), os.O_RDWR, 0))(t)
		f.device.Store(1 << 40)
		closers = append(closers, rt.Go(func() { must(t, f.Close()) }))
	}
	var made atomic.Bool
	rt.Go(func() { must(t, Mkdir(filepath.Join(t.TempDir(), "new"), 0o700)); made.Store(true) })
	testenv.Until(t, "a folder is made", made.Load)
	release()
	for _, c := range closers {
		must(t, c.Join())
	}
}

// busyRequests counts what is under way on f.
func busyRequests(f *File) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for r := f.busy; r != nil; r = r.beside {
		n++
	}
	return n
}

// awaitBusy returns when n requests are under way on f.
func awaitBusy(t testing.TB, f *File, n int) {
	t.Helper()
	testenv.Until(t, "requests are under way", func() bool { return busyRequests(f) == n })
}

// hasRing reports whether the loops of rt wait with io_uring.
func hasRing(t testing.TB, rt *engine.Runtime) bool {
	ring := false
	inTask(t, rt, func() { ring = ringOf(engine.CurrentLoop()) != nil })
	return ring
}

// isOpen reports whether the descriptor of f is open and still that of f.
func isOpen(f *File) bool {
	target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.fd)))
	return err == nil && target == f.Name()
}

func onRings(t *testing.T, f func(t *testing.T, rt *engine.Runtime), change ...func(*engine.Config)) {
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		if !hasRing(t, rt) {
			t.Skip("no io_uring on this poller")
		}
		f(t, rt)
	}, change...)
}

func TestCancellingAReadThatWaits(t *testing.T) {
	onRings(t, func(t *testing.T, rt *engine.Runtime) {
		f := fifo(t)
		ctx, cancel := context.WithCancel(context.Background())
		reader := need(rt.Spawn(engine.Options{Context: ctx}, func() {
			testenv.ErrorIs(t, testenv.Err(f.Read(make([]byte, 10))), context.Canceled, "a read whose task was cancelled")
		}))(t)
		awaitBusy(t, f, 1)
		cancel()
		must(t, reader.Join())
		inTask(t, rt, func() { // nothing is left that would take what comes next
			need(f.Write([]byte("later")))(t)
			b := make([]byte, 10)
			n, err := f.Read(b)
			reads(t, "the next read", b, n, err, []byte("later"), nil)
		})
	})
}

func TestCloseEndsAReadThatWaits(t *testing.T) {
	onRings(t, func(t *testing.T, rt *engine.Runtime) {
		f := fifo(t)
		var readers []*engine.Task
		for i := range 3 {
			readers = append(readers, rt.Go(func() {
				testenv.ErrorIs(t, testenv.Err(f.Read(make([]byte, 10))), fs.ErrClosed, "reader %d", i)
			}))
		}
		awaitBusy(t, f, 1)
		inTask(t, rt, func() { must(t, f.Close()) })
		testenv.True(t, !isOpen(f), "Close has returned and the descriptor is open")
		for _, r := range readers {
			must(t, r.Join())
		}
		testenv.ErrorIs(t, f.Close(), fs.ErrClosed, "the second Close")
	})
}

// So does a read that the kernel has not got yet.
func TestCloseEndsAReadOfTheSameTurn(t *testing.T) {
	onRings(t, func(t *testing.T, rt *engine.Runtime) {
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			if op == opRead && where == viaLoop {
				return 0, unix.EAGAIN
			}
			return n, 0
		})
		inTask(t, rt, func() {
			var err error
			for tries := 0; err == nil && tries < 100; tries++ { // mostly the first: the turn may just be over
				f := scratchFile(t, content(100), os.O_RDONLY)
				reader := engine.Go(func() { _, err = f.ReadAt(make([]byte, 10), 0) })
				engine.Yield()
				must(t, f.Close())
				must(t, reader.Join())
			}
			testenv.ErrorIs(t, err, fs.ErrClosed, "the read")
		})
	})
}

func TestClosingTheRuntimeEndsAReadThatWaits(t *testing.T) {
	onRings(t, func(t *testing.T, rt *engine.Runtime) {
		f := fifo(t)
		unwound := atomic.Int32{}
		for range 3 {
			rt.Go(func() {
				defer unwound.Add(1)
				for { // ignores the error of the cancellation
					f.Read(make([]byte, 10))
				}
			})
		}
		awaitBusy(t, f, 1)
		rt.Close()
		testenv.Until(t, "the tasks have ended, and no request is under way", func() bool {
			return unwound.Load() == 3 && busyRequests(f) == 0
		})
	}, func(c *engine.Config) { c.Grace = 100 * time.Millisecond })
}

// blocked makes requests on threads for the descriptor of f hang until the returned
// function is called, and counts them.
func blocked(t *testing.T, f *File) (n *atomic.Int32, release func()) {
	n = new(atomic.Int32)
	gate := make(chan struct{})
	withFault(t, func(op opcode, where via, fd int32, k int) (int, syscall.Errno) {
		// Not a look at the file system, which comes before the first read of it.
		if fd == f.fd && op != opFunc {
			if where == viaThread {
				n.Add(1)
				<-gate
			} else {
				return 0, unix.EOPNOTSUPP
			}
		}
		return k, 0
	})
	return n, func() { close(gate) }
}

func TestCloseWaitsForAThread(t *testing.T) {
	want := content(100)
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		f := scratchFile(t, want, os.O_RDONLY)
		n, release := blocked(t, f)
		reader := rt.Go(func() {
			b := make([]byte, len(want))
			n, err := f.ReadAt(b, 0)
			reads(t, "the read that was under way", b, n, err, want, nil)
		})
		testenv.Until(t, "a thread reads", func() bool { return n.Load() == 1 })
		closer := rt.Go(func() { must(t, f.Close()) })
		testenv.Until(t, "Close waits", func() bool { return f.closer.Load() != nil })
		testenv.True(t, isOpen(f), "a thread is reading and the descriptor is closed")
		release()
		must(t, reader.Join())
		must(t, closer.Join())
		testenv.True(t, !isOpen(f), "Close has returned and the descriptor is open")
	})
}

func TestAReadQueuedForAThreadIsCancelled(t *testing.T) {
	must(t, SetPoolLimits(1, 1))
	defer SetPoolLimits(0, 0)
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		f := scratchFile(t, content(100), os.O_RDONLY)
		n, release := blocked(t, f)
		first := rt.Go(func() { f.ReadAt(make([]byte, 10), 0) })
		testenv.Until(t, "a thread reads", func() bool { return n.Load() == 1 })
		ctx, cancel := context.WithCancel(context.Background())
		queuedRead := func(want error, what string) func() {
			return func() { testenv.ErrorIs(t, testenv.Err(f.ReadAt(make([]byte, 10), 0)), want, what) }
		}
		second := need(rt.Spawn(engine.Options{Context: ctx}, queuedRead(context.Canceled, "a queued read whose task was cancelled")))(t)
		awaitBusy(t, f, 2)
		cancel()
		must(t, second.Join())
		testenv.Equal(t, n.Load(), 1, "reads have begun")
		third := rt.Go(queuedRead(fs.ErrClosed, "a queued read whose file was closed"))
		awaitBusy(t, f, 2)
		closer := rt.Go(func() { must(t, f.Close()) })
		must(t, third.Join())
		release()
		must(t, first.Join())
		must(t, closer.Join())
	})
}

// Waits end by a wake from a thread also on a poller that knows nothing of files.
func TestOnAScriptedPoller(t *testing.T) {
	clock := sim.NewClock()
	open := func() (engine.Poller, error) { return clock.NewPoller(0), nil }
	rt := setting{"scripted", open, 2}.start(t, func(c *engine.Config) { c.Clock = clock })
	dir := t.TempDir()
	inTask(t, rt, func() {
		all(t, 10, func(i int) {
			name := filepath.Join(dir, string(rune('a'+i)))
			want := content(10_000 + i)
			must(t, WriteFile(name, want, 0o600))
			testenv.True(t, bytes.Equal(need(ReadFile(name))(t), want), "other bytes are read than were written")
		})
	})
}

func TestAfterClose(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f := scratchFile(t, nil, os.O_RDWR)
		raw := need(f.SyscallConn())(t)
		must(t, f.Close())
		for what, do := range map[string]func() error{
			"Sync":     f.Sync,
			"Truncate": func() error { return f.Truncate(1) },
			"ReadDir":  func() error { _, err := f.ReadDir(-1); return err },
			"Prefetch": func() error { return f.Prefetch(0, 1) },
			"WriteTo":  func() error { _, err := f.WriteTo(io.Discard); return err },
			"Control":  func() error { return raw.Control(func(uintptr) {}) },
			"Close":    f.Close,
		} {
			err := do()
			var p *fs.PathError
			testenv.ErrorIs(t, err, fs.ErrClosed, what)
			testenv.True(t, errors.As(err, &p) && p.Path == f.Name(), "%s: %v; want a PathError", what, err)
		}
		testenv.Equal(t, f.Resident(0, 1), 0, "Resident")
	})
}

// Many use a file while it is closed; the race detector and the descriptors' numbers
// would show a mistake.
func TestCloseWhileMuchGoesOn(t *testing.T) {
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		withFault(t, unruly)
		name := scratch(t, content(50_000))
		inTask(t, rt, func() {
			for range 20 {
				f := need(OpenFile(name, os.O_RDWR, 0))(t)
				all(t, 12, func(i int) {
					b := make([]byte, 1000)
					for k := range 30 {
						if i == 11 && k == 10 {
							must(t, f.Close())
							return
						}
						var err error
						if i%2 == 0 {
							_, err = f.ReadAt(b, int64(i*1000))
						} else {
							_, err = f.WriteAt(b, int64(i*1000))
						}
						if errors.Is(err, fs.ErrClosed) {
							return
						}
						must(t, err)
					}
				})
			}
		})
	})
}

// A task that has been cancelled can still clean up; what would wait fails.
func TestACancelledTask(t *testing.T) {
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		dir := t.TempDir()
		name := filepath.Join(dir, "file")
		var f *File
		inTask(t, rt, func() {
			must(t, WriteFile(name, content(100), 0o600))
			f = need(OpenFile(name, os.O_RDWR, 0))(t)
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := need(rt.Spawn(engine.Options{Context: ctx}, func() {
			cancel()
			for engine.Context().Err() == nil || !errors.Is(engine.Sleep(1), context.Canceled) {
				engine.Yield() // until the loop knows
			}
			testenv.Got(f.ReadAt(make([]byte, 100), 0))(t, 100, "a read from memory")
			testenv.ErrorIs(t, WriteFile(name, []byte("new"), 0o600), context.Canceled, "WriteFile")
			err := f.Close()
			testenv.True(t, err == nil && !isOpen(f), "Close: %v; want the descriptor closed", err)
		}))(t)
		must(t, done.Join())
		info, err := os.Stat(name)
		testenv.True(t, err == nil && info.Size() == 100, "after WriteFile was given up: %v, %v; want the old file", info, err)
		wantNames(t, dir, "file")
	})
}

// What is done on another thread is not done any more if its task is cancelled before its turn comes.
func TestCancelledBeforeItsTurnAside(t *testing.T) {
	rt := setting{"threads", openThreads, 1}.start(t, func(c *engine.Config) { c.OffloadLimit = 1 })
	hold, held := make(chan struct{}), make(chan bool, 1)
	defer close(hold)
	rt.Go(func() { engine.Offload(func() { held <- true; <-hold }) })
	<-held
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	for _, call := range []func() error{
		func() error { return Chmod(folder, 0) },
		func() error { return Symlink("nowhere", filepath.Join(folder, "link")) },
	} {
		need(rt.Spawn(engine.Options{Context: ctx}, func() { errs <- call() }))(t)
	}
	testenv.Until(t, "both wait for their turn", func() bool {
		waiting := int32(0)
		for _, k := range rt.Tasks() {
			if k.State == "parked" && k.Reason == engine.ReasonOffload {
				waiting++
			}
		}
		return waiting == 3 // the holder too
	})
	cancel()
	links := 0
	for range 2 {
		err := <-errs
		testenv.ErrorIs(t, err, context.Canceled)
		if errors.As(err, new(*os.LinkError)) {
			links++
		}
	}
	testenv.Equal(t, links, 1, "errors of links")
	wantNames(t, folder)
}

// TestOpenAwaitsALease: Open waits for another process that has a lease on the file, as package os does.
func TestOpenAwaitsALease(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		name := scratch(t, []byte("content"))
		holder := need(unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0))(t)
		defer unix.Close(holder)
		lease := func(cmd, arg int) (int, error) { return unix.FcntlInt(uintptr(holder), cmd, arg) }
		if _, err := lease(unix.F_SETLEASE, unix.F_WRLCK); err != nil {
			t.Skip("no leases here: ", err)
		}
		released := make(chan error)
		go func() {
			testenv.Soon(func() bool { // the lease is asked for
				kind, err := lease(unix.F_GETLEASE, 0)
				return kind != unix.F_WRLCK || err != nil
			})
			released <- testenv.Err(lease(unix.F_SETLEASE, unix.F_UNLCK))
		}()
		f, err := Open(name)
		must(t, <-released)
		must(t, err)
		testenv.Equal(t, f.Name(), name)
		must(t, f.Close())

		must(t, testenv.Err(lease(unix.F_SETLEASE, unix.F_WRLCK)))
		_, err = OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		testenv.ErrorIs(t, err, unix.EAGAIN, "with O_NONBLOCK")
	})
}
