package load

import (
	"errors"
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Request is what every connection asks for.
const Request = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"

// socket is a connected TCP socket, blocking at first.
type socket int

// sources are the loopback addresses connections start from, in turn as the
// ports of one run out.
var sources = [...][4]byte{{127, 0, 0, 1}, {127, 0, 0, 2}, {127, 0, 0, 3}, {127, 0, 0, 4}}

// connect opens connection number i to a loopback server.
func connect(addr netip.AddrPort, i int) (socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	s := socket(fd)
	if err := s.prepare(addr, sources[i/10_000%len(sources)]); err != nil {
		s.close()
		return -1, fmt.Errorf("connect to %v: %w", addr, err)
	}
	return s, nil
}

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

// exchange sends one request and reads one response, blocking, and returns the
// response's length.
func (s socket) exchange() (int, error) {
	if err := s.writeAll([]byte(Request)); err != nil {
		return 0, err
	}
	var buffer [4096]byte
	have := 0
	for have < len(buffer) {
		n, err := unix.Read(int(s), buffer[have:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("read: %w", err)
		}
		if n == 0 {
			return 0, fmt.Errorf("read: %w after %d bytes", io.ErrUnexpectedEOF, have)
		}
		have += n
		r, length, err := parseResponse(buffer[:have])
		if err != nil {
			return 0, err
		}
		if length > 0 && r.status != 200 {
			return 0, fmt.Errorf("status %d, want 200", r.status)
		}
		if length == have {
			return length, nil
		}
		if length > 0 && have > length {
			return 0, fmt.Errorf("response of %d bytes is followed by %d more", length, have-length)
		}
	}
	return 0, errors.New("response is longer than 4096 bytes")
}

func (s socket) writeAll(data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(int(s), data)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("write: %w", err)
		}
		data = data[max(n, 0):]
	}
	return nil
}
