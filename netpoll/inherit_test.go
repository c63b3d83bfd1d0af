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
		first := testenv.Need(Listen("tcp", "127.0.0.1:0"))(t)
		echo := func(c *Conn) { defer c.Close(); io.Copy(c, c) }
		ended := make(chan error, 8)
		go func() { ended <- Serve(first, echo) }()
		try := func() {
			t.Helper()
			nc := testenv.Need(net.Dial("tcp", first.Addr().String()))(t)
			defer nc.Close()
			nc.Write([]byte("x"))
			testenv.Need(io.ReadFull(nc, make([]byte, 1)))(t)
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
			fd := testenv.Need(unix.FcntlInt(numberOf(f), unix.F_DUPFD_CLOEXEC, 0))(t)
			f.Close()
			ln := testenv.Need(ListenOn(fd, false))(t)
			second = append(second, ln)
			testenv.Equal(t, ln.Addr().String(), first.Addr().String(), "listens on")
		}
		// Nobody accepts from the second ones yet: a client that comes now waits for them.
		first.Close()
		<-ended
		waiting := testenv.Need(net.Dial("tcp", second[0].Addr().String()))(t)
		for _, ln := range second {
			go func() { ended <- Serve(ln, echo) }()
		}
		waiting.Write([]byte("x"))
		testenv.Check(t, testenv.Err(io.ReadFull(waiting, make([]byte, 1))))
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
		testenv.Fails(t, testenv.Err(net.Dial("tcp", first.Addr().String())), "somebody still listens")
		rt.Close()
	}
}

// TestSharedListenerLeavesTheQueue: when a shared one is drained, what waits stays for the others.
func TestSharedListenerLeavesTheQueue(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	owner := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer owner.Close()
	file := testenv.Need(owner.(*net.TCPListener).File())(t)
	fd := testenv.Need(unix.FcntlInt(numberOf(file), unix.F_DUPFD_CLOEXEC, 0))(t)
	file.Close()
	ln := testenv.Need(ListenOn(fd, true))(t)
	nc := testenv.Need(net.Dial("tcp", ln.Addr().String()))(t)
	defer nc.Close()
	testenv.Check(t, ln.Drain(context.Background()))
	later, err := net.Dial("tcp", owner.Addr().String())
	if err != nil {
		t.Fatal("new clients are kept out:", err)
	}
	defer later.Close()
	for range 2 {
		c := testenv.Need(owner.Accept())(t)
		c.Close()
	}
}

// TestListenOnRemovesTheFileIfToldTo: by itself it leaves the file of a unix socket.
func TestListenOnRemovesTheFileIfToldTo(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	for _, remove := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "s")
		first := testenv.Need(Listen("unix", path))(t)
		first.SetUnlinkOnClose(false)
		second := testenv.Need(ListenOn(handedOver(t, first), false))(t)
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
	first := testenv.Need(Listen("tcp", "127.0.0.1:0"))(t)
	second := testenv.Need(ListenOn(handedOver(t, first), true))(t)
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
	files := testenv.Need(ln.Files())(t)
	testenv.MustEqual(t, len(files), 1, "sockets")
	defer files[0].Close()
	fd = testenv.Need(unix.FcntlInt(numberOf(files[0]), unix.F_DUPFD_CLOEXEC, 0))(t)
	return fd
}

func TestListenOnWhatDoesNotListen(t *testing.T) {
	rt := newRuntime(t, 1)
	defer rt.Close()
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	defer w.Close()
	stream := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))(t)
	defer unix.Close(stream)
	datagram := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0))(t)
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
	rt := testenv.Need(engine.New(engine.Config{Loops: loops, NewPoller: func(int) (engine.Poller, error) { return newEpoll() }}))(t)
	return rt
}

func numberOf(f *os.File) (number uintptr) {
	raw, err := f.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { number = fd })
	}
	return number
}
