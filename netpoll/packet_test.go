//go:build linux

package netpoll

import (
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
