//go:build linux

package netpoll

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestListenOnAnothersSocket: connections that come before, and while two listeners have the
// socket, are all served, and closing one of them loses none.
func TestListenOnAnothersSocket(t *testing.T) {
	for _, loops := range []int{1, 3} {
		rt := newRuntime(t, loops)
		first, err := Listen("tcp", "127.0.0.1:0")
		testenv.Must(t, err)
		echo := func(c *Conn) { defer c.Close(); io.Copy(c, c) }
		ended := make(chan error, 8)
		go func() { ended <- Serve(first, echo) }()
		try := func() {
			t.Helper()
			nc, err := net.Dial("tcp", first.Addr().String())
			testenv.Must(t, err)
			defer nc.Close()
			nc.Write([]byte("x"))
			if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			try()
		}
		files, err := first.Files()
		if err != nil || len(files) != loops {
			t.Fatalf("%d sockets of %d loops, %v", len(files), loops, err)
		}
		var second []*Listener
		for _, f := range files {
			fd, err := unix.FcntlInt(numberOf(f), unix.F_DUPFD_CLOEXEC, 0)
			testenv.Must(t, err)
			f.Close()
			ln, err := ListenOn(fd, false)
			testenv.Must(t, err)
			second = append(second, ln)
			if ln.Addr().String() != first.Addr().String() {
				t.Errorf("listens on %v, want %v", ln.Addr(), first.Addr())
			}
		}
		// Nobody accepts from the second ones yet: a client that comes now waits for them.
		first.Close()
		<-ended
		waiting, err := net.Dial("tcp", second[0].Addr().String())
		testenv.Must(t, err)
		for _, ln := range second {
			go func() { ended <- Serve(ln, echo) }()
		}
		waiting.Write([]byte("x"))
		if _, err := io.ReadFull(waiting, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		waiting.Close()
		for range 20 {
			try()
		}
		if again, err := second[0].Files(); err != nil || len(again) != 1 {
			t.Errorf("%d sockets of one, %v", len(again), err)
		} else {
			again[0].Close()
		}
		for _, ln := range second {
			testenv.Check(t, ln.Drain(context.Background()))
			<-ended
		}
		if _, err := net.Dial("tcp", first.Addr().String()); err == nil {
			t.Error("somebody still listens")
		}
		rt.Close()
	}
}

// TestSharedListenerLeavesTheQueue: when a shared one is drained, what waits stays for the others.
func TestSharedListenerLeavesTheQueue(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	owner, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer owner.Close()
	file, err := owner.(*net.TCPListener).File()
	testenv.Must(t, err)
	fd, err := unix.FcntlInt(numberOf(file), unix.F_DUPFD_CLOEXEC, 0)
	testenv.Must(t, err)
	file.Close()
	ln, err := ListenOn(fd, true)
	testenv.Must(t, err)
	nc, err := net.Dial("tcp", ln.Addr().String())
	testenv.Must(t, err)
	defer nc.Close()
	testenv.Check(t, ln.Drain(context.Background()))
	later, err := net.Dial("tcp", owner.Addr().String())
	if err != nil {
		t.Fatal("new clients are kept out:", err)
	}
	defer later.Close()
	for range 2 {
		c, err := owner.Accept()
		testenv.Must(t, err)
		c.Close()
	}
}

// TestListenOnRemovesTheFileIfToldTo: by itself it leaves the file of a unix socket.
func TestListenOnRemovesTheFileIfToldTo(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	for _, remove := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "s")
		first, err := Listen("unix", path)
		testenv.Must(t, err)
		first.SetUnlinkOnClose(false)
		second, err := ListenOn(handedOver(t, first), false)
		testenv.Must(t, err)
		if remove {
			second.SetUnlinkOnClose(true)
		}
		testenv.Check(t, first.Close())
		testenv.Check(t, second.Close())
		if _, err := os.Lstat(path); (err == nil) == remove {
			t.Errorf("told to remove the file: %v; and of the file: %v", remove, err)
		}
	}
}

// TestDrainLeavesTheSocketToOthers: what keeps new clients out belongs to the socket, which may be that of
// another process by then. It goes in the end.
func TestDrainLeavesTheSocketToOthers(t *testing.T) {
	if !testenv.SocketFilters() {
		t.Skip("no socket filter can be had here")
	}
	rt := newRuntime(t, 1)
	defer rt.Close()
	first, err := Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	second, err := ListenOn(handedOver(t, first), true)
	testenv.Must(t, err)
	defer second.Close()
	testenv.Check(t, first.Drain(context.Background()))
	nc, err := net.DialTimeout("tcp", second.Addr().String(), 10*time.Second)
	if err != nil {
		t.Fatal("new clients are kept out for good:", err)
	}
	nc.Close()
}

// handedOver is a duplicate of the only socket of ln, as another process would get it.
func handedOver(t *testing.T, ln *Listener) (fd int) {
	t.Helper()
	files, err := ln.Files()
	testenv.Must(t, err)
	if len(files) != 1 {
		t.Fatalf("%d sockets, want 1", len(files))
	}
	defer files[0].Close()
	fd, err = unix.FcntlInt(numberOf(files[0]), unix.F_DUPFD_CLOEXEC, 0)
	testenv.Must(t, err)
	return fd
}

func TestListenOnWhatDoesNotListen(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	defer w.Close()
	stream, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	testenv.Must(t, err)
	defer unix.Close(stream)
	datagram, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	testenv.Must(t, err)
	defer unix.Close(datagram)
	for _, fd := range []int{int(r.Fd()), stream, datagram, 9999, -1} {
		if ln, err := ListenOn(fd, false); err == nil {
			t.Errorf("%d is taken", fd)
			ln.Close()
		}
	}
}

func newRuntime(t *testing.T, loops int) *engine.Runtime {
	t.Helper()
	rt, err := engine.New(engine.Config{Loops: loops, NewPoller: func(int) (engine.Poller, error) { return newEpoll() }})
	testenv.Must(t, err)
	return rt
}

func numberOf(f *os.File) (number uintptr) {
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { number = fd })
	}
	return number
}
