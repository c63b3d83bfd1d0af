package addresses

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A QUIC is what serves HTTP/3 for a Point.
type QUIC struct {
	socket *net.UDPConn
	end    func(context.Context) error
}

// ListenQUIC returns the socket of UDP that HTTP/3 is served on, which has the address of the first listener, or was handed
// over. It is for after Listen, and p closes it until ServeQUIC is called.
func (p *Point) ListenQUIC() (*net.UDPConn, error) {
	if s := p.datagram; s != nil {
		file := os.NewFile(uintptr(s.FD), "udp")
		defer file.Close()
		p.datagram = nil
		pc, err := net.FilePacketConn(file)
		if err != nil {
			return nil, err
		}
		socket, ok := pc.(*net.UDPConn)
		if !ok {
			pc.Close()
			return nil, errors.New("the datagram socket that was handed over is not one of UDP")
		}
		return socket, nil
	}
	tcp, ok := p.opened[0].Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.New("HTTP/3 needs an address of TCP")
	}
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(tcp.AddrPort()))
}

// ServeQUIC says what serves the socket: end has it end in its own time, and does not wait.
func (p *Point) ServeQUIC(socket *net.UDPConn, end func(context.Context) error) {
	p.quic = &QUIC{socket, end}
}

// endQUIC ends HTTP/3.
func (p *Point) endQUIC() {
	if p.quic != nil {
		p.quic.end(context.Background())
		p.quic = nil
	}
}

// openDatagram opens the socket of UDP, if there is to be one, beside the first of TCP, without a runtime.
func (p *Point) openDatagram() error {
	if !p.HTTP3 || p.datagram != nil {
		return nil
	}
	bound, err := unix.Getsockname(p.sockets[0].FD)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	var at netip.AddrPort
	switch bound := bound.(type) {
	case *unix.SockaddrInet4:
		at = netip.AddrPortFrom(netip.AddrFrom4(bound.Addr), uint16(bound.Port))
	case *unix.SockaddrInet6:
		at = netip.AddrPortFrom(netip.AddrFrom16(bound.Addr), uint16(bound.Port))
	default:
		return errors.New("HTTP/3 needs an address of TCP")
	}
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	defer socket.Close()
	file, err := socket.File()
	if err != nil {
		return err
	}
	defer file.Close()
	fd, err := duplicate(file)
	if err != nil {
		return err
	}
	p.datagram = &Socket{FD: fd}
	return nil
}

// isDatagram reports whether a socket is one of datagrams.
func isDatagram(fd int) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	return err == nil && kind == unix.SOCK_DGRAM
}
