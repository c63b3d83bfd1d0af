package h1

import (
	"bytes"
	"io"
)

// A ResponseHead is the head of a response as a proxy reads it, as strictly as requests are read: lines end
// with CR LF, and a framing that two readers may understand differently is an error (see package knot).
// It holds offsets into the bytes that it was parsed from. The zero value is ready, and may be
// used again and again. No method parks.
type ResponseHead struct {
	Status int // 100 to 599
	Minor  int // HTTP/1.Minor
	Size   int // bytes of the head, with the blank line
	head   Head
	cgi    []byte // what ParseCGI has parsed, with CR LF
}

// Limits of a head, in bytes and lines.
const (
	maxResponseHead   = 64 << 10
	maxResponseFields = 200
)

var (
	badStatusLine = &Fault{502, "status line is malformed"}
	badStatus     = &Fault{502, "status is not in 100 to 599"}
)

// Parse reads the head that b begins with. It returns false if b ends too early, and an error for a head that is
// wrong, or longer than 64 KiB or 200 lines.
func (h *ResponseHead) Parse(b []byte) (whole bool, err error) {
	i, f := h.statusLine(b)
	if f == nil {
		f = h.fields(b, i)
	}
	switch {
	case f == nil:
		return true, nil
	case f != NeedMore:
		return false, f
	case len(b) >= maxResponseHead:
		return false, HeadTooLarge
	}
	return false, nil
}

// ParseCGI is Parse for what a CGI program answers (RFC 3875, 6): lines may end with LF alone, and the status is in
// a line Status, 200 if there is none.
func (h *ResponseHead) ParseCGI(b []byte) (whole bool, err error) {
	h.head.Reset()
	h.Status, h.Minor, h.cgi = 200, 1, h.cgi[:0]
	size := 0
	for {
		line, _, ended := bytes.Cut(b[size:], []byte("\n"))
		switch {
		case size > maxResponseHead || !ended && len(b) > maxResponseHead:
			return false, HeadTooLarge
		case !ended:
			return false, nil
		}
		size += len(line) + 1
		line = bytes.TrimSuffix(line, []byte("\r"))
		h.cgi = append(append(h.cgi, line...), "\r\n"...)
		if len(line) == 0 {
			break
		}
	}
	f := h.fields(h.cgi, 0)
	h.Size = size
	switch {
	case f != nil:
		return false, f
	case h.head.Chunked:
		return false, badCoding
	}
	b = h.cgi
	if text, ok := h.head.Find(b, "status"); ok {
		code, _, _ := bytes.Cut(text, []byte(" "))
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

// statusLine reads "HTTP/1.1 200 OK" and returns the offset of the next line.
func (h *ResponseHead) statusLine(b []byte) (int, *Fault) {
	h.head.Reset()
	h.cgi = nil
	end := bytes.IndexByte(b, '\n')
	line := b
	if end >= 0 {
		line = b[:end+1]
	}
	const form = "HTTP/1."
	if n := min(len(line), len(form)); string(line[:n]) != form[:n] {
		return 0, badStatusLine
	}
	if end < 0 {
		return 0, NeedMore
	}
	if len(line) < len("HTTP/1.1 200\r\n") || line[len(line)-2] != '\r' {
		return 0, badStatusLine
	}
	line = line[:len(line)-2]
	if line[7] < '0' || line[7] > '9' || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
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
	return end + 1, f
}

func statusCode(text []byte) (int, *Fault) {
	if len(text) != 3 {
		return 0, badStatus
	}
	code := 0
	for _, ch := range text {
		if ch < '0' || ch > '9' {
			return 0, badStatus
		}
		code = code*10 + int(ch-'0')
	}
	if code < 100 || code > 599 {
		return 0, badStatus
	}
	return code, nil
}

// fields reads the header lines from i on, and checks the framing.
func (h *ResponseHead) fields(b []byte, i int) *Fault {
	in := &h.head
	in.Minor = uint8(h.Minor)
	for {
		if i+1 >= len(b) {
			return NeedMore
		}
		if b[i] == '\r' {
			if b[i+1] != '\n' {
				return badLineEnd
			}
			h.Size = i + 2
			break
		}
		if len(in.Fields) == maxResponseFields {
			return tooManyFields
		}
		one, next, f := scanField(b, i)
		if f != nil {
			return f
		}
		i = next
		in.Fields = append(in.Fields, one)
		switch name := one.Name.Of(b); {
		case TokenIs(name, "connection"):
			in.noteConnection(one.Value.Of(b))
		case TokenIs(name, "content-length"):
			f = in.noteLength(one.Value.Of(b))
		case TokenIs(name, "transfer-encoding"):
			f = in.noteCoding(one.Value.Of(b))
		}
		if f != nil {
			return f
		}
	}
	switch {
	case h.Size > maxResponseHead:
		return HeadTooLarge
	case in.HasCoding && in.hasLength:
		return codingAndLength
	case in.HasCoding && h.Minor == 0:
		return codingBefore11
	}
	return nil
}

// of is what the offsets count from.
func (h *ResponseHead) of(b []byte) []byte {
	if len(h.cgi) > 0 {
		return h.cgi
	}
	return b
}

// Find returns the value of the first line called lower, which is in lower case; nil if there is none. b is what was parsed.
func (h *ResponseHead) Find(b []byte, lower string) []byte {
	value, _ := h.head.Find(h.of(b), lower)
	return value
}

// Each calls fn for every line, with views of b, which is what was parsed, until fn returns false.
func (h *ResponseHead) Each(b []byte, fn func(name, value []byte) bool) {
	b = h.of(b)
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
		return ResponseBody{Framing: Framing{Chunked: true, Phase: BodySize}}
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
		if end < 0 && len(rest) <= most {
			return nil, used, nil
		}
		if end < 1 || end > most || rest[end-1] != '\r' {
			return nil, used, BadChunk
		}
		name, value, f := r.Step(rest[:end-1], 1<<62)
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
