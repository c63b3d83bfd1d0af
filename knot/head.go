package knot

import "encoding/binary"

// method is a request method as far as the server knows it.
type method uint8

const (
	methodUnknown method = iota
	methodGet
	methodHead
	methodPost
	methodPut
	methodDelete
	methodConnect
	methodOptions
	methodTrace
	methodPatch
)

var methodNames = [...]string{"", "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// span is a piece of the request head, as offsets from its first byte, so that
// it stays right when the buffer moves.
type span struct{ from, to uint32 }

func (s span) of(head []byte) []byte { return head[s.from:s.to:s.to] }

// field is one header line.
type field struct{ name, value span }

// headLimits bounds what parse takes. Sizes in bytes.
type headLimits struct {
	line   int // request line, without its CR LF
	size   int // whole head, with the blank line
	fields int // header lines
}

// head is one parsed request head. It holds offsets, not bytes, and is used
// again for the next request. Every field is loop-private.
type head struct {
	fields []field
	target span
	host   span // value of Host, or the authority of an absolute target
	path   span // still escaped
	query  span // without its question mark
	length int64
	size   int // bytes, with leading empty lines and the blank line
	start  int // offset of the request line: leading empty lines end here

	method    method
	minor     uint8 // HTTP/1.minor
	hosts     uint8
	chunked   bool
	close     bool // Connection: close
	keepAlive bool // Connection: keep-alive
	expect    bool // Expect: 100-continue
	hasLength bool
	hasCoding bool
	asks      bool   // there is a condition or a range
	refused   *fault // well formed, but not to be served
}

func (h *head) reset() {
	*h = head{fields: h.fields[:0]}
}

// parse reads the head that b begins with. It returns nil when it is complete
// and right, needMore when b ends too early, or the fault. What is refused for
// its meaning only (CONNECT) is in h.refused: framing is known then.
func (h *head) parse(b []byte, limits *headLimits) *fault {
	h.reset()
	i, f := h.parseRequestLine(b, limits)
	for f == nil {
		if i < len(b) && b[i] == '\n' {
			return badLineEnd
		}
		if i+1 >= len(b) {
			f = needMore
			break
		}
		if b[i] == '\r' {
			if b[i+1] != '\n' {
				return badLineEnd
			}
			if h.size = i + 2; h.size > limits.size {
				return headTooLarge
			}
			return h.check()
		}
		if len(h.fields) == limits.fields {
			return tooManyFields
		}
		var one field
		if one, i, f = scanField(b, i); f == nil {
			h.fields = append(h.fields, one)
			f = h.note(b, one)
		}
	}
	if f == needMore && len(b) >= limits.size {
		return headTooLarge
	}
	return f
}

// parseRequestLine returns the offset of the line after it.
func (h *head) parseRequestLine(b []byte, limits *headLimits) (int, *fault) {
	i := 0
	for i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n' {
		i += 2
	}
	h.start = i
	line := i
	if i+4 <= len(b) && binary.LittleEndian.Uint32(b[i:]) == 'G'|'E'<<8|'T'<<16|' '<<24 {
		h.method = methodGet
		i += 3
	} else {
		for i < len(b) && tokenByte[b[i]] {
			i++
		}
		if i == len(b) {
			return 0, lineTooShort(i-line, limits)
		}
		if b[i] != ' ' || i == line {
			if i == line && b[i] == '\r' && i+1 == len(b) {
				return 0, needMore
			}
			return 0, badMethod
		}
		h.method = methodOf(b[line:i])
	}
	i++
	target := i
	i = indexBlank(b, i)
	if i-line > limits.line {
		return 0, targetTooLong
	}
	if i == len(b) {
		return 0, needMore
	}
	if b[i] != ' ' || i == target {
		return 0, badTarget
	}
	h.target = span{uint32(target), uint32(i)}
	i++
	next, f := h.parseVersion(b, i)
	if f != nil {
		return 0, f
	}
	if next-2-line > limits.line {
		return 0, targetTooLong
	}
	return next, h.splitTarget(b)
}

func lineTooShort(length int, limits *headLimits) *fault {
	if length > limits.line {
		return targetTooLong
	}
	return needMore
}

func methodOf(name []byte) method {
	for m := methodGet; int(m) < len(methodNames); m++ {
		if string(name) == methodNames[m] {
			return m
		}
	}
	return methodUnknown
}

// parseVersion reads "HTTP/1.x" CR LF at b[i:] and returns the offset after it.
func (h *head) parseVersion(b []byte, i int) (int, *fault) {
	const form = "HTTP/d.d\r\n"
	if i+len(form) <= len(b) && string(b[i:i+len(form)]) == "HTTP/1.1\r\n" {
		h.minor = 1
		return i + len(form), nil
	}
	for k := range len(form) {
		if i+k == len(b) {
			return 0, needMore
		}
		ch := b[i+k]
		switch {
		case form[k] == 'd':
			if ch < '0' || ch > '9' {
				return 0, badVersion
			}
		case ch != form[k] && k >= 8:
			if ch == '\n' {
				return 0, badLineEnd
			}
			return 0, badVersion
		case ch != form[k]:
			return 0, badVersion
		}
	}
	if b[i+5] != '1' {
		return 0, unknownVersion
	}
	h.minor = b[i+7] - '0'
	return i + len(form), nil
}

// scanField reads the header line at b[i:] and returns the offset of the next.
func scanField(b []byte, i int) (one field, next int, f *fault) {
	from := i
	for i < len(b) && tokenByte[b[i]] {
		i++
	}
	if i == len(b) {
		return one, 0, needMore
	}
	if b[i] != ':' || i == from {
		switch {
		case i == from && (b[i] == ' ' || b[i] == '\t'):
			return one, 0, badFold
		case b[i] == '\n' || b[i] == '\r':
			return one, 0, badLineEnd
		}
		return one, 0, badName
	}
	one.name = span{uint32(from), uint32(i)}
	i++
	for i < len(b) && (b[i] == ' ' || b[i] == '\t') {
		i++
	}
	from = i
	for {
		i = indexControl(b, i)
		if i == len(b) || i+1 == len(b) && (b[i] == '\r' || b[i] == '\t') {
			return one, 0, needMore
		}
		if b[i] != '\t' {
			break
		}
		i++
	}
	if b[i] != '\r' || b[i+1] != '\n' {
		if b[i] == '\n' || b[i] == '\r' {
			return one, 0, badLineEnd
		}
		return one, 0, badValue
	}
	end := i
	for end > from && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	one.value = span{uint32(from), uint32(end)}
	return one, i + 2, nil
}
