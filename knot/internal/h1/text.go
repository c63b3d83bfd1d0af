package h1

import (
	"fmt"
	"net/textproto"
	"unsafe"
)

// IsToken reports whether name is a token (RFC 9110, 5.6.2).
func IsToken(name string) bool {
	for i := range len(name) {
		if !TokenByte[name[i]] {
			return false
		}
	}
	return name != ""
}

// Bytes is s as bytes that must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// Text is b as a string that must not be kept.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// SameFold reports whether token, of the length of name, is name in some case.
func SameFold(token []byte, name string) bool {
	for i, ch := range token {
		if other := name[i]; ch != other && LowerByte(ch) != LowerByte(other) {
			return false
		}
	}
	return true
}

// LowerByte is ch in lower case.
func LowerByte(ch byte) byte {
	if 'A' <= ch && ch <= 'Z' {
		return ch | 0x20
	}
	return ch
}

// AppendField appends a header line. Control bytes in value become spaces, so that a
// handler that passes on what it was given lets no client write further header lines. Space around value goes:
// clients of HTTP/2 would take the response for malformed (RFC 9113, 8.2.1).
func AppendField(dst []byte, name, value string) []byte {
	dst, value = append(append(dst, name...), ": "...), textproto.TrimString(value)
	from := len(dst)
	dst = append(dst, value...)
	for i := IndexControl(dst, from); i < len(dst); i = IndexControl(dst, i+1) {
		dst[i] = ' '
	}
	return append(dst, "\r\n"...)
}

// OwnFields are the names of header lines that the server alone sets.
var OwnFields = [...]string{"content-length", "content-type", "transfer-encoding", "connection", "date"}

// CheckField reports what is wrong with a header line of a program.
func CheckField(name, value string) error {
	if !IsToken(name) {
		return fmt.Errorf("knot: header name %q is not a token", name)
	}
	for _, own := range OwnFields {
		if TokenIs(Bytes(name), own) {
			return fmt.Errorf("knot: header %s is set by the server", name)
		}
	}
	if IndexControl(Bytes(value), 0) < len(value) {
		return fmt.Errorf("knot: the value of header %s has control bytes", name)
	}
	return nil
}
