//go:build linux

package netpoll

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestPackets(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range networks("udp", "udp4", "udp6", "unixgram") {
			a, b := listenPacket(t, network), listenPacket(t, network)
			for _, size := range []int{0, 1, 1000, 30_000} {
				want := pattern(size)
				sender := spawn(func() { testenv.Got(a.WriteTo(want, b.LocalAddr()))(t, size, "%s: sent", network) })
				buf := make([]byte, 40_000)
				n, from, err := b.ReadFrom(buf)
				must(t, err)
				must(t, sender())
				testenv.True(t, string(buf[:n]) == string(want) && from.String() == a.LocalAddr().String(),
					"%s: got %d bytes from %v, want %d from %v", network, n, from, size, a.LocalAddr())
			}
			must(t, b.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
			_, _, err := b.ReadFrom(make([]byte, 1))
			testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, network)
			must(t, b.SetDeadline(time.Time{}))
			reader := spawn(func() {
				_, _, err := b.ReadFrom(make([]byte, 1))
				testenv.ErrorIs(t, err, net.ErrClosed, network)
			})
			awaitWaiter(&b.d.read)
			must(t, b.Close())
			must(t, reader())
		}
	})
}

// The sender of unix datagrams waits for a receiver whose queue is full.
func TestUnixgramFullQueue(t *testing.T) {
	both(t, func(t *testing.T) {
		a, b := listenPacket(t, "unixgram"), listenPacket(t, "unixgram")
		const n = 1000 // more than net.unix.max_dgram_qlen
		sender := spawn(func() {
			for i := range n {
				need(a.WriteTo([]byte{byte(i)}, b.LocalAddr()))(t)
			}
		})
		for i := range n {
			reads(t, b, string([]byte{byte(i)}), "datagram %d", i)
		}
		must(t, sender())
	})
}

func TestMappedPacketsAndErrors(t *testing.T) {
	withEpoll(t)
	a := listenPacket(t, "udp")
	b := closing(t, need(ListenPacket("udp", ":0"))(t)) // both versions: IPv4 addresses are mapped
	buf := make([]byte, 10)
	_, _, err := a.WriteMsg([]byte("hi"), nil, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), b.local.Port))
	must(t, err)
	n, _, _, from, err := b.ReadMsg(buf, nil)
	testenv.True(t, string(buf[:n]) == "hi" && from.String() == a.LocalAddr().String() && err == nil,
		"got %q from %v, %v, want \"hi\" from %v", buf[:n], from, err, a.LocalAddr())
	_, _, err = b.WriteMsg(buf[:n], nil, from)
	must(t, err)
	_, _, err = a.ReadFrom(buf)
	must(t, err)
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(nil, &net.TCPAddr{})), unix.EINVAL, "WriteTo of a TCP address")
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(nil, &net.UnixAddr{Name: "/x"})), unix.EINVAL, "WriteTo of a unix address")
	testenv.Fails(t, testenv.Err(a.WriteTo(nil, &net.UDPAddr{IP: net.IPv6loopback, Port: 1})), "an IPv4 socket sent to an IPv6 address")
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(make([]byte, 1<<17), a.LocalAddr())), unix.EMSGSIZE, "a datagram of 128 KiB")
	testenv.ErrorIs(t, testenv.Err(ListenPacket("tcp", "127.0.0.1:0")), net.UnknownNetworkError("tcp"), "ListenPacket of tcp")
}

func TestUnixgramFile(t *testing.T) {
	withEpoll(t)
	path := filepath.Join(t.TempDir(), "socket")
	must(t, need(ListenPacket("unixgram", path))(t).Close())
	testenv.ErrorIs(t, testenv.Err(os.Stat(path)), os.ErrNotExist, "the file of a closed socket is still there")
}

// A datagram takes no memory but the caller's, with the address in a netip.AddrPort.
func TestDatagramsAllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	both(t, func(t *testing.T) {
		a, b := listenPacket(t, "udp4"), listenPacket(t, "udp4")
		to, buf := b.LocalAddr().(*net.UDPAddr).AddrPort(), make([]byte, 8)
		n := testing.AllocsPerRun(100, func() {
			_, _, sent := a.WriteMsg(buf, nil, to)
			_, _, _, _, received := b.ReadMsg(buf, nil)
			if sent != nil || received != nil {
				t.Error(sent, received)
			}
		})
		testenv.Equal(t, n, 0, "allocations to send and receive one")
	})
}

// A Dial that fails leaves no file of the address that it came from: the next could not have it.
func TestFailedDialLeavesNoFile(t *testing.T) {
	withEpoll(t)
	from := filepath.Join(t.TempDir(), "from")
	d := &Dialer{LocalAddr: &net.UnixAddr{Name: from, Net: "unixgram"}}
	for range 2 {
		testenv.ErrorIs(t, testenv.Err(d.Dial("unixgram", from+"-nobody")), unix.ENOENT)
	}
	testenv.ErrorIs(t, testenv.Err(os.Lstat(from)), os.ErrNotExist, "the file %s", from)
}

func TestMessages(t *testing.T) {
	both(t, func(t *testing.T) {
		a, b := listenPacket(t, "udp4"), listenPacket(t, "udp4")
		must(t, b.SetReadBuffer(100_000))
		must(t, b.SetWriteBuffer(100_000))
		must(t, unix.SetsockoptInt(int(b.d.fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
		testenv.Got(unix.GetsockoptInt(int(b.d.fd), unix.SOL_SOCKET, unix.SO_RCVBUF))(t, 200_000, "the buffer, which the kernel doubles")
		to := netip.MustParseAddrPort(b.LocalAddr().String())
		reader := spawn(func() {
			buf, oob := make([]byte, 4), make([]byte, 100)
			n, oobn, flags, from, err := b.ReadMsg(buf, oob)
			testenv.True(t, n == 4 && oobn != 0 && flags&unix.MSG_TRUNC != 0 && from.String() == a.LocalAddr().String() && err == nil,
				"ReadMsg: %d, %d, %x, %v, %v", n, oobn, flags, from, err)
		})
		n, _, err := a.WriteMsg([]byte("longer"), nil, to)
		testenv.Got(n, err)(t, 6, "WriteMsg")
		must(t, reader())
		c := dialPacket(t, b.LocalAddr())
		_, _, err = c.WriteMsg([]byte("x"), nil, to)
		testenv.ErrorIs(t, err, net.ErrWriteToConnected, "WriteMsg to an address on a connected socket")
		_, _, err = c.WriteMsg([]byte("x"), nil, netip.AddrPort{})
		must(t, err)
		n, _, _, from, err := b.ReadMsg(make([]byte, 4), nil)
		testenv.Got(n, err)(t, 1, "ReadMsg")
		testenv.Equal(t, from.String(), c.LocalAddr().String(), "it came from")
		passDescriptor(t)
	})
}

// passDescriptor sends a descriptor over a unix socket.
func passDescriptor(t *testing.T) {
	in := listenPacket(t, "unixgram")
	_, _, err := dialPacket(t, in.LocalAddr()).WriteMsg([]byte("fd"), unix.UnixRights(0), netip.AddrPort{})
	must(t, err)
	oob := make([]byte, 100)
	_, oobn, _, _, err := in.ReadMsg(make([]byte, 10), oob)
	must(t, err)
	all := need(unix.ParseSocketControlMessage(oob[:oobn]))(t)
	fds, err := unix.ParseUnixRights(&all[0])
	testenv.True(t, len(fds) == 1 && err == nil, "received descriptors %v, %v", fds, err)
	for _, fd := range fds {
		unix.Close(fd)
	}
}

func TestPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w := pipe(t)
		want := pattern(1 << 20)
		writer := spawn(func() {
			testenv.Got(w.Write(want))(t, len(want), "written")
			must(t, w.Close())
		})
		sameBytes(t, need(io.ReadAll(r))(t), want, "pipe")
		must(t, writer())
		must(t, r.Close())
		_, err := r.Read(make([]byte, 1))
		var pe *fs.PathError
		testenv.True(t, errors.Is(err, net.ErrClosed) && errors.Is(err, os.ErrClosed) && errors.As(err, &pe) && pe.Op == "read",
			"Read after Close: %v, want a *fs.PathError that is net.ErrClosed and os.ErrClosed", err)
	})
}

// Errors of a pipe: the ends are not to be confused, and that does not hang; nobody reads any more; a deadline passes.
func TestErrorsOfPipes(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w := pipe(t)
		much := make([]byte, 1<<20)
		must(t, w.SetReadDeadline(time.Now().Add(10*time.Second)))
		readFails(t, w, unix.EBADF, "from the end that is written")
		testenv.ErrorIs(t, testenv.Err(r.Write([]byte("x"))), unix.EBADF, "writing to the end that is read")
		must(t, r.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		readFails(t, r, os.ErrDeadlineExceeded, "Read until a deadline")
		must(t, w.SetWriteDeadline(time.Now().Add(5*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(w.Write(much)), os.ErrDeadlineExceeded, "Write until a deadline")
		must(t, w.SetWriteDeadline(time.Time{}))
		writer := spawn(func() { testenv.ErrorIs(t, testenv.Err(w.Write(much)), unix.EPIPE, "Write without a reader") })
		awaitWaiter(&w.d.write)
		must(t, r.Close())
		must(t, writer())
	})
}

// One descriptor for both ends, as a FIFO opened for reading and writing is.
func TestNewFile(t *testing.T) {
	both(t, func(t *testing.T) {
		f := adopt(t, openFIFO(t))
		reader := spawn(func() {
			for i := range 100 {
				reads(t, f, string([]byte{byte(i)}), "token %d", i)
				if i < 99 {
					need(f.Write([]byte{byte(i + 1)}))(t)
				}
			}
		})
		awaitWaiter(&f.d.read)
		need(f.Write([]byte{0}))(t)
		must(t, reader())
	})
}

func adopt(t testing.TB, fd int) *File {
	t.Helper()
	return closing(t, need(NewFile(fd, "adopted"))(t))
}

func openFIFO(t testing.TB) int {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	fd := need(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0))(t)
	must(t, os.Remove(path))
	return fd
}

func TestNewFileKinds(t *testing.T) {
	withEpoll(t)
	dir := need(os.Open("."))(t)
	defer dir.Close()
	testenv.ErrorIs(t, testenv.Err(NewFile(int(dir.Fd()), "dir")), errNotPollable, "a directory")
	null := need(os.Open(os.DevNull))(t)
	defer null.Close()
	if f, err := NewFile(int(null.Fd()), "null"); *pollerFlag == "epoll" && !errors.Is(err, unix.EPERM) {
		t.Errorf("the null device: %v, want EPERM", err) // epoll_ctl(2)
	} else if err == nil {
		must(t, f.Close())
	}
	testenv.ErrorIs(t, testenv.Err(NewFile(1<<20, "bad")), unix.EBADF, "a bad descriptor")
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
	event := need(unix.Eventfd(0, unix.EFD_CLOEXEC))(t)
	sockets := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	for fd, want := range map[int]kind{p[0]: kindFile, p[1]: kindFile, event: kindFile, sockets[0]: kindStream, sockets[1]: kindStream, openFIFO(t): kindPipe} {
		testenv.Equal(t, adopt(t, fd).d.kind, want, "fd %d is of kind", fd)
	}
}

// A socket with records has an end, unlike one of datagrams, and a short record is not it.
func TestRecords(t *testing.T) {
	both(t, func(t *testing.T) {
		p := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
		r, w := adopt(t, p[0]), adopt(t, p[1])
		for _, record := range []string{"one", "three"} {
			need(w.Write([]byte(record)))(t)
		}
		must(t, r.SetDeadline(time.Now().Add(time.Minute)))
		testenv.Got(r.Read(nil))(t, 0, "Read of nothing")
		reads(t, r, "one")
		reads(t, r, "three")
		reader := spawn(func() {
			readFails(t, r, io.EOF, "the peer has closed")
			readFails(t, r, io.EOF, "the peer has closed, again")
		})
		must(t, w.Close())
		must(t, reader())
	})
}

// In packet mode a pipe gives one packet a read, however much room there is.
func TestPacketPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		var p [2]int
		must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
		r, w := adopt(t, p[0]), adopt(t, p[1])
		for range 3 {
			need(w.Write([]byte("packet")))(t)
		}
		for range 3 {
			reads(t, r, "packet")
		}
	})
}

func TestFileAndFileConn(t *testing.T) {
	both(t, func(t *testing.T) {
		// handedOn closes c, and makes another of its file.
		handedOn := func(c interface {
			io.Closer
			File() (*os.File, error)
		}) (net.Conn, error) {
			f := need(c.File())(t)
			defer f.Close()
			must(t, c.Close())
			return FileConn(f)
		}
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			again := closing(t, need(handedOn(c))(t))
			testenv.Equal(t, again.RemoteAddr().String(), s.LocalAddr().String(), "%s: connected to", network)
			testenv.Equal(t, again.RemoteAddr().Network(), network)
			talkOnce(t, again, s)
		}
		again := closing(t, need(handedOn(listenPacket(t, "udp")))(t))
		talkOnce(t, dialPacket(t, again.LocalAddr()), again)

		ln := listen(t, "tcp")
		f := need(ln.File())(t)
		defer f.Close()
		testenv.Fails(t, testenv.Err(handedOn(ln)), "FileConn takes a listener")
		must(t, need(net.FileListener(f))(t).Close())
		testenv.ErrorIs(t, testenv.Err(ln.File()), net.ErrClosed, "File after Close")
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		defer w.Close()
		testenv.ErrorIs(t, testenv.Err(FileConn(r)), unix.ENOTSOCK, "FileConn of a pipe")
	})
}
