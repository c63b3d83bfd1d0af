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
			a, err := ListenPacket(network, testAddress(t, network))
			must(t, err)
			b, err := ListenPacket(network, testAddress(t, network))
			must(t, err)
			for _, size := range []int{0, 1, 1000, 30_000} {
				want := pattern(size)
				sender := spawn(func() {
					n, err := a.WriteTo(want, b.LocalAddr())
					must(t, err)
					if n != size {
						t.Errorf("%s: %d of %d bytes sent", network, n, size)
					}
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
		a, err := ListenPacket("unixgram", testAddress(t, "unixgram"))
		must(t, err)
		b, err := ListenPacket("unixgram", testAddress(t, "unixgram"))
		must(t, err)
		const n = 1000 // more than net.unix.max_dgram_qlen
		sender := spawn(func() {
			for i := range n {
				_, err := a.WriteTo([]byte{byte(i)}, b.LocalAddr())
				must(t, err)
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
	a, err := ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	b, err := ListenPacket("udp", ":0") // both versions: IPv4 addresses are mapped
	must(t, err)
	defer b.Close()
	buf := make([]byte, 10)
	_, _, err = a.WriteMsg([]byte("hi"), nil, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), b.local.port))
	must(t, err)
	n, _, _, from, err := b.ReadMsg(buf, nil)
	if string(buf[:n]) != "hi" || from.String() != a.LocalAddr().String() || err != nil {
		t.Errorf("got %q from %v, %v, want \"hi\" from %v", buf[:n], from, err, a.LocalAddr())
	}
	_, _, err = b.WriteMsg(buf[:n], nil, from)
	must(t, err)
	_, _, err = a.ReadFrom(buf)
	must(t, err)
	if _, err := a.WriteTo(nil, &net.TCPAddr{}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("WriteTo of a TCP address: %v, want EINVAL", err)
	}
	if _, err := a.WriteTo(nil, &net.UnixAddr{Name: "/x"}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("WriteTo of a unix address: %v, want EINVAL", err)
	}
	if _, err := a.WriteTo(nil, &net.UDPAddr{IP: net.IPv6loopback, Port: 1}); err == nil {
		t.Error("an IPv4 socket sent to an IPv6 address")
	}
	if _, err := a.WriteTo(make([]byte, 1<<17), a.LocalAddr()); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a datagram of 128 KiB: %v, want EMSGSIZE", err)
	}
	if _, err := ListenPacket("tcp", "127.0.0.1:0"); !errors.Is(err, net.UnknownNetworkError("tcp")) {
		t.Errorf("ListenPacket of tcp: %v", err)
	}
	must(t, a.Close())
}

func TestUnixgramFile(t *testing.T) {
	withEpoll(t)
	path := filepath.Join(t.TempDir(), "socket")
	c, err := ListenPacket("unixgram", path)
	must(t, err)
	must(t, c.Close())
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a closed socket is still there: %v", err)
	}
}

// A datagram takes no memory but the caller's, with the address in a netip.AddrPort.
func TestDatagramsAllocateNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	both(t, func(t *testing.T) {
		a, err := ListenPacket("udp4", "127.0.0.1:0")
		must(t, err)
		defer a.Close()
		b, err := ListenPacket("udp4", "127.0.0.1:0")
		must(t, err)
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
	if _, err := os.Lstat(from); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file %s: %v; want none", from, err)
	}
}
