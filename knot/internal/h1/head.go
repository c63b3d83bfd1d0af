package h1

import "encoding/binary"

// method is a request method as far as the server knows it.
type method uint8

const (
	MethodUnknown method = iota
	MethodGet
	MethodHead
	methodPost
	methodPut
	methodDelete
	MethodConnect
	MethodOptions
	methodTrace
	methodPatch
)

var MethodNames = [...]string{"", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// Span is a piece of the request head, as offsets from its first byte, so that
// it stays right when the buffer moves.
type Span struct{ From, To uint32 }

func (s Span) Of(head []byte) []byte { return head[s.From:s.To:s.To] }

// field is one header line.
type field struct{ Name, Value Span }

// HeadLimits bounds what Parse takes. Sizes in bytes.
type HeadLimits struct {
	Line   int // request line, without its CR LF
	Size   int // whole head, with the blank line
	Fields int // header lines
}

// Head is one parsed request head. It holds offsets, not bytes, and is used
// again for the next request. Every field is loop-private.
type Head struct {
	Fields []field
	Target Span
	Host   Span // value of Host, or the authority of an absolute target
	Path   Span // still escaped
	Query  Span // without its question mark
	Length int64
	Size   int // bytes, with leading empty lines and the blank line
	Start  int // offset of the request line: leading empty lines end here

	Method              method
	Minor               uint8 // HTTP/1.minor
	hosts               uint8
	Chunked             bool
	close               bool // Connection: close
	keepAlive           bool // Connection: keep-alive
	Expect              bool // Expect: 100-continue
	hasLength           bool
	HasCoding           bool
	HasConditionOrRange bool   // there is a condition or a range
	Refused             *Fault // well formed, but not to be served

	lastHost []byte // of an earlier request, valid. Most have the same
}

func (h *Head) Reset() {
	*h = Head{Fields: h.Fields[:0], lastHost: h.lastHost}
}

// Parse reads the head that b begins with. It returns nil when it is complete
// and right, NeedMore when b ends too early, or the fault. What is refused for
// its meaning only (Expect) is in h.Refused: framing is known then.
func (h *Head) Parse(b []byte, limits *HeadLimits) *Fault {
	h.Reset()
	i, f := h.parseRequestLine(b, limits)
	if f == nil && b[i-2] != '\r' {
		return h.endBare(b, i)
	}
	for f == nil {
		if i < len(b) && b[i] == '\n' {
			return badLineEnd
		}
		if i+1 >= len(b) {
			f = NeedMore
			break
		}
		if b[i] == '\r' {
			if b[i+1] != '\n' {
				return badLineEnd
			}
			if h.Size = i + 2; h.Size > limits.Size {
				return HeadTooLarge
			}
			return h.check()
		}
		if len(h.Fields) == limits.Fields {
			return tooManyFields
		}
		var one field
		if one, i, f = scanField(b, i, false); f == nil {
			h.Fields = append(h.Fields, one)
			f = h.note(b, one)
		}
	}
	if f == NeedMore && len(b) >= limits.Size {
		return HeadTooLarge
	}
	return f
}

// endBare ends a head at b[i:] that is a request line with a bare LF. net/rpc's client sends such a head, and nothing is in
// it that another server could read in another way.
func (h *Head) endBare(b []byte, i int) *Fault {
	switch {
	case i == len(b):
		return NeedMore
	case b[i] != '\n':
		return badLineEnd
	}
	h.Size = i + 1
	return h.check()
}

// parseRequestLine returns the offset of the line after it.
func (h *Head) parseRequestLine(b []byte, limits *HeadLimits) (int, *Fault) {
	i := 0
	for i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n' {
		i += 2
	}
	h.Start = i
	line := i
	if i+4 <= len(b) && binary.LittleEndian.Uint32(b[i:]) == 'G'|'E'<<8|'T'<<16|' '<<24 {
		h.Method = MethodGet
		i += 3
	} else {
		for i < len(b) && TokenByte[b[i]] {
			i++
		}
		if i == len(b) {
			return 0, lineTooShort(i-line, limits)
		}
		if b[i] != ' ' || i == line {
			if i == line && b[i] == '\r' && i+1 == len(b) {
				return 0, NeedMore
			}
			return 0, badMethod
		}
		h.Method = methodOf(b[line:i])
	}
	i++
	target := i
	i = indexBlank(b, i)
	if i-line > limits.Line {
		return 0, targetTooLong
	}
	if i == len(b) {
		return 0, NeedMore
	}
	if b[i] != ' ' || i == target {
		return 0, badTarget
	}
	h.Target = Span{uint32(target), uint32(i)}
	i++
	next, f := h.parseVersion(b, i)
	if f != nil {
		return 0, f
	}
	if next-2-line > limits.Line {
		return 0, targetTooLong
	}
	return next, h.splitTarget(b)
}

func lineTooShort(length int, limits *HeadLimits) *Fault {
	if length > limits.Line {
		return targetTooLong
	}
	return NeedMore
}

func methodOf(name []byte) method {
	for m := MethodGet; int(m) < len(MethodNames); m++ {
		if string(name) == MethodNames[m] {
			return m
		}
	}
	return MethodUnknown
}

// parseVersion reads "HTTP/1.x" CR LF, or what endBare is for, at b[i:] and returns the offset after it.
func (h *Head) parseVersion(b []byte, i int) (int, *Fault) {
	const form = "HTTP/d.d\r\n"
	if i+len(form) <= len(b) && string(b[i:i+len(form)]) == "HTTP/1.1\r\n" {
		h.Minor = 1
		return i + len(form), nil
	}
	for k := range len(form) {
		if i+k == len(b) {
			return 0, NeedMore
		}
		ch := b[i+k]
		switch {
		case form[k] == 'd':
			if ch < '0' || ch > '9' {
				return 0, badVersion
			}
		case ch != form[k] && k >= 8:
			switch {
			case ch == '\n' && h.Method == MethodConnect && string(b[i:i+k]) == "HTTP/1.0":
				return i + k + 1, nil
			case ch == '\n':
				return 0, badLineEnd
			}
			return 0, badVersion
		case ch != form[k]:
			return 0, badVersion
		}
	}
	if b[i+5] != '1' {
		return 0, UnknownVersion
	}
	h.Minor = b[i+7] - '0'
	return i + len(form), nil
}

// scanField reads the header line at b[i:] and returns the offset of the next. bareLF: it may end with LF alone.
func scanField(b []byte, i int, bareLF bool) (one field, next int, f *Fault) {
	from := i
	for i < len(b) && TokenByte[b[i]] {
		i++
	}
	if i == len(b) {
		return one, 0, NeedMore
	}
	if b[i] != ':' || i == from {
		switch {
		case i == from && (b[i] == ' ' || b[i] == '\t'):
			return one, 0, badFold
		case b[i] == '\n' && !bareLF || b[i] == '\r':
			return one, 0, badLineEnd
		}
		return one, 0, badName
	}
	one.Name = Span{uint32(from), uint32(i)}
	i++
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from = i
	for {
		i = IndexControl(b, i)
		if i == len(b) || i+1 == len(b) && (b[i] == '\r' || b[i] == '\t') {
			return one, 0, NeedMore
		}
		if b[i] != '\t' {
			break
		}
		i++
	}
	end := i
	switch {
	case b[i] == '\r' && b[i+1] == '\n':
		i++
	case b[i] == '\n' && bareLF:
	case b[i] == '\n' || b[i] == '\r':
		return one, 0, badLineEnd
	default:
		return one, 0, badValue
	}
	for end > from && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	one.Value = Span{uint32(from), uint32(end)}
	return one, i + 1, nil
}
