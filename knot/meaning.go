package knot

import "bytes"

// maxLengthDigits keeps a Content-Length inside int64.
const maxLengthDigits = 18

// note takes up what a header line means for the framing and the life of the
// connection.
func (h *head) note(b []byte, one field) *fault {
	name := one.name.of(b)
	switch len(name) {
	case len("host"):
		if tokenIs(name, "host") {
			return h.noteHost(b, one.value)
		}
	case len("expect"):
		if tokenIs(name, "expect") {
			if textIs(one.value.of(b), "100-continue") {
				h.expect = true
			} else {
				h.refuse(badExpectation)
			}
		}
	case len("connection"):
		if tokenIs(name, "connection") {
			h.noteConnection(one.value.of(b))
		}
	case len("content-length"):
		if tokenIs(name, "content-length") {
			return h.noteLength(one.value.of(b))
		}
	case len("transfer-encoding"):
		if tokenIs(name, "transfer-encoding") {
			return h.noteCoding(one.value.of(b))
		}
		h.asks = h.asks || tokenIs(name, "if-modified-since")
	case len("if-unmodified-since"):
		h.asks = h.asks || tokenIs(name, "if-unmodified-since")
	case len("if-match"):
		h.asks = h.asks || tokenIs(name, "if-match")
	case len("if-none-match"):
		h.asks = h.asks || tokenIs(name, "if-none-match")
	case len("range"):
		h.asks = h.asks || tokenIs(name, "range")
	}
	return nil
}

func (h *head) refuse(f *fault) {
	if h.refused == nil {
		h.refused = f
	}
}

func (h *head) noteHost(b []byte, value span) *fault {
	if h.hosts++; h.hosts > 1 {
		return twoHosts
	}
	if text := value.of(b); len(text) > 0 && !validAuthority(text) {
		return badHost
	}
	// The authority of an absolute target overrides the field (RFC 9112, 3.2.2).
	if h.host == (span{}) {
		h.host = value
	}
	return nil
}

func (h *head) noteConnection(list []byte) {
	for len(list) > 0 {
		var option []byte
		option, list = nextElement(list)
		switch {
		case textIs(option, "close"):
			h.close = true
		case textIs(option, "keep-alive"):
			h.keepAlive = true
		}
	}
}

func (h *head) noteLength(digits []byte) *fault {
	if h.hasLength {
		return twoLengths
	}
	h.hasLength = true
	if len(digits) == 0 {
		return badLength
	}
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return badLength
		}
	}
	for len(digits) > 1 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) > maxLengthDigits {
		return bodyTooLarge
	}
	for _, ch := range digits {
		h.length = h.length*10 + int64(ch-'0')
	}
	return nil
}

func (h *head) noteCoding(value []byte) *fault {
	if h.hasCoding {
		return twoCodings
	}
	h.hasCoding = true
	if textIs(value, "chunked") {
		h.chunked = true
		return nil
	}
	// Without chunked as the last one the end of the body can't be told (RFC 9112, 6.3).
	chunked := false
	for list := value; list != nil; {
		var coding []byte
		coding, list = nextElement(list)
		if len(coding) == 0 || chunked {
			return badCoding
		}
		chunked = textIs(coding, "chunked")
	}
	if !chunked {
		return badCoding
	}
	return unknownCoding
}

// check is what can be said only when all header lines are known.
func (h *head) check() *fault {
	switch {
	case h.hasCoding && h.hasLength:
		return codingAndLength
	case h.hasCoding && h.minor == 0:
		return codingBefore11
	case h.hosts == 0 && h.minor > 0:
		return noHost
	}
	if h.method == methodConnect {
		h.refuse(noTunnel)
	}
	if h.minor == 0 {
		h.expect = false
		if h.refused == badExpectation {
			h.refused = nil
		}
	}
	return nil
}

// persistent reports whether the client wants the connection to stay.
func (h *head) persistent() bool {
	if h.minor == 0 {
		return h.keepAlive && !h.close
	}
	return !h.close
}

// splitTarget finds path, query and authority of the target (RFC 9112, 3.2). Most of what a URI may
// not hold (RFC 3986, appendix A) is let through, as browsers leave it as it is (brackets, braces, bar,
// circumflex, backquote, in a query the backslash), or curl does (quotation marks, angle brackets).
func (h *head) splitTarget(b []byte) *fault {
	from, to := h.target.from, h.target.to
	switch {
	case h.method == methodConnect:
		return nil
	case b[from] == '/':
	case b[from] == '*' && to-from == 1 && h.method == methodOptions:
		h.path = h.target
		return nil
	default:
		var f *fault
		if from, f = h.splitAuthority(b); f != nil {
			return f
		}
	}
	rest := b[from:to]
	path := 0
	for path < len(rest) && rest[path] != '?' {
		if rest[path] == '#' || rest[path] == '\\' {
			return badTarget
		}
		path++
	}
	h.path = span{from, from + uint32(path)}
	if path == len(rest) {
		return nil
	}
	h.query = span{from + uint32(path) + 1, to}
	if bytes.IndexByte(rest[path+1:], '#') >= 0 {
		return badTarget
	}
	return nil
}

// splitAuthority reads "http://authority" and returns the offset of the path.
func (h *head) splitAuthority(b []byte) (uint32, *fault) {
	target := h.target.of(b)
	scheme := len("http://")
	if len(target) < scheme || !textIs(target[:scheme], "http://") {
		scheme++
		if len(target) < scheme || !textIs(target[:scheme], "https://") {
			return 0, badTarget
		}
	}
	end := scheme
	for end < len(target) && target[end] != '/' && target[end] != '?' {
		end++
	}
	if !validAuthority(target[scheme:end]) {
		return 0, badTarget
	}
	h.host = span{h.target.from + uint32(scheme), h.target.from + uint32(end)}
	return h.target.from + uint32(end), nil
}

// find returns the value of the first header line called lower.
func (h *head) find(b []byte, lower string) ([]byte, bool) {
	for i := range h.fields {
		one := &h.fields[i]
		if int(one.name.to-one.name.from) == len(lower) && tokenIs(one.name.of(b), lower) {
			return one.value.of(b), true
		}
	}
	return nil, false
}
