//go:build linux

package uring

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// newTestDriver makes a driver on the kernel, or skips the test. It is closed at the end.
func newTestDriver(t testing.TB, cfg Config) *Driver {
	t.Helper()
	if cfg.SingleIssuer {
		runtime.LockOSThread()
		t.Cleanup(runtime.UnlockOSThread)
	}
	d, err := NewDriver(cfg)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM) {
		t.Skipf("io_uring is not to be had: %v", err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	testenv.Must(t, err)
}

func need[T any](v T, err error) func(testing.TB) T { return testenv.Need(v, err) }

// bothIssuers runs the test in each of the ways to work for completions.
func bothIssuers(t *testing.T, cfg Config, f func(t *testing.T, d *Driver)) {
	for _, name := range []string{"any", "cooperative", "single"} {
		t.Run(name, func(t *testing.T) {
			cfg.SingleIssuer, cfg.Cooperative = name == "single", name == "cooperative"
			f(t, newTestDriver(t, cfg))
		})
	}
}

// A record takes completions.
type record struct {
	res   []int32
	flags []uint32
	buf   []byte // memory of the request
	keep  any
}

func (r *record) Complete(res int32, flags uint32) {
	r.res = append(r.res, res)
	r.flags = append(r.flags, flags)
}

func (r *record) done() bool {
	return len(r.flags) > 0 && r.flags[len(r.flags)-1]&CQEFMore == 0
}

// request prepares, tracks, and waits for the last completion.
func request(t testing.TB, d *Driver, r *record, prepare func(e *SubmissionQueueEntry)) {
	t.Helper()
	e := need(d.Entry())(t)
	prepare(e)
	d.Track(e, r)
	until(t, d, r.done)
}

func until(t testing.TB, d *Driver, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); {
		must(t, d.Wait(time.Second))
		if time.Now().After(end) {
			t.Fatalf("not done after a minute; in flight %d, pending %d", d.InFlight(), d.Pending())
		}
	}
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestReadWrite(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		f := need(os.CreateTemp(t.TempDir(), ""))(t)
		defer f.Close()
		fd := int(f.Fd())
		w := &record{buf: []byte("hello, ring")}
		request(t, d, w, func(e *SubmissionQueueEntry) { e.PrepareWrite(fd, address(w.buf), uint32(len(w.buf)), 3) })
		testenv.MustEqual(t, w.res[0], 11, "write")
		r := &record{buf: make([]byte, 32)}
		request(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareRead(fd, address(r.buf), 32, 0) })
		if got := string(r.buf[:max(r.res[0], 0)]); got != "\x00\x00\x00hello, ring" { // short: 14 of 32 bytes
			t.Fatalf("read: got %d %q", r.res[0], got)
		}
		bad := &record{}
		request(t, d, bad, func(e *SubmissionQueueEntry) { e.PrepareRead(-1, 0, 1, 0) })
		if bad.res[0] != -int32(unix.EBADF) {
			t.Errorf("read of descriptor -1: got %d, want EBADF", bad.res[0])
		}
	})
}

func TestWaitEndsInTime(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		start := time.Now()
		must(t, d.Wait(3*time.Millisecond))
		testenv.AtLeast(t, time.Since(start), 3*time.Millisecond, "Wait(3ms) took")
	})
}
