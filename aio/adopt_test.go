//go:build linux

package aio

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// sharedPipe is a pipe of which the ends in f are adopted, and have duplicates that others
// use; both are non-blocking.
func sharedPipe(t *testing.T) (f [2]*File, others [2]int) {
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	for i := range p {
		others[i] = need(unix.FcntlInt(uintptr(p[i]), unix.F_DUPFD_CLOEXEC, 0))(t)
		f[i] = closing(t, need(NewFile(p[i], "pipe"))(t))
	}
	t.Cleanup(func() {
		unix.Close(others[0])
		unix.Close(others[1])
	})
	return f, others
}

func wantNonBlocking(t *testing.T, fd int) {
	t.Helper()
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	testenv.True(t, err == nil && flags&unix.O_NONBLOCK != 0, "the flags are %#x, %v: O_NONBLOCK is gone", flags, err)
}

// beside runs do as a task, or, without a runtime, on a goroutine.
func beside(do func()) (join func()) {
	if engine.Current() != nil {
		beside := engine.Go(do)
		return func() { beside.Join() }
	}
	var wg sync.WaitGroup
	wg.Go(do)
	return wg.Wait
}

func polled(f *File) func() bool {
	return func() bool { return f.traits.Load()&traitPolled != 0 }
}

// rested is eventually for tasks too.
func rested(reached func() bool) {
	for !reached() {
		if engine.Current() != nil {
			engine.Yield()
		} else {
			breathe()
		}
	}
}

// A non-blocking descriptor that others share stays so, and is waited for nevertheless.
func TestAnAdoptedDescriptorKeepsItsFlags(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f, others := sharedPipe(t)
		b := make([]byte, 10)
		join := beside(func() {
			n, err := f[0].Read(b)
			reads(t, "Read", b, n, err, []byte("hello"), nil)
		})
		rested(polled(f[0]))
		wantNonBlocking(t, others[0])
		need(unix.Write(others[1], []byte("hello")))(t)
		join()
		// The other way round: more than the pipe takes.
		data := content(300_000)
		join = beside(func() { testenv.Got(f[1].Write(data))(t, len(data), "Write") })
		rested(polled(f[1]))
		wantNonBlocking(t, others[1])
		got := make([]byte, len(data))
		n, err := io.ReadFull(f[0], got)
		reads(t, "what was written", got, n, err, data, nil)
		join()
		must(t, f[0].Close())
		must(t, f[1].Close())
		wantNonBlocking(t, others[0])
		wantNonBlocking(t, others[1])
	})
}

// Closing an adopted descriptor, or the end of the task's context, ends a wait for it.
func TestWaitForAnAdoptedDescriptorEnds(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f, _ := sharedPipe(t)
		if engine.Current() != nil {
			ctx, cancel := context.WithCancel(context.Background())
			reader := need(engine.Spawn(engine.Options{Context: ctx}, func() {
				testenv.ErrorIs(t, testenv.Err(f[0].Read(make([]byte, 1))), context.Canceled, "Read in a cancelled task")
			}))(t)
			rested(polled(f[0]))
			cancel()
			must(t, reader.Join())
		}
		join := beside(func() {
			testenv.ErrorIs(t, testenv.Err(f[0].Read(make([]byte, 1))), fs.ErrClosed, "Read of a closed file")
		})
		rested(polled(f[0]))
		must(t, f[0].Close())
		join()
	})
}

// A descriptor without a position, such as an eventfd, is read without one, although lseek(2) says 0.
func TestAnAdoptedEvent(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f := closing(t, need(NewFile(need(unix.Eventfd(0, unix.EFD_CLOEXEC))(t), "event"))(t))
		one := binary.NativeEndian.AppendUint64(nil, 1)
		join := beside(func() {
			b := make([]byte, 8)
			n, err := f.Read(b)
			reads(t, "Read", b, n, err, one, nil)
		})
		rested(func() bool { return busyRequests(f) == 1 || engine.Current() == nil })
		need(unix.Write(int(f.fd), one))(t)
		join()
	})
}

// A file on a disk is read as always.
func TestAnAdoptedFile(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		name := scratch(t, []byte("content"))
		fd := need(unix.Open(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0))(t)
		f := closing(t, need(NewFile(fd, name))(t))
		b := make([]byte, 7)
		n, err := f.ReadAt(b, 0)
		reads(t, "ReadAt", b, n, err, []byte("content"), nil)
		must(t, f.Sync()) // waits
		wantNonBlocking(t, fd)
		need(f.WriteAt([]byte("C"), 0))(t)
		testenv.Equal(t, polled(f)(), false, "it is waited for like a pipe")
	})
}
