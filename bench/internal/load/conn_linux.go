package load

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// socket is a TCP socket that does not wait in its system calls.
type socket int

// sources are the loopback addresses connections start from, in turn as the
// ports of one run out.
var sources = [...][4]byte{{127, 0, 0, 1}, {127, 0, 0, 2}, {127, 0, 0, 3}, {127, 0, 0, 4}}

func (s socket) prepare(addr netip.AddrPort, source [4]byte) error {
	if !addr.Addr().Is4() || !addr.Addr().IsLoopback() {
		return fmt.Errorf("not an IPv4 loopback address: %v", addr)
	}
	// The kernel then picks the port when it knows both ends (ip(7)).
	if err := unix.SetsockoptInt(int(s), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err != nil {
		return err
	}
	// Closing resets: a run leaves no port waiting behind.
	if err := unix.SetsockoptLinger(int(s), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(int(s), unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := unix.Bind(int(s), &unix.SockaddrInet4{Addr: source}); err != nil {
		return err
	}
	for {
		err := unix.Connect(int(s), &unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())})
		if err != unix.EINTR {
			return err
		}
	}
}

func (s socket) close() { unix.Close(int(s)) }
