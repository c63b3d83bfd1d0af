package store

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Range is the part [from, to) of a file.
type Range struct{ From, To int64 }

// WantedRanges reads the Range header. It returns none if the whole file must be sent, and false
// if every range lies outside the file (416). A header that is malformed or has more than most
// ranges, or whose If-Range does not hold, is ignored, as RFC 9110, 14.2 allows; so is one of an empty file, for clients
// that ask for bytes=0- in any case.
func (q *Request) WantedRanges(h *Head, size int64, most int) ([]Range, bool) {
	b := q.Text
	value, ok := q.Head.Find(b, "range")
	if !ok || size == 0 || !q.ifRange(h) {
		return nil, true
	}
	ranges, ok := parseRanges(q.ranges[:0], value, size, most)
	q.ranges = ranges[:0] // to be used again
	return ranges, ok
}

// ifRange evaluates If-Range (RFC 9110, 13.1.5). A date is good for it only if the file had been
// left alone for a second when it was last modified, as it might have changed again within that, and has no other form: the
// client may have a part of that.
func (q *Request) ifRange(h *Head) bool {
	condition, ok := q.Head.Find(q.Text, "if-range")
	if !ok || bytes.Equal(condition, h.Tag) {
		return true
	}
	t, ok := parseHTTPTime(condition)
	return ok && !h.varies && h.Modified.Truncate(time.Second).Equal(t) && h.Modified.Unix()+1 < q.Second
}

// parseRanges appends what a Range header asks of a file to ranges, in its order. Ranges that
// overlap or touch are joined. If there is more than the file in them, it is as if there was no
// header.
func parseRanges(ranges []Range, value []byte, size int64, most int) ([]Range, bool) {
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

// join adds part to ranges. No two ranges overlap or touch.
func join(ranges []Range, part Range) []Range {
	at := len(ranges) // of the first that part is joined with
	kept := ranges[:0]
	for i, r := range ranges {
		if r.To < part.From || part.To < r.From {
			kept = append(kept, r)
			continue
		}
		at = min(at, i)
		part.From, part.To = min(part.From, r.From), max(part.To, r.To)
	}
	return slices.Insert(kept, min(at, len(kept)), part)
}

// parseRange reads one range; inside means that some of it is in a file of that size.
func parseRange(text []byte, size int64) (part Range, good, inside bool) {
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
		return Range{max(0, size-last), size}, true, last > 0 && size > 0
	case from >= size:
		return part, true, false
	case !hasLast || last >= size:
		last = size - 1
	}
	return Range{from, last + 1}, true, true
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

func (p Range) AppendHeader(dst []byte, size int64) []byte {
	dst = strconv.AppendInt(append(dst, "Content-Range: bytes "...), p.From, 10)
	dst = strconv.AppendInt(append(dst, '-'), p.To-1, 10)
	dst = strconv.AppendInt(append(dst, '/'), size, 10)
	return append(dst, "\r\n"...)
}

// Parts is the framing of several ranges in one response (RFC 9110, 14.6).
type Parts struct {
	boundary [32]byte
	Type     string // of the file; may be empty
	Size     int64  // of the file
}

// MakeBoundary chooses a random boundary, so that no file can have it.
func (m *Parts) MakeBoundary() {
	for i := range m.boundary {
		m.boundary[i] = "0123456789abcdef"[rand.Uint32()&15]
	}
}

func (m *Parts) ContentType() string {
	return "multipart/byteranges; boundary=" + string(m.boundary[:])
}

// AppendHead appends what goes before a part.
func (m *Parts) AppendHead(dst []byte, part Range) []byte {
	dst = append(append(append(dst, "\r\n--"...), m.boundary[:]...), "\r\n"...)
	if m.Type != "" {
		dst = h1.AppendField(dst, "Content-Type", m.Type)
	}
	return append(part.AppendHeader(dst, m.Size), "\r\n"...)
}

// AppendEnd appends what goes behind the last part.
func (m *Parts) AppendEnd(dst []byte) []byte {
	return append(append(append(dst, "\r\n--"...), m.boundary[:]...), "--\r\n"...)
}

// Length is that of the whole body.
func (m *Parts) Length(ranges []Range, scratch []byte) int64 {
	total := int64(len(m.AppendEnd(scratch)))
	for _, part := range ranges {
		total += int64(len(m.AppendHead(scratch, part))) + part.To - part.From
	}
	return total
}
