package h1

import (
	"net/netip"
	"strconv"
)

// Small parts of requests that are checked by the letter of their grammar.

// validAuthority reports whether b is a host with or without a port (RFC 9110, 7.2; RFC
// 3986, 3.2). There is no user information in it, and the host is not empty.
func validAuthority(b []byte) bool {
	i := 0
	for i < len(b) && nameByte[b[i]] {
		i++
	}
	if i == len(b) {
		return i > 0
	}
	if i == 0 && b[0] == '[' {
		for i < len(b) && b[i] != ']' {
			i++
		}
		if i == len(b) || !validLiteral(b[1:i]) {
			return false
		}
		i++
	}
	for i < len(b) && b[i] != ':' {
		switch {
		case b[0] == '[':
			return false
		case nameByte[b[i]]:
			i++
		case escapeAt(b, i):
			i += 3
		default:
			return false
		}
	}
	return i > 0 && (i == len(b) || validPort(b[i+1:]))
}

// escapeAt reports whether a percent escape stands at b[i:].
func escapeAt(b []byte, i int) bool {
	return i+2 < len(b) && b[i] == '%' && HexValue(b[i+1]) >= 0 && HexValue(b[i+2]) >= 0
}

// validPort reports whether b is a port of TCP, or empty, which is the port of the scheme.
func validPort(b []byte) bool {
	port, err := strconv.ParseUint(Text(b), 10, 64)
	return len(b) == 0 || err == nil && port <= 65535
}

// validLiteral reports whether b is an IPv6 address, with a zone after "%25" (RFC 6874) or
// without. The form for addresses of the future has never been used.
func validLiteral(b []byte) bool {
	address := b
	for i, ch := range b {
		if ch != '%' {
			continue
		}
		if zone := b[i:]; len(zone) < 4 || string(zone[:3]) != "%25" {
			return false
		}
		for at := i + 3; at < len(b); at++ {
			if escapeAt(b, at) {
				at += 2
			} else if !nameByte[b[at]] {
				return false
			}
		}
		address = b[:i]
		break
	}
	addr, err := netip.ParseAddr(Text(address))
	return err == nil && addr.Is6()
}

// chunkExtensions reports whether b is a row of chunk extensions (RFC 9112, 7.1.1), each
// ";" name or ";" name "=" value, with white space around the signs.
func chunkExtensions(b []byte) bool {
	for i := 0; i < len(b); {
		var ok bool
		if i, ok = signAt(b, i, ';'); !ok {
			return false
		}
		name := i
		if i = tokenEnd(b, i); i == name {
			return false
		}
		value, ok := signAt(b, i, '=')
		if !ok {
			continue
		}
		if value < len(b) && b[value] == '"' {
			i, ok = quotedEnd(b, value)
		} else {
			i = tokenEnd(b, value)
			ok = i > value
		}
		if !ok {
			return false
		}
	}
	return true
}

// signAt looks for sign at b[i:], and returns what follows it and white space on both
// sides.
func signAt(b []byte, i int, sign byte) (after int, ok bool) {
	if i = blankEnd(b, i); i == len(b) || b[i] != sign {
		return i, false
	}
	return blankEnd(b, i+1), true
}

func blankEnd(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	return i
}

func tokenEnd(b []byte, i int) int {
	for i < len(b) && TokenByte[b[i]] {
		i++
	}
	return i
}

// quotedEnd returns what follows the quoted string at b[i:] (RFC 9110, 5.6.4).
func quotedEnd(b []byte, i int) (end int, ok bool) {
	for i++; i < len(b); i++ {
		switch ch := b[i]; {
		case ch == '"':
			return i + 1, true
		case ch == '\\' && i+1 < len(b):
			i++
			if b[i] < ' ' && b[i] != '\t' || b[i] == 0x7f {
				return i, false
			}
		case ch < ' ' && ch != '\t' || ch == 0x7f || ch == '\\':
			return i, false
		}
	}
	return i, false
}
