//go:build linux

package uring

import (
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestSockets(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		defer unix.Close(listener)
		must(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
		must(t, unix.Listen(listener, 16))
		name, err := unix.Getsockname(listener)
		must(t, err)
		addr := new(unix.RawSockaddrAny)
		in := (*unix.RawSockaddrInet4)(unsafe.Pointer(addr))
		*in = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 1}}
		port := name.(*unix.SockaddrInet4).Port
		*(*[2]byte)(unsafe.Pointer(&in.Port)) = [2]byte{byte(port >> 8), byte(port)}

		var accepted record
		e, err := d.Entry()
		must(t, err)
		e.PrepareMultishotAccept(listener, 0, 0, unix.SOCK_CLOEXEC)
		accept := d.Track(e, &accepted)
		r := &record{keep: addr}
		for range 3 {
			c := int(result(t, d, r, func(e *SubmissionQueueEntry) {
				e.PrepareSocket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0, 0)
			}))
			if c < 0 {
				t.Fatal(syscall.Errno(-c))
			}
			defer unix.Close(c)
			want(t, "connect", result(t, d, r, func(e *SubmissionQueueEntry) {
				PrepareConnect(e, c, addr, unix.SizeofSockaddrInet4)
			}), 0)
		}
		until(t, d, func() bool { return len(accepted.res) == 3 })
		must(t, d.Cancel(accept))
		until(t, d, accepted.done)
		s := int(accepted.res[0])
		peer, err := unix.Getpeername(s)
		must(t, err)
		t.Logf("accepted from %v", peer)
		want(t, "shutdown", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareShutdown(s, unix.SHUT_WR) }), 0)
		for _, fd := range accepted.res[:3] {
			unix.Close(int(fd))
		}
	})
}

func TestSendAndReceive(t *testing.T) {
	d := newTestDriver(t, Config{})
	p := socketpair(t)
	w := &record{buf: []byte("some bytes")}
	want(t, "send", result(t, d, w, func(e *SubmissionQueueEntry) { e.PrepareSend(p[1], address(w.buf), 10, 0) }), 10)
	r := &record{buf: make([]byte, 4)}
	want(t, "recv", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareRecv(p[0], address(r.buf), 4, 0) }), 4)
	vec := &syscall.Iovec{Base: &r.buf[0], Len: 4}
	msg := &syscall.Msghdr{Iov: vec, Iovlen: 1}
	r.keep = []any{vec, msg}
	want(t, "recvmsg", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareRecvMsg(p[0], msg, 0) }), 4)
	if string(r.buf) != " byt" {
		t.Errorf("recvmsg: got %q", r.buf)
	}
	want(t, "sendmsg", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareSendMsg(p[1], msg, 0) }), 4)
}

// Each receive of a multishot takes a provided buffer; without one left it ends with
// ENOBUFS, and no byte is lost.
func TestProvidedBuffers(t *testing.T) {
	bothIssuers(t, Config{}, func(t *testing.T, d *Driver) {
		const entries, size, group = 4, 16, 7
		br, err := d.SetupBufRing(entries, group)
		if err != nil {
			t.Skip(err)
		}
		if _, err := d.SetupBufRing(entries, group); err == nil {
			t.Error("the same number twice: no error")
		}
		if _, err := d.SetupBufRing(3, group+1); err == nil {
			t.Error("three entries: no error; the number must be a power of two")
		}
		memory := make([]byte, entries*size)
		give := func(bid uint16) {
			br.BufRingAdd(address(memory)+uintptr(bid)*size, size, bid, BufRingMask(entries), 0)
			br.BufRingAdvance(1)
		}
		for i := range uint16(entries) {
			give(i)
		}
		p := socketpair(t)
		r := &record{keep: memory}
		e, err := d.Entry()
		must(t, err)
		e.PrepareRecvMultishot(p[0], 0, 0, 0)
		e.SetFlags(uint32(SqeBufferSelect))
		e.BufIG = group
		d.Track(e, r)
		must(t, d.Flush())
		for i := range byte(entries + 1) {
			if _, err := unix.Write(p[1], []byte{'a' + i}); err != nil {
				t.Fatal(err)
			}
			until(t, d, func() bool { return len(r.res) == int(i)+1 })
		}
		for i, res := range r.res[:entries] {
			if res != 1 || r.flags[i]&CQEFBuffer == 0 || r.flags[i]&CQEFMore == 0 {
				t.Fatalf("completion %d: %d, flags %#x; want 1 byte in a buffer, and more to follow", i, res, r.flags[i])
			}
			if bid := r.flags[i] >> CQEBufferShift; memory[bid*size] != 'a'+byte(i) {
				t.Errorf("buffer %d holds %q", bid, memory[bid*size])
			}
		}
		if !r.done() || r.res[entries] != -int32(unix.ENOBUFS) {
			t.Fatalf("without buffers: %v, flags %#x; want ENOBUFS, the last", r.res[entries], r.flags[entries])
		}
		give(uint16(r.flags[2] >> CQEBufferShift))
		r2 := &record{keep: memory}
		want(t, "recv", result(t, d, r2, func(e *SubmissionQueueEntry) {
			e.PrepareRecv(p[0], 0, size, 0)
			e.SetFlags(uint32(SqeBufferSelect))
			e.BufIG = group
		}), 1)
		if bid := r2.flags[0] >> CQEBufferShift; bid != r.flags[2]>>CQEBufferShift || memory[bid*size] != 'a'+entries {
			t.Errorf("buffer %d holds %q", bid, memory[bid*size])
		}
	})
}

func TestDirectDescriptors(t *testing.T) {
	d := newTestDriver(t, Config{})
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(listener)
	name := &unix.SockaddrUnix{Name: filepath.Join(t.TempDir(), "s")}
	must(t, unix.Bind(listener, name))
	must(t, unix.Listen(listener, 16))
	must(t, d.RegisterFiles([]int32{-1, -1, -1}))
	connect := func() int {
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		t.Cleanup(func() { unix.Close(c) })
		must(t, unix.Connect(c, name))
		return c
	}
	r := &record{buf: []byte("x")}
	first := connect()
	got := result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareAcceptDirect(listener, 0, 0, 0, 1) })
	if got == -int32(unix.EINVAL) {
		t.Skip("no direct descriptors: they came with Linux 5.15")
	}
	want(t, "accept into slot 1", got, 0)
	send := func(slot int) int32 {
		return result(t, d, r, func(e *SubmissionQueueEntry) {
			e.PrepareSend(slot, address(r.buf), 1, 0)
			e.SetFlags(uint32(SqeFixedFile))
		})
	}
	want(t, "send", send(1), 1)
	if n, err := unix.Read(first, make([]byte, 2)); n != 1 {
		t.Errorf("the peer got %d bytes, %v", n, err)
	}
	want(t, "close", result(t, d, r, func(e *SubmissionQueueEntry) { e.PrepareCloseDirect(1) }), 0)
	want(t, "send after close", send(1), -int32(unix.EBADF))

	var accepted record
	e, err := d.Entry()
	must(t, err)
	e.PrepareMultishotAcceptDirect(listener, 0, 0, 0)
	token := d.Track(e, &accepted)
	must(t, d.Flush())
	connect()
	connect()
	until(t, d, func() bool { return len(accepted.res) == 2 })
	if a, b := accepted.res[0], accepted.res[1]; a == b || min(a, b) < 0 || max(a, b) > 2 {
		t.Errorf("slots %d and %d; want two of 0, 1, 2", a, b)
	}
	must(t, d.Cancel(token))
	until(t, d, accepted.done)
}

// A send without a copy has a second completion, for its memory.
func TestSendZeroCopy(t *testing.T) {
	d := newTestDriver(t, Config{})
	if !d.Supports(OpSendMsgZC) {
		t.Skip("no sends without a copy: they came with Linux 6.1")
	}
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(listener)
	must(t, unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(listener)
	must(t, err)
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(s)
	must(t, unix.Connect(s, name))
	buf := []byte("without a copy")
	vec := &syscall.Iovec{Base: &buf[0], Len: 4}
	msg := &syscall.Msghdr{Iov: vec, Iovlen: 1}
	for length, prepare := range map[int]func(e *SubmissionQueueEntry){
		len(buf): func(e *SubmissionQueueEntry) { PrepareSendZC(e, s, &buf[0], uint32(len(buf)), 0, 0) },
		4:        func(e *SubmissionQueueEntry) { e.PrepareSendmsgZC(s, msg, 0) },
	} {
		r := &record{keep: []any{buf, vec, msg}}
		e, err := d.Entry()
		must(t, err)
		prepare(e)
		d.Track(e, r)
		until(t, d, func() bool { return len(r.res) > 0 })
		want(t, "send", r.res[0], int32(length))
		got := make([]byte, 100)
		if n, err := unix.Read(listener, got); n != length {
			t.Errorf("received %d bytes, %v; want %d", n, err, length)
		}
		until(t, d, r.done) // the receiver held the pages
		if len(r.res) != 2 || r.flags[1]&CQEFNotif == 0 {
			t.Errorf("completions %v, flags %v; want a second with CQEFNotif", r.res, r.flags)
		}
	}
}

func TestMultishotReceiveOfMessages(t *testing.T) {
	d := newTestDriver(t, Config{})
	br, err := d.SetupBufRing(2, 1)
	if err != nil {
		t.Skip(err)
	}
	r := &record{buf: make([]byte, 128), keep: new(syscall.Msghdr)}
	for i := range uint16(2) {
		br.BufRingAdd(address(r.buf)+uintptr(i)*64, 64, i, BufRingMask(2), int(i))
	}
	br.BufRingAdvance(2)
	p := socketpair(t)
	e, err := d.Entry()
	must(t, err)
	e.PrepareRecvMsgMultishot(p[0], r.keep.(*syscall.Msghdr), 0)
	e.SetFlags(uint32(SqeBufferSelect))
	e.BufIG = 1
	k := d.Track(e, r)
	for i := range 2 {
		_, err = unix.Write(p[1], []byte("message"))
		must(t, err)
		until(t, d, func() bool { return len(r.res) > i })
		const header = 16 // struct io_uring_recvmsg_out
		want(t, "recvmsg", r.res[i], header+7)
		at := 64*int(r.flags[i]>>CQEBufferShift) + header
		if got := string(r.buf[at : at+7]); got != "message" {
			t.Errorf("got %q", got)
		}
	}
	must(t, d.Cancel(k))
	until(t, d, r.done)
}
