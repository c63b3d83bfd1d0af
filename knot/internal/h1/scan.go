package h1

import (
	"encoding/binary"
	"math/bits"
)

const (
	eachLow  = 0x0101010101010101
	eachHigh = 0x8080808080808080
)

// TokenByte marks what may stand in a token (RFC 9110, 5.6.2).
var TokenByte = ByteSet("!#$%&'*+-.^_`|~" + Digits + Letters)

// nameByte marks what stands unescaped in a name of a host (RFC 3986, 3.2.2: reg-name).
var nameByte = ByteSet("-._~!$&'()*+,;=" + Digits + Letters)

const (
	Digits  = "0123456789"
	Letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

func ByteSet(members string) (set [256]bool) {
	for i := range len(members) {
		set[members[i]] = true
	}
	return set
}

// firstBelow has its lowest set bit in the first byte of x, in memory order,
// that is below limit (at most 0x80) or DEL; it is 0 if there is none. Bits
// above the lowest may be false: a borrow runs upwards.
func firstBelow(x uint64, limit uint64) uint64 {
	below := (x - eachLow*limit) &^ x & eachHigh
	del := x ^ eachLow*0x7f
	return below | (del-eachLow)&^del&eachHigh
}

// IndexControl returns the index of the first control byte of b at or after i,
// or len(b).
func IndexControl(b []byte, i int) int { return indexBelow(b, i, 0x20) }

// indexBlank returns the index of the first control byte or space of b at or
// after i, or len(b).
func indexBlank(b []byte, i int) int { return indexBelow(b, i, 0x21) }

func indexBelow(b []byte, i int, limit byte) int {
	for i+8 <= len(b) {
		if m := firstBelow(binary.LittleEndian.Uint64(b[i:]), uint64(limit)); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for ; i < len(b); i++ {
		if b[i] < limit || b[i] == 0x7f {
			return i
		}
	}
	return i
}

// TokenIs reports whether token is lower without regard to case. lower must be
// lower case, and token made of token bytes.
func TokenIs(token []byte, lower string) bool {
	if len(token) != len(lower) {
		return false
	}
	for i := range token {
		if token[i]|0x20 != lower[i] && token[i] != lower[i] {
			return false
		}
	}
	return true
}

// TextIs is TokenIs for any text.
func TextIs(text []byte, lower string) bool {
	if len(text) != len(lower) {
		return false
	}
	for i, ch := range text {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		if ch != lower[i] {
			return false
		}
	}
	return true
}

// TrimBlank cuts spaces and tabs off both ends.
func TrimBlank(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// NextElement splits a comma separated list: the first element, trimmed, and
// what follows the comma.
func NextElement(list []byte) (element, rest []byte) {
	for i, ch := range list {
		if ch == ',' {
			return TrimBlank(list[:i]), list[i+1:]
		}
	}
	return TrimBlank(list), nil
}

// HexValue is the value of a hexadecimal digit; -1: it is none.
func HexValue(ch byte) int {
	switch {
	case '0' <= ch && ch <= '9':
		return int(ch - '0')
	case 'a' <= ch && ch <= 'f':
		return int(ch-'a') + 10
	case 'A' <= ch && ch <= 'F':
		return int(ch-'A') + 10
	}
	return -1
}
