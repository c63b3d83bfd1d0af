package tlsin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config is given as the server uses it: with these protocols unless given has others, and without handshakes for clients
// that have left. It is nil for nil.
func Config(given *tls.Config, protocols []string) *tls.Config {
	if given == nil {
		return nil
	}
	c := given.Clone()
	if c.NextProtos == nil {
		c.NextProtos = protocols
	}
	find, protos := c.GetConfigForClient, c.NextProtos
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if record, ok := hello.Conn.(*recordConn); ok && HasLeft(record.Conn) { // since the first part of its hello
			return nil, errClientLeft
		}
		if find == nil {
			return nil, nil
		}
		special, err := find(hello)
		if special == nil || err != nil {
			return special, err
		}
		special = special.Clone()
		if special.NextProtos == nil {
			special.NextProtos = protos
		}
		return special, nil
	}
	return c
}

// errClientLeft ends a handshake whose expensive part has not begun.
var errClientLeft = fmt.Errorf("knot: the client has left before its handshake: %w", io.EOF)

// WithCertificate is given with the certificate in the files, in PEM, or as it is if both names are empty.
func WithCertificate(given *tls.Config, certFile, keyFile string) (*tls.Config, error) {
	if certFile != "" || keyFile != "" {
		cert, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("knot: certificate: %w", err)
		}
		if given = given.Clone(); given == nil {
			given = new(tls.Config)
		}
		given.Certificates = []tls.Certificate{cert}
	}
	if given == nil {
		return nil, ErrNoCertificate
	}
	return given, Check(given)
}

// ErrNoCertificate is what Check and WithCertificate return.
var ErrNoCertificate = errors.New("knot: Server.TLS has no certificate, and no function that finds one")

// Check reports whether a client can be served with c; nil is no TLS.
func Check(c *tls.Config) error {
	if c != nil && len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil {
		return ErrNoCertificate
	}
	return nil
}

// HasLeft asks the kernel whether the client that has begun a hello has ended its side: then it can't complete the handshake.
func HasLeft(nc net.Conn) (left bool) {
	onSocket(nc, func(fd int) {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(look, 0)
		left = err == nil && n > 0
	})
	return left
}

// BeginsHello reports whether what is unread begins as a hello does: a client that speaks plain HTTP is answered though it
// has ended its side.
func BeginsHello(nc net.Conn) (begins bool) {
	const handshakeRecord = 22 // RFC 8446, 5.1
	onSocket(nc, func(fd int) {
		var first [1]byte
		n, _, err := unix.Recvfrom(fd, first[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		begins = err == nil && n > 0 && first[0] == handshakeRecord
	})
	return begins
}

// onSocket calls fn with the descriptor of nc, if it has one.
func onSocket(nc net.Conn, fn func(fd int)) {
	if own, ok := nc.(syscall.Conn); ok {
		if raw, err := own.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { fn(int(fd)) })
		}
	}
}

// Acknowledge has the kernel acknowledge at once what has come. With TLS 1.3 the client has the last word of the handshake, and
// one with Nagle's algorithm keeps its request back until that is acknowledged: by our answer, or after 40 ms.
func Acknowledge(nc net.Conn) {
	onSocket(nc, func(fd int) {
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) // not on a Unix socket
	})
}

// InternalError is a fatal alert as a server sends it before the handshake (RFC 8446, 6.2).
var InternalError = []byte{21, 3, 1, 0, 2, 2, 80}
