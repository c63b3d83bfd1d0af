//go:build linux

package netpoll

import (
	"errors"
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
			a := need(ListenPacket(network, testAddress(t, network)))(t)
			b := need(ListenPacket(network, testAddress(t, network)))(t)
			for _, size := range []int{0, 1, 1000, 30_000} {
				want := pattern(size)
				sender := spawn(func() {
					n := need(a.WriteTo(want, b.LocalAddr()))(t)
					testenv.Equal(t, n, size, "%s: N of %d bytes sent", network, size)
				})
				buf := make([]byte, 40_000)
				n, from, err := b.ReadFrom(buf)
				must(t, err)
				must(t, sender())
				if string(buf[:n]) != string(want) || from.String() != a.LocalAddr().String() {
					t.Errorf("%s: got %d bytes from %v, want %d from %v", network, n, from, size, a.LocalAddr())
				}
			}
			must(t, b.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
			if _, _, err := b.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want os.ErrDeadlineExceeded", network, err)
			}
			must(t, b.SetDeadline(time.Time{}))
			reader := spawn(func() {
				if _, _, err := b.ReadFrom(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s: %v, want net.ErrClosed", network, err)
				}
			})
			awaitWaiter(&b.d.read)
			must(t, b.Close())
			must(t, reader())
			must(t, a.Close())
		}
	})
}

// The sender of unix datagrams waits for a receiver whose queue is full.
func TestUnixgramFullQueue(t *testing.T) {
	both(t, func(t *testing.T) {
		a := need(ListenPacket("unixgram", testAddress(t, "unixgram")))(t)
		b := need(ListenPacket("unixgram", testAddress(t, "unixgram")))(t)
		const n = 1000 // more than net.unix.max_dgram_qlen
		sender := spawn(func() {
			for i := range n {
				need(a.WriteTo([]byte{byte(i)}, b.LocalAddr()))(t)
			}
		})
		for i := range n {
			var buf [2]byte
			k, _, err := b.ReadFrom(buf[:])
			must(t, err)
			if k != 1 || buf[0] != byte(i) {
				t.Fatalf("datagram %d is %v", i, buf[:k])
			}
		}
		must(t, sender())
		must(t, a.Close())
		must(t, b.Close())
	})
}

func TestMappedPacketsAndErrors(t *testing.T) {
	withEpoll(t)
	a := need(ListenPacket("udp", "127.0.0.1:0"))(t)
	b, err := ListenPacket("udp", ":0") // both versions: IPv4 addresses are mapped
	must(t, err)
	defer b.Close()
	buf := make([]byte, 10)
	_, _, err = a.WriteMsg([]byte("hi"), nil, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), b.local.Port))
	must(t, err)
	n, _, _, from, err := b.ReadMsg(buf, nil)
	if string(buf[:n]) != "hi" || from.String() != a.LocalAddr().String() || err != nil {
		t.Errorf("got %q from %v, %v, want \"hi\" from %v", buf[:n], from, err, a.LocalAddr())
	}
	_, _, err = b.WriteMsg(buf[:n], nil, from)
	must(t, err)
	_, _, err = a.ReadFrom(buf)
	must(t, err)
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(nil, &net.TCPAddr{})), unix.EINVAL, "WriteTo of a TCP address")
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(nil, &net.UnixAddr{Name: "/x"})), unix.EINVAL, "WriteTo of a unix address")
	if _, err := a.WriteTo(nil, &net.UDPAddr{IP: net.IPv6loopback, Port: 1}); err == nil {
		t.Error("an IPv4 socket sent to an IPv6 address")
	}
	testenv.ErrorIs(t, testenv.Err(a.WriteTo(make([]byte, 1<<17), a.LocalAddr())), unix.EMSGSIZE, "a datagram of 128 KiB")
	testenv.ErrorIs(t, testenv.Err(ListenPacket("tcp", "127.0.0.1:0")), net.UnknownNetworkError("tcp"), "ListenPacket of tcp")
	must(t, a.Close())
}

func TestUnixgramFile(t *testing.T) {
	withEpoll(t)
	path := filepath.Join(t.TempDir(), "socket")
	c := need(ListenPacket("unixgram", path))(t)
	must(t, c.Close())
	testenv.ErrorIs(t, testenv.Err(os.Stat(path)), os.ErrNotExist, "the file of a closed socket is still there")
}

// A datagram takes no memory but the caller's, with the address in a netip.AddrPort.
func TestDatagramsAllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	both(t, func(t *testing.T) {
		a := need(ListenPacket("udp4", "127.0.0.1:0"))(t)
		defer a.Close()
		b := need(ListenPacket("udp4", "127.0.0.1:0"))(t)
		defer b.Close()
		to, buf := b.LocalAddr().(*net.UDPAddr).AddrPort(), make([]byte, 8)
		if n := testing.AllocsPerRun(100, func() {
			if _, _, err := a.WriteMsg(buf, nil, to); err != nil {
				t.Error(err)
			}
			if _, _, _, _, err := b.ReadMsg(buf, nil); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations to send and receive one", n)
		}
	})
}

// A Dial that fails leaves no file of the address that it came from: the next could not have it.
func TestFailedDialLeavesNoFile(t *testing.T) {
	withEpoll(t)
	from := filepath.Join(t.TempDir(), "from")
	d := &Dialer{LocalAddr: &net.UnixAddr{Name: from, Net: "unixgram"}}
	for range 2 {
		if c, err := d.Dial("unixgram", from+"-nobody"); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%v, %v; want ENOENT", c, err)
		}
	}
	testenv.ErrorIs(t, testenv.Err(os.Lstat(from)), os.ErrNotExist, "the file %s", from)
}
