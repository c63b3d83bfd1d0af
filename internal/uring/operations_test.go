//go:build linux

package uring

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

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

func path(t testing.TB, elem ...string) *byte {
	p, err := unix.BytePtrFromString(filepath.Join(elem...))
	must(t, err)
	return p
}

func TestFiles(t *testing.T) {
	d := newTestDriver(t, Config{})
	dir := t.TempDir()
	r := new(record)
	name, other := path(t, dir, "a"), path(t, dir, "b")
	how := &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC, Mode: 0o600}
	r.keep = []any{name, other, how}
	fd := int(result(t, d, r, func(e *SubmissionQueueEntry) { PrepareOpenat2(e, unix.AT_FDCWD, name, how) }))
	if fd < 0 {
		t.Fatal(syscall.Errno(-fd))
	}
	defer unix.Close(fd)
	want(t, "fallocate", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareFallocate(fd, 0, 0, 8192) }), 0)
	want(t, "fadvise", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareFadvise(fd, 0, 4096, unix.FADV_WILLNEED) }), 0)
	want(t, "fsync", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareFsync(fd, 0) }), 0)
	want(t, "sync_file_range", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareSyncFileRange(fd, 4096, 0, 0) }), 0)
	stat := new(unix.Statx_t)
	r.keep = []any{name, other, stat}
	want(t, "statx", result(t, d, r, func(e *SubmissionQueueEntry) {
		PrepareStatx(e, unix.AT_FDCWD, name, 0, unix.STATX_SIZE, stat)
	}), 0)
	if stat.Size != 8192 {
		t.Errorf("size: got %d, want 8192", stat.Size)
	}
	if d.Supports(OpFtruncate) {
		want(t, "ftruncate", result(t, d, r, func(e *SubmissionQueueEntry) { PrepareFtruncate(e, fd, 5000) }), 0)
		want(t, "statx", result(t, d, r, func(e *SubmissionQueueEntry) {
			PrepareStatx(e, unix.AT_FDCWD, name, 0, unix.STATX_SIZE, stat)
		}), 0)
		if stat.Size != 5000 {
			t.Errorf("size: got %d, want 5000", stat.Size)
		}
	}
	want(t, "rename", result(t, d, r, func(e *SubmissionQueueEntry) {
		PrepareRenameat(e, unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_NOREPLACE)
	}), 0)
	want(t, "link", result(t, d, r, func(e *SubmissionQueueEntry) {
		PrepareLinkat(e, unix.AT_FDCWD, other, unix.AT_FDCWD, name, 0)
	}), 0)
	want(t, "unlink", result(t, d, r, func(e *SubmissionQueueEntry) { PrepareUnlinkat(e, unix.AT_FDCWD, other, 0) }), 0)
	want(t, "symlink", result(t, d, r, func(e *SubmissionQueueEntry) { PrepareSymlinkat(e, name, unix.AT_FDCWD, other) }), 0)
	if target, err := os.Readlink(filepath.Join(dir, "b")); err != nil || target != filepath.Join(dir, "a") {
		t.Errorf("symlink: %q, %v", target, err)
	}
	folder := path(t, dir, "c")
	r.keep = folder
	want(t, "mkdir", result(t, d, r, func(e *SubmissionQueueEntry) { PrepareMkdirat(e, unix.AT_FDCWD, folder, 0o700) }), 0)
	want(t, "mkdir", result(t, d, r, func(e *SubmissionQueueEntry) {
		PrepareMkdirat(e, unix.AT_FDCWD, folder, 0o700)
	}), -int32(unix.EEXIST))
	second, err := unix.Dup(fd)
	must(t, err)
	want(t, "close", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareClose(second) }), 0)
	want(t, "close", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareClose(second) }), -int32(unix.EBADF))
}

func TestVectors(t *testing.T) {
	d := newTestDriver(t, Config{})
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	fd := int(f.Fd())
	buf := []byte("one, two")
	vecs := []unix.Iovec{{Base: &buf[0], Len: 3}, {Base: &buf[3], Len: 5}}
	r := &record{keep: vecs}
	at := uintptr(unsafe.Pointer(&vecs[0]))
	want(t, "writev", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareWritev(fd, at, 2, 0) }), 8)
	want(t, "writev2", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareWritev2(fd, at, 2, 8, unix.RWF_DSYNC) }), 8)
	clear(buf)
	want(t, "readv", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareReadv(fd, at, 2, 3) }), 8)
	if string(buf) != ", twoone" {
		t.Errorf("readv: got %q", buf)
	}
	want(t, "readv2", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareReadv2(fd, at, 2, 14, 0) }), 2)
}

func TestSplice(t *testing.T) {
	d := newTestDriver(t, Config{})
	f, err := os.CreateTemp(t.TempDir(), "")
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("0123456789")
	must(t, err)
	p, s := pipe(t), socketpair(t)
	r := new(record)
	want(t, "splice in", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareSplice(int(f.Fd()), 4, p[1], -1, 100, 0) }), 6)
	want(t, "splice out", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareSplice(p[0], -1, s[1], -1, 100, 0) }), 6)
	buf := make([]byte, 10)
	if n, err := unix.Read(s[0], buf); err != nil || string(buf[:n]) != "456789" {
		t.Errorf("got %q, %v", buf[:max(n, 0)], err)
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

func TestLinkTimeout(t *testing.T) {
	d := newTestDriver(t, Config{})
	p := pipe(t)
	poll, timeout := new(record), &record{keep: &unix.Timespec{Nsec: 1_000_000}}
	must(t, d.Reserve(2))
	e, err := d.Entry()
	must(t, err)
	e.PreparePollAdd(p[0], unix.POLLIN)
	e.SetFlags(uint32(SqeIOLink))
	d.Track(e, poll)
	e, err = d.Entry()
	must(t, err)
	PrepareLinkTimeout(e, timeout.keep.(*unix.Timespec), 0)
	d.Track(e, timeout)
	until(t, d, func() bool { return poll.done() && timeout.done() })
	want(t, "poll", poll.res[0], -int32(unix.ECANCELED))
	want(t, "timeout", timeout.res[0], -int32(unix.ETIME))
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

func TestMessageBetweenRings(t *testing.T) {
	d, other := newTestDriver(t, Config{}), newTestDriver(t, Config{})
	if !d.Supports(OpMsgRing) {
		t.Skip("no messages between rings: they came with Linux 5.18")
	}
	var got, sent record
	p := pipe(t)
	e, err := d.Entry()
	must(t, err)
	e.PreparePollAdd(p[0], unix.POLLIN) // stands for the token
	token := d.Track(e, &got)
	must(t, d.Flush())
	request(t, other, &sent, func(e *SubmissionQueueEntry) {
		e.PrepareMsgRingCqeFlags(d.Fd(), 42, uint64(token), 0, CQEFMore)
	})
	if sent.res[0] == -int32(unix.EINVAL) {
		t.Skip("no flags in messages: they came with Linux 6.3")
	}
	until(t, d, func() bool { return len(got.res) == 1 })
	if got.res[0] != 42 || got.done() {
		t.Errorf("got %d, flags %#x; want 42 and more to follow", got.res[0], got.flags[0])
	}
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

func TestRegisteredBuffers(t *testing.T) {
	d := newTestDriver(t, Config{})
	p := pipe(t)
	w, r := &record{buf: []byte("0123456789")}, &record{buf: make([]byte, 10)}
	_, err := d.Ring().RegisterBuffers([]syscall.Iovec{{Base: &w.buf[0], Len: 10}, {Base: &r.buf[0], Len: 10}})
	must(t, err)
	want(t, "write", result(t, d, w, func(e *SubmissionQueueEntry) { e.PrepareWriteFixed(p[1], address(w.buf)+2, 5, 0, 0) }), 5)
	want(t, "read", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareReadFixed(p[0], address(r.buf), 10, 0, 1) }), 5)
	if string(r.buf[:5]) != "23456" {
		t.Errorf("got %q", r.buf)
	}
	want(t, "outside", result(t, d, w, func(e *SubmissionQueueEntry) { e.PrepareWriteFixed(p[1], address(w.buf)+8, 5, 0, 0) }), -int32(unix.EFAULT))
	_, err = d.Ring().UnregisterBuffers()
	must(t, err)
}

func TestSupports(t *testing.T) {
	d := newTestDriver(t, Config{})
	if !d.Supports(OpNop) || !d.Supports(OpRead) || d.Supports(255) {
		t.Errorf("no-op %v, read %v, operation 255 %v; want true, true, false", d.Supports(OpNop), d.Supports(OpRead), d.Supports(255))
	}
}

func TestChangedPolls(t *testing.T) {
	d := newTestDriver(t, Config{})
	p := pipe(t)
	poll := func(r *record) Token {
		e, err := d.Entry()
		must(t, err)
		e.PreparePollAdd(p[1], unix.POLLPRI) // never
		k := d.Track(e, r)
		must(t, d.Flush())
		return k
	}
	var r, updated, removed, byFd record
	k := poll(&updated)
	want(t, "update", result(t, d, &r, func(e *SubmissionQueueEntry) {
		e.PreparePollUpdate(uint64(k), 0, unix.POLLOUT, PollUpdateEvents)
	}), 0)
	until(t, d, updated.done)
	want(t, "updated poll", updated.res[0], unix.POLLOUT)
	k = poll(&removed)
	want(t, "remove", result(t, d, &r, func(e *SubmissionQueueEntry) { e.PreparePollRemove(uint64(k)) }), 0)
	until(t, d, removed.done)
	want(t, "removed poll", removed.res[0], -int32(unix.ECANCELED))
	poll(&byFd)
	want(t, "cancel", result(t, d, &r, func(e *SubmissionQueueEntry) { e.PrepareCancelFd(p[1], AsyncCancelAll) }), 1)
	until(t, d, byFd.done)
	want(t, "cancelled poll", byFd.res[0], -int32(unix.ECANCELED))
}

func TestMadviseAndTee(t *testing.T) {
	d := newTestDriver(t, Config{})
	r := new(record)
	m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	defer unix.Munmap(m)
	m[0] = 1
	want(t, "madvise", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareMadvise(address(m), 4096, unix.MADV_DONTNEED) }), 0)
	if m[0] != 0 {
		t.Error("madvise had no effect")
	}
	p, q := pipe(t), pipe(t)
	_, err = unix.Write(p[1], []byte("twice"))
	must(t, err)
	want(t, "tee", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareTee(p[0], q[1], 100, 0) }), 5)
	for _, fd := range []int{p[0], q[0]} {
		if n, _ := unix.Read(fd, make([]byte, 10)); n != 5 {
			t.Errorf("read %d bytes, want 5", n)
		}
	}
}
