//go:build linux

package uring

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What is in flight at Close has completed when it returns, and nothing of the ring is
// left.
func TestClose(t *testing.T) {
	for _, cooperative := range []bool{false, true} {
		fds, maps := openRings(t)
		d := newTestDriver(t, Config{Cooperative: cooperative})
		if f, m := openRings(t); f == fds || m == maps {
			t.Fatal("an open ring is not seen in /proc/self: the test can't fail")
		}
		if _, err := d.SetupBufRing(8, 3); err != nil {
			t.Logf("without a ring of buffers: %v", err)
		}
		p := pipe(t)
		var all []*record
		add := func(prepare func(r *record) func(*SubmissionQueueEntry)) {
			r := new(record)
			track(t, d, r, prepare(r))
			all = append(all, r)
		}
		polls := func(*record) func(*SubmissionQueueEntry) { return poll(p[0]) }
		for i := range 50 {
			add(polls)
			add(func(r *record) func(*SubmissionQueueEntry) { return blockingRead(r, p[0], i < 4) })
		}
		add(func(r *record) func(*SubmissionQueueEntry) { return timeout(r, unix.Timespec{Sec: 1000}) })
		must(t, d.Flush())
		for range 10 { // not handed over
			add(polls)
		}
		flushed := 0
		d.BeforeFlush(func() {
			flushed++
			testenv.ErrorIs(t, testenv.Err(d.Entry()), ErrClosed, "Entry in Close")
		})
		must(t, d.Close())
		for i, r := range all {
			testenv.True(t, r.done() && len(r.res) == 1 && r.res[0] < 0, "request %d: completions %v; want one, cancelled", i, r.res)
		}
		testenv.Equal(t, flushed, 1, "the function of BeforeFlush was called N times")
		if f, m := openRings(t); f != fds || m != maps {
			t.Errorf("descriptors %d, mappings %d; want %d, %d as before", f, m, fds, maps)
		}
		afterClose(t, d)
	}
}

func afterClose(t *testing.T, d *Driver) {
	_, entry := d.Entry()
	_, buffers := d.SetupBufRing(8, 1)
	for name, err := range map[string]error{"Entry": entry, "SetupBufRing": buffers, "Flush": d.Flush(),
		"Wait": d.Wait(-1)} {
		testenv.ErrorIs(t, err, ErrClosed, "%s after Close", name)
	}
	must(t, d.Close())
	must(t, d.Cancel(1<<32))
	testenv.True(t, d.Reap() == 0 && d.Pending() == 0 && d.InFlight() == 0, "something is left after Close")
}

// openRings counts descriptors of this process, and mappings of rings in it.
func openRings(t testing.TB) (fds, maps int) {
	text := need(os.ReadFile("/proc/self/maps"))(t)
	names := need(filepath.Glob("/proc/self/fd/*"))(t)
	for _, n := range names {
		if target, _ := os.Readlink(n); strings.Contains(target, "io_uring") {
			fds++
		}
	}
	return fds, strings.Count(string(text), "io_uring")
}

// refuseVariable makes the test binary a child in which io_uring_setup(2) fails.
const refuseVariable = "URING_TEST_REFUSE"

func TestMain(m *testing.M) {
	if what := os.Getenv(refuseVariable); what != "" {
		os.Exit(refusedChild(what))
	}
	os.Exit(m.Run())
}

// What containers do: a seccomp filter answers for the kernel.
func TestRefusedBySeccomp(t *testing.T) {
	for name, want := range map[string]string{
		"EPERM":  "forbidden by a seccomp filter",
		"ENOSYS": "has no io_uring",
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), refuseVariable+"="+name)
		out, err := cmd.CombinedOutput()
		text := string(out)
		if strings.Contains(text, "no filter") {
			t.Skip(text)
		}
		testenv.True(t, err == nil && strings.Contains(text, want), "%s: %v\n%s\nwant %q", name, err, text, want)
	}
}

func refusedChild(what string) int {
	errno := map[string]syscall.Errno{"EPERM": unix.EPERM, "ENOSYS": unix.ENOSYS}[what]
	if err := testenv.Refuse(unix.SYS_IO_URING_SETUP, errno); err != nil {
		fmt.Println("no filter can be set here:", err)
		return 0
	}
	d, err := NewDriver(Config{})
	if d != nil || !errors.Is(err, errno) {
		fmt.Printf("got %v, %v; want %v\n", d, err, errno)
		return 1
	}
	fmt.Println(err)
	return 0
}

// What both rings can do, without a Driver.
func TestRing(t *testing.T) {
	newTestDriver(t, Config{}) // skips
	ring := need(CreateRing(8))(t)
	defer ring.QueueExit()
	testenv.Got(ring.Submit())(t, 0, "Submit of nothing")
	ts := syscall.NsecToTimespec(int64(time.Millisecond))
	testenv.ErrorIs(t, testenv.Err(ring.SubmitAndWaitTimeout(1, &ts, nil)), unix.ETIME, "SubmitAndWaitTimeout")
	testenv.ErrorIs(t, testenv.Err(ring.WaitCQETimeout(&ts)), unix.ETIME, "WaitCQETimeout")
	for i := range uint64(8) {
		e := ring.GetSQE()
		e.PrepareNop()
		e.UserData = i + 100
	}
	e := ring.GetSQE()
	testenv.True(t, e == nil && ring.SQReady() == 8, "full: entry %v, ready %d; want nil, 8", e, ring.SQReady())
	n := need(ring.SubmitAndWait(3))(t)
	testenv.True(t, n == 8 && ring.SQReady() == 0 && ring.CQReady() == 8,
		"submitted %d, ready %d, completed %d; want 8, 0, 8", n, ring.SQReady(), ring.CQReady())
	cqe := need(ring.WaitCQE())(t)
	testenv.Equal(t, cqe.UserData, 100, "first completion")
	ring.CQESeen(cqe)
	batch := make([]*CompletionQueueEvent, 5)
	if n := ring.PeekBatchCQE(batch); n != 5 || batch[0].UserData != 101 || batch[4].UserData != 105 {
		t.Errorf("batch of %d; want 5, from 101 on", n)
	}
	ring.CQAdvance(5)
	if n := ring.PeekBatchCQE(batch); n != 2 || batch[1].UserData != 107 {
		t.Errorf("batch of %d; want 2", n)
	}
}

func TestRingIsGivenUp(t *testing.T) {
	newTestDriver(t, Config{}).Close()
	fds, maps := openRings(t)
	for range 20 {
		ring := need(CreateRing(4))(t)
		ring.QueueExit()
	}
	f, m := openRings(t)
	testenv.True(t, f == fds && m == maps, "descriptors %d, mappings %d; want %d, %d as before", f, m, fds, maps)
	testenv.ErrorIs(t, testenv.Err(CreateRing(1<<20)), unix.EINVAL, "too many entries")
}
