//go:build linux

package uring

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// result is request for one completion.
func result(t testing.TB, d *Driver, r *record, prepare func(e *SubmissionQueueEntry)) int32 {
	t.Helper()
	*r = record{buf: r.buf, keep: r.keep}
	request(t, d, r, prepare)
	return r.res[0]
}

func want(t testing.TB, what string, got, want int32) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %d (%v), want %d", what, got, syscall.Errno(max(-got, 0)), want)
	}
}

// Of a chain of links each begins when the one before has succeeded; Reserve keeps it in
// one piece.
func TestLinks(t *testing.T) {
	d := newTestDriver(t, Config{Entries: 8})
	p := pipe(t)
	for filler := range 8 {
		var fill last
		for range filler {
			e, err := d.Entry()
			must(t, err)
			e.PrepareNop()
			d.Track(e, &fill)
		}
		must(t, d.Reserve(3))
		w, bad, never := &record{buf: []byte("x")}, new(record), new(record)
		link := func(r *record, flags uint8, prepare func(e *SubmissionQueueEntry)) {
			e, err := d.Entry()
			must(t, err)
			prepare(e)
			e.SetFlags(uint32(flags))
			d.Track(e, r)
		}
		link(w, SqeIOLink, func(e *SubmissionQueueEntry) { e.PrepareWrite(p[1], address(w.buf), 1, 0) })
		link(bad, SqeIOLink, func(e *SubmissionQueueEntry) { e.PrepareClose(-1) })
		link(never, 0, func(e *SubmissionQueueEntry) { e.PrepareNop() })
		until(t, d, never.done)
		until(t, d, bad.done)
		want(t, "write", w.res[0], 1)
		want(t, "close", bad.res[0], -int32(unix.EBADF))
		want(t, "what follows a failure", never.res[0], -int32(unix.ECANCELED))
	}
}

func TestMultishotPoll(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		must(t, err)
		defer unix.Close(fd)
		var r record
		e, err := d.Entry()
		must(t, err)
		e.PreparePollMultishot(fd, unix.POLLIN)
		token := d.Track(e, &r)
		must(t, d.Flush())
		for i := range 20 {
			if _, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
				t.Fatal(err)
			}
			until(t, d, func() bool { return len(r.res) > i })
		}
		if r.done() || d.InFlight() != 1 {
			t.Fatalf("ended: flags %v, in flight %d", r.flags, d.InFlight())
		}
		must(t, d.Cancel(token))
		until(t, d, r.done)
	})
}

func TestRegisteredFiles(t *testing.T) {
	d := newTestDriver(t, Config{})
	p := pipe(t)
	must(t, d.RegisterFiles([]int32{-1, int32(p[1]), -1}))
	w := &record{buf: []byte("x")}
	write := func(slot int) int32 {
		return result(t, d, w, func(e *SubmissionQueueEntry) {
			e.PrepareWrite(slot, address(w.buf), 1, 0)
			e.SetFlags(uint32(SqeFixedFile))
		})
	}
	want(t, "slot 1", write(1), 1)
	want(t, "slot 2", write(2), -int32(unix.EBADF))
	must(t, d.UpdateFiles(1, []int32{-1, int32(p[1])}))
	want(t, "slot 1, emptied", write(1), -int32(unix.EBADF))
	want(t, "slot 2, filled", write(2), 1)
	if err := d.UpdateFiles(3, []int32{int32(p[1])}); err == nil {
		t.Error("a slot that is not there: no error")
	}
	if err := d.RegisterFiles(nil); err == nil {
		t.Error("no files: no error")
	}
	must(t, d.UnregisterFiles())
	want(t, "without a table", write(2), -int32(unix.EBADF))
}

func TestSupports(t *testing.T) {
	d := newTestDriver(t, Config{})
	if !d.Supports(OpNop) || !d.Supports(OpRead) || d.Supports(255) {
		t.Errorf("no-op %v, read %v, operation 255 %v; want true, true, false", d.Supports(OpNop), d.Supports(OpRead), d.Supports(255))
	}
}
