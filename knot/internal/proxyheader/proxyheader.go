// Package proxyheader reads what a proxy sends ahead of the bytes of a client, to say whose connection it passes on: the header
// of the PROXY protocol, version 1 (a line of text) or 2 (binary), as HAProxy's proxy-protocol.txt describes it. It never takes
// a byte that does not belong to the header, so that the connection can be used as it is afterwards, over TLS or not.
package proxyheader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strings"
)

const (
	mostText = 107     // bytes of a header of version 1 with its line end
	mostBin  = 4 << 10 // bytes of a header of version 2: names of certificates and the like may come with it
	fixedBin = 16      // bytes of a header of version 2 before the addresses
	leastAny = 15      // bytes of the shortest header: "PROXY UNKNOWN\r\n"

	prefix    = "PROXY "
	signature = "\r\n\r\n\x00\r\nQUIT\n"
)

// A Header has both addresses of the client's connection, or none if the connection is the proxy's own, as for its health
// checks, or the proxy does not know them.
type Header struct{ Source, Destination netip.AddrPort }

var (
	// ErrNone is the error about a connection that does not begin with a header.
	ErrNone      = errors.New("the connection does not begin with a header of the PROXY protocol")
	errMalformed = errors.New("the header of the PROXY protocol is malformed")
)

// Read takes the header from r. An error other than that of r is about the header. io.EOF means that nothing has come.
func Read(r io.Reader) (h Header, err error) {
	var room [256]byte
	b := room[:0]
	for {
		n, err := missing(b)
		if n == 0 || err != nil {
			break
		}
		if len(b)+n > cap(b) {
			b = append(make([]byte, 0, len(b)+n), b...)
		}
		more, err := r.Read(b[len(b) : len(b)+n])
		b = b[:len(b)+more]
		if err == io.EOF && len(b) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && more == 0 {
			return h, err
		}
	}
	if _, err := missing(b); err != nil {
		return h, err
	}
	if b[0] == prefix[0] {
		return text(string(b))
	}
	return binaryHeader(b)
}

// missing is how many more bytes belong to the header that begins with b, whatever they are; 0: it is whole.
func missing(b []byte) (int, error) {
	isText := bytes.HasPrefix([]byte(prefix), b[:min(len(b), len(prefix))])
	if !isText && !strings.HasPrefix(signature, string(b[:min(len(b), len(signature))])) {
		return 0, ErrNone
	}
	switch {
	case len(b) < leastAny:
		return leastAny - len(b), nil
	case isText:
		return missingText(b)
	case len(b) < fixedBin:
		return fixedBin - len(b), nil
	}
	size := fixedBin + int(binary.BigEndian.Uint16(b[14:]))
	if size > mostBin {
		return 0, fmt.Errorf("the header of the PROXY protocol has %d bytes; want at most %d", size, mostBin)
	}
	return size - len(b), nil
}

func missingText(b []byte) (int, error) {
	const spaces = 5 // each has a field of one byte at least behind it, and then comes the line end
	n := 2
	switch {
	case bytes.HasSuffix(b, []byte("\r\n")):
		return 0, nil
	case b[len(b)-1] == '\r':
		n = 1
	case !strings.HasPrefix(string(b[len(prefix):]), "UNKNOWN"):
		n += 2 * max(0, spaces-bytes.Count(b, []byte(" ")))
	}
	if len(b)+n > mostText || bytes.IndexByte(b, '\n') >= 0 {
		return 0, fmt.Errorf("%w: no line end where one belongs, within %d bytes", errMalformed, mostText)
	}
	return n, nil
}

// text reads a header of version 1.
func text(line string) (h Header, err error) {
	line = strings.TrimSuffix(line, "\r\n")
	fields := strings.Split(line, " ")
	if fields[1] == "UNKNOWN" {
		return h, nil
	}
	if len(fields) != 6 || fields[1] != "TCP4" && fields[1] != "TCP6" {
		return h, fmt.Errorf("%w: %q", errMalformed, line)
	}
	h.Source, err = endpoint(fields[2], fields[4], fields[1] == "TCP4")
	if err == nil {
		h.Destination, err = endpoint(fields[3], fields[5], fields[1] == "TCP4")
	}
	if err != nil {
		return Header{}, fmt.Errorf("%w: %q: %w", errMalformed, line, err)
	}
	return h, nil
}

func endpoint(host, port string, is4 bool) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Is4() != is4 || addr.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%q is no address of that kind", host)
	}
	number := 0
	for _, ch := range []byte(port) {
		if number = 10*number + int(ch) - '0'; ch < '0' || ch > '9' || number > 0xffff {
			return netip.AddrPort{}, fmt.Errorf("%q is no port", port)
		}
	}
	if port == "" || port[0] == '0' && port != "0" {
		return netip.AddrPort{}, fmt.Errorf("%q is no port", port)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
}

// binaryHeader reads a header of version 2.
func binaryHeader(b []byte) (h Header, err error) {
	const local, proxied = 0x20, 0x21
	command, family, rest := b[12], b[13], b[fixedBin:]
	if command != local && command != proxied {
		return h, fmt.Errorf("%w: version and command %#x", errMalformed, command)
	}
	size := 0 // of both addresses with their ports
	switch family >> 4 {
	case 0:
	case 1:
		size = 2 * (4 + 2)
	case 2:
		size = 2 * (16 + 2)
	case 3: // paths of Unix sockets, which say nothing of a client
		size = 2 * 108
	default:
		return h, fmt.Errorf("%w: address family %#x", errMalformed, family)
	}
	if family&0xf > 2 { // 2: datagrams, as of HTTP/3
		return h, fmt.Errorf("%w: transport %#x", errMalformed, family)
	}
	if command == local {
		size = 0 // there may be any
	}
	if len(rest) < size {
		return h, fmt.Errorf("%w: %d bytes for addresses; want %d", errMalformed, len(rest), size)
	}
	if err := checkSum(b, fixedBin+size, command == local); err != nil {
		return h, err
	}
	if n := size/2 - 2; n == 4 || n == 16 {
		source, _ := netip.AddrFromSlice(rest[:n])
		destination, _ := netip.AddrFromSlice(rest[n : 2*n])
		h.Source = netip.AddrPortFrom(source.Unmap(), binary.BigEndian.Uint16(rest[2*n:]))
		h.Destination = netip.AddrPortFrom(destination.Unmap(), binary.BigEndian.Uint16(rest[2*n+2:]))
	}
	return h, nil
}

// checkSum goes through what stands behind the addresses, from offset at on, and compares the checksum, if there is one.
// Nothing else there counts. lax: it may be anything.
func checkSum(b []byte, at int, lax bool) error {
	const kindSum, sumSize, head = 3, 4, 3
	for at < len(b) && !lax {
		if len(b)-at < head || len(b)-at-head < int(binary.BigEndian.Uint16(b[at+1:])) {
			return fmt.Errorf("%w: what stands behind the addresses ends too early", errMalformed)
		}
		value := b[at+head:][:binary.BigEndian.Uint16(b[at+1:])]
		if b[at] == kindSum {
			if len(value) != sumSize {
				return fmt.Errorf("%w: a checksum of %d bytes", errMalformed, len(value))
			}
			want := binary.BigEndian.Uint32(value)
			clear(value) // as it was computed
			if got := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)); got != want {
				return fmt.Errorf("%w: its checksum is %08x, and it says %08x", errMalformed, got, want)
			}
		}
		at += head + len(value)
	}
	return nil
}
