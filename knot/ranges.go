package knot

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// defaultMaxRanges is how many ranges of a file one response has at most.
const defaultMaxRanges = 16

// byteRange is the part [from, to) of a file.
type byteRange struct{ from, to int64 }

// wantedRanges reads the Range header. It returns none if the whole file must be sent, and false
// if every range lies outside the file (416). A header that is malformed or has more than most
// ranges, or whose If-Range does not hold, is ignored, as RFC 9110, 14.2 allows; so is one of an empty file, for clients
// that ask for bytes=0- in any case.
func (x *Ctx) wantedRanges(h *fileHead, size int64, most int) ([]byteRange, bool) {
	b := x.headBytes()
	value, ok := x.head.Find(b, "range")
	if !ok || size == 0 || !x.ifRange(h) {
		return nil, true
	}
	return parseRanges(x.ranges[:0], value, size, most)
}

// ifRange evaluates If-Range (RFC 9110, 13.1.5). A date is good for it only if the file had been
// left alone for a second when it was last modified, as it might have changed again within that, and has no other form, a
// part of which the client may have.
func (x *Ctx) ifRange(h *fileHead) bool {
	condition, ok := x.head.Find(x.headBytes(), "if-range")
	if !ok || bytes.Equal(condition, h.tag) {
		return true
	}
	t, ok := parseHTTPTime(condition)
	return ok && !h.varies && h.modified.Truncate(time.Second).Equal(t) && h.modified.Unix()+1 < x.srv.clock.Stamp().Unix
}

// parseRanges appends what a Range header asks of a file to ranges, in its order. Ranges that
// overlap or touch are joined. If there is more than the file in them, it is as if there was no
// header.
func parseRanges(ranges []byteRange, value []byte, size int64, most int) ([]byteRange, bool) {
	const unit = "bytes="
	if len(value) < len(unit) || !h1.TextIs(value[:len(unit)], unit) {
		return nil, true
	}
	named := 0
	for list := value[len(unit):]; len(list) > 0; {
		var one []byte
		if one, list = h1.NextElement(list); len(one) == 0 {
			continue // RFC 9110, 5.6.1.2
		}
		part, good, inside := parseRange(one, size)
		if named++; !good || named > most {
			return nil, true
		}
		if inside {
			ranges = join(ranges, part)
		}
	}
	if named == 0 {
		return nil, true
	}
	return ranges, len(ranges) > 0
}

// join adds part to ranges, of which no two overlap or touch.
func join(ranges []byteRange, part byteRange) []byteRange {
	at := len(ranges) // of the first that part is joined with
	kept := ranges[:0]
	for i, r := range ranges {
		if r.to < part.from || part.to < r.from {
			kept = append(kept, r)
			continue
		}
		at = min(at, i)
		part.from, part.to = min(part.from, r.from), max(part.to, r.to)
	}
	at = min(at, len(kept))
	kept = append(kept, part)
	copy(kept[at+1:], kept[at:])
	kept[at] = part
	return kept
}

// parseRange reads one range; inside means that some of it is in a file of that size.
func parseRange(text []byte, size int64) (part byteRange, good, inside bool) {
	dash := bytes.IndexByte(text, '-')
	if dash < 0 {
		return part, false, false
	}
	from, hasFrom, okFrom := parsePosition(text[:dash])
	last, hasLast, okLast := parsePosition(text[dash+1:])
	switch {
	case !okFrom || !okLast || !hasFrom && !hasLast || hasFrom && hasLast && last < from:
		return part, false, false
	case !hasFrom: // the last bytes
		return byteRange{max(0, size-last), size}, true, last > 0 && size > 0
	case from >= size:
		return part, true, false
	case !hasLast || last >= size:
		last = size - 1
	}
	return byteRange{from, last + 1}, true, true
}

// parsePosition reads a number that may be missing.
func parsePosition(text []byte) (n int64, there, ok bool) {
	if len(text) == 0 {
		return 0, false, true
	}
	for _, ch := range text {
		switch digit := int64(ch) - '0'; {
		case digit < 0 || digit > 9:
			return 0, true, false
		case n > (math.MaxInt64-digit)/10:
			n = math.MaxInt64 // behind the end of every file
		default:
			n = n*10 + digit
		}
	}
	return n, true, true
}

func (p byteRange) appendHeader(dst []byte, size int64) []byte {
	dst = strconv.AppendInt(append(dst, "Content-Range: bytes "...), p.from, 10)
	dst = strconv.AppendInt(append(dst, '-'), p.to-1, 10)
	dst = strconv.AppendInt(append(dst, '/'), size, 10)
	return append(dst, "\r\n"...)
}

// byteParts is the framing of several ranges in one response (RFC 9110, 14.6).
type byteParts struct {
	boundary [32]byte
	ctype    string // of the file; may be empty
	size     int64  // of the file
}

// makeBoundary chooses a boundary that nobody can have put into a file.
func (m *byteParts) makeBoundary() {
	for i := range m.boundary {
		m.boundary[i] = lowerHex[rand.Uint32()&15]
	}
}

func (m *byteParts) contentType() string {
	return "multipart/byteranges; boundary=" + string(m.boundary[:])
}

// appendHead appends what goes before a part.
func (m *byteParts) appendHead(dst []byte, part byteRange) []byte {
	dst = append(append(append(dst, "\r\n--"...), m.boundary[:]...), "\r\n"...)
	if m.ctype != "" {
		dst = h1.AppendField(dst, "Content-Type", m.ctype)
	}
	return append(part.appendHeader(dst, m.size), "\r\n"...)
}

// appendEnd appends what goes behind the last part.
func (m *byteParts) appendEnd(dst []byte) []byte {
	return append(append(append(dst, "\r\n--"...), m.boundary[:]...), "--\r\n"...)
}

// length is that of the whole body.
func (m *byteParts) length(ranges []byteRange, scratch []byte) int64 {
	total := int64(len(m.appendEnd(scratch)))
	for _, part := range ranges {
		total += int64(len(m.appendHead(scratch, part))) + part.to - part.from
	}
	return total
}
