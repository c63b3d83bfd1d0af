package knot

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// notModified evaluates If-None-Match, or without it If-Modified-Since (RFC
// 9110, 13.2.2).
func (x *Ctx) notModified(etag []byte, modified time.Time) bool {
	b := x.headBytes()
	if list, ok := x.head.find(b, "if-none-match"); ok {
		return matchesTag(list, etag)
	}
	since, ok := x.head.find(b, "if-modified-since")
	if !ok {
		return false
	}
	t, ok := parseHTTPTime(since)
	return ok && !modified.Truncate(time.Second).After(t)
}

// matchesTag is the weak comparison with each element of a list of entity
// tags.
func matchesTag(list, etag []byte) bool {
	for len(list) > 0 {
		var one []byte
		one, list = nextElement(list)
		if string(one) == "*" || bytes.Equal(bytes.TrimPrefix(one, []byte("W/")), etag) {
			return true
		}
	}
	return false
}

// parseHTTPTime reads the three forms of RFC 9110, 5.6.7.
func parseHTTPTime(text []byte) (time.Time, bool) {
	if len(text) > 64 {
		return time.Time{}, false
	}
	for _, form := range [...]string{httpTime, time.RFC850, time.ANSIC} {
		if t, err := time.Parse(form, string(text)); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// byteRange is the part [from, to) of a file, if set.
type byteRange struct {
	from, to int64
	set      bool
}

// wantedRange reads the Range header. It returns false if the range lies
// outside the file (416). A header that is malformed, has more than one range,
// or whose If-Range does not match is ignored, as RFC 9110, 14.2 allows.
func (x *Ctx) wantedRange(etag []byte, modified time.Time, size int64) (byteRange, bool) {
	b := x.headBytes()
	value, ok := x.head.find(b, "range")
	if !ok {
		return byteRange{}, true
	}
	if condition, ok := x.head.find(b, "if-range"); ok && !bytes.Equal(condition, etag) {
		t, ok := parseHTTPTime(condition)
		if !ok || !modified.Truncate(time.Second).Equal(t) {
			return byteRange{}, true
		}
	}
	return parseRange(value, size)
}

func parseRange(value []byte, size int64) (byteRange, bool) {
	const unit = "bytes="
	if len(value) < len(unit) || !textIs(value[:len(unit)], unit) {
		return byteRange{}, true
	}
	value = trimBlank(value[len(unit):])
	dash := bytes.IndexByte(value, '-')
	if dash < 0 {
		return byteRange{}, true
	}
	from, hasFrom, okFrom := parsePosition(value[:dash])
	last, hasLast, okLast := parsePosition(value[dash+1:])
	switch {
	case !okFrom || !okLast || !hasFrom && !hasLast || hasFrom && hasLast && last < from:
		return byteRange{}, true
	case !hasFrom: // the last bytes
		if last == 0 {
			return byteRange{}, false
		}
		return byteRange{max(0, size-last), size, true}, size > 0
	case from >= size:
		return byteRange{}, false
	case !hasLast || last >= size:
		last = size - 1
	}
	return byteRange{from, last + 1, true}, true
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
