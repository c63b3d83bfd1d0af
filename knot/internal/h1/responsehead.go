package h1

import (
	"bytes"
	"io"
	"strconv"
)

// A ResponseHead is the head of a response as a proxy reads it. The operator has chosen the backend, so lines may end with LF
// alone, as RFC 9112, 2.2, allows; but a framing that two readers may understand differently is an error (see package knot).
// It holds offsets into the bytes that it was parsed from. The zero value is ready, and may be
// used again and again. No method parks.
type ResponseHead struct {
	Status int // 100 to 599
	Minor  int // HTTP/1.Minor
	Size   int // bytes of the head, with the blank line
	head   Head
}

const (
	// maxResponseHead bounds the head and the trailer of a response, in bytes: twice what Chromium and nginx take with large buffers.
	maxResponseHead = 64 << 10
	// keptFields is how many lines a ResponseHead keeps room for: ten times those of most responses.
	keptFields = 200
)

var (
	badStatusLine    = &Fault{502, "status line is malformed"}
	badStatus        = &Fault{502, "status is not in 100 to 599"}
	responseTooLarge = &Fault{502, "response head is larger than 64 KB"}
)

// Parse reads the head that b begins with. It returns false if b ends too early, and an error for a head that is
// wrong, or larger than 64 KB. White space between a name and its colon is moved behind the colon (RFC 9112, 5.1).
func (h *ResponseHead) Parse(b []byte) (whole bool, err error) {
	h.head.Reset()
	i, f := h.statusLine(b)
	return h.fields(b, i, f)
}

// ParseCGI is Parse for what a CGI program answers (RFC 3875, 6): the status is in a line Status. Without that line it is 302
// if there is a Location, else 200.
func (h *ResponseHead) ParseCGI(b []byte) (whole bool, err error) {
	h.head.Reset()
	h.Status, h.Minor = 200, 1
	if whole, err = h.fields(b, 0, nil); !whole {
		return false, err
	}
	if h.head.Chunked {
		return false, badCoding
	}
	if text, ok := h.head.Find(b, "status"); ok {
		code, _, _ := bytes.Cut(text, []byte(" "))
		var f *Fault
		if h.Status, f = statusCode(code); f != nil {
			return false, f
		}
		if h.Status < 200 {
			return false, badStatus
		}
	} else if _, ok := h.head.Find(b, "location"); ok {
		h.Status = 302
	}
	return true, nil
}

// Trim drops the room that only a head with unusually many lines needs.
func (h *ResponseHead) Trim() {
	if cap(h.head.Fields) > keptFields {
		h.head.Fields = nil
	}
}

// statusLine reads "HTTP/1.1 200 OK" and returns the offset of the next line.
func (h *ResponseHead) statusLine(b []byte) (int, *Fault) {
	line, _, ended := bytes.Cut(b, []byte("\n"))
	next := len(line) + 1
	const form = "HTTP/1."
	if n := min(len(line), len(form)); string(line[:n]) != form[:n] {
		return 0, badStatusLine
	}
	if !ended {
		return 0, NeedMore
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) < len("HTTP/1.1 200") || line[7] < '0' || line[7] > '9' || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, badStatusLine
	}
	for _, ch := range line[12:] {
		if ch < ' ' && ch != '\t' || ch == 0x7f {
			return 0, badStatusLine
		}
	}
	var f *Fault
	h.Minor = int(line[7] - '0')
	h.Status, f = statusCode(line[9:12])
	return next, f
}

func statusCode(text []byte) (int, *Fault) {
	code, err := strconv.ParseUint(Text(text), 10, 16)
	if len(text) != 3 || err != nil || code < 100 || code > 599 {
		return 0, badStatus
	}
	return int(code), nil
}

// fields reads the header lines from i on, unless f is a fault before them, and checks the framing.
func (h *ResponseHead) fields(b []byte, i int, f *Fault) (whole bool, err error) {
	in := &h.head
	in.Minor = uint8(h.Minor)
	for h.Size = 0; f == nil; {
		if h.Size, f = headEnd(b, i); h.Size > 0 || f != nil {
			break
		}
		one, next, wrong := scanField(b, i, true)
		if wrong == badName {
			if wrong = mendName(b, i); wrong == nil {
				one, next, wrong = scanField(b, i, true)
			}
		}
		if f = wrong; f != nil {
			break
		}
		i = next
		in.Fields = append(in.Fields, one)
		switch name := one.Name.Of(b); {
		case TokenIs(name, "connection"):
			in.noteConnection(one.Value.Of(b))
		case TokenIs(name, "content-length"):
			f = h.noteLength(one.Value.Of(b))
		case TokenIs(name, "transfer-encoding"):
			f = in.noteCoding(one.Value.Of(b))
		}
	}
	switch {
	case f == NeedMore && len(b) < maxResponseHead:
		return false, nil
	case f == NeedMore || h.Size > maxResponseHead:
		return false, responseTooLarge
	case f != nil:
		return false, f
	case in.HasCoding && in.hasLength:
		return false, codingAndLength
	case in.HasCoding && h.Minor == 0:
		return false, codingBefore11
	}
	return true, nil
}

// mendName moves white space between the name of the line at b[i:] and its colon behind the colon.
func mendName(b []byte, i int) *Fault {
	end := i
	for end < len(b) && TokenByte[b[end]] {
		end++
	}
	colon := end
	for colon < len(b) && (b[colon] == ' ' || b[colon] == '\t') {
		colon++
	}
	switch {
	case end == i || colon == end:
		return badName
	case colon == len(b):
		return NeedMore
	case b[colon] != ':':
		return badName
	}
	b[end], b[colon] = ':', ' '
	return nil
}

// noteLength takes the value of a line Content-Length. The length may be there several times, in lines or as a list, if it is
// always the same (RFC 9112, 6.3).
func (h *ResponseHead) noteLength(value []byte) *Fault {
	in := &h.head
	for digits := range bytes.SplitSeq(value, []byte(",")) {
		had, before := in.hasLength, in.Length
		in.hasLength, in.Length = false, 0
		if f := in.noteLength(bytes.Trim(digits, " \t")); f != nil {
			return f
		}
		if had && in.Length != before {
			return twoLengths
		}
	}
	return nil
}

// headEnd returns the offset behind an empty line at b[i:], 0 if another line stands there.
func headEnd(b []byte, i int) (int, *Fault) {
	switch rest := b[i:]; {
	case len(rest) == 0 || string(rest) == "\r":
		return 0, NeedMore
	case rest[0] == '\n':
		return i + 1, nil
	case rest[0] == '\r' && rest[1] == '\n':
		return i + 2, nil
	}
	return 0, nil
}

// Find returns the value of the first line called lower, which is in lower case; nil if there is none. b is what was parsed.
func (h *ResponseHead) Find(b []byte, lower string) []byte {
	value, _ := h.head.Find(b, lower)
	return value
}

// Each calls fn for every line, with views of b, which is what was parsed, until fn returns false.
func (h *ResponseHead) Each(b []byte, fn func(name, value []byte) bool) {
	for _, one := range h.head.Fields {
		if !fn(one.Name.Of(b), one.Value.Of(b)) {
			return
		}
	}
}

// Persistent reports whether the connection may be used again after the response, if its body does not end with it.
func (h *ResponseHead) Persistent() bool { return h.head.Persistent() }

// Length is the length of the body as Content-Length says, -1 without one.
func (h *ResponseHead) Length() int64 {
	if !h.head.hasLength {
		return -1
	}
	return h.head.Length
}

// A ResponseBody takes the body of a response out of its framing. No method parks.
type ResponseBody struct {
	Framing
	// UntilClose: the body ends with the connection.
	UntilClose bool
}

// Body is the body of the response that h is the head of, to a request with that method (RFC 9112, 6.3).
func (h *ResponseHead) Body(method string) ResponseBody {
	switch {
	case method == "HEAD" || Bodyless(h.Status):
		return ResponseBody{}
	case h.head.Chunked:
		return ResponseBody{Framing: Framing{Chunked: true, Phase: BodySize, lenient: true}}
	case !h.head.hasLength:
		return ResponseBody{Framing: Framing{Phase: BodyData, Left: 1<<63 - 1}, UntilClose: true}
	case h.head.Length == 0:
		return ResponseBody{}
	}
	return ResponseBody{Framing: Framing{Phase: BodyData, Left: h.head.Length}}
}

// Done reports whether all of the body has been taken.
func (r *ResponseBody) Done() bool { return r.Phase == BodyDone }

// Next takes the next piece of the body, a view, out of b, which begins with what has not been used yet. It
// says how many bytes of b are used up by it. With none, and no error, more is needed. io.EOF: the body has
// ended. trailer, if not nil, is called for each line of the trailer.
func (r *ResponseBody) Next(b []byte, trailer func(name, value []byte)) (piece []byte, used int, err error) {
	for {
		rest := b[used:]
		switch r.Phase {
		case BodyDone:
			return nil, used, io.EOF
		case BodyData:
			n := int(min(r.Left, int64(len(rest))))
			if r.UntilClose {
				n = len(rest)
				r.Read += int64(n)
			} else if n > 0 {
				r.Took(n)
			}
			return rest[:n:n], used + n, nil
		}
		end := bytes.IndexByte(rest, '\n')
		most := MaxChunkLine
		if r.Phase == BodyTrailer {
			most = maxResponseHead - r.Trailer
		}
		switch {
		case end < 0 && len(rest) <= most:
			return nil, used, nil
		case end < 0, end > most:
			return nil, used, BadChunk
		}
		line, crlf := bytes.CutSuffix(rest[:end], []byte("\r"))
		if !crlf && r.Phase == BodySize && bytes.IndexByte(line, ';') >= 0 {
			return nil, used, BadChunk // to some readers the LF is part of the extension
		}
		name, value, f := r.Step(line, 1<<62)
		if f != nil {
			return nil, used, f
		}
		used += end + 1
		if name != nil && trailer != nil {
			trailer(name, value)
		}
	}
}

// Bodyless statuses have no body and no Content-Length (RFC 9110, 8.6).
func Bodyless(status int) bool {
	return status == 204 || status == 304 || status < 200
}
