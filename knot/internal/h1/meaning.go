package h1

import (
	"bytes"
	"net/textproto"
	"strings"
)

// maxLengthDigits keeps a Content-Length inside int64.
const maxLengthDigits = 18

// note takes up what a header line means for the framing and the life of the
// connection.
func (h *Head) note(b []byte, one field) *Fault {
	name := one.Name.Of(b)
	switch len(name) {
	case len("host"):
		if TokenIs(name, "host") {
			return h.noteHost(b, one.Value)
		}
	case len("expect"):
		if TokenIs(name, "expect") {
			h.noteExpect(one.Value.Of(b))
		}
	case len("connection"):
		if TokenIs(name, "connection") {
			h.noteConnection(one.Value.Of(b))
		}
	case len("content-length"):
		if TokenIs(name, "content-length") {
			return h.noteLength(one.Value.Of(b))
		}
	case len("transfer-encoding"):
		if TokenIs(name, "transfer-encoding") {
			return h.noteCoding(one.Value.Of(b))
		}
		h.HasConditionOrRange = h.HasConditionOrRange || TokenIs(name, "if-modified-since")
	case len("if-unmodified-since"):
		h.HasConditionOrRange = h.HasConditionOrRange || TokenIs(name, "if-unmodified-since")
	case len("if-match"):
		h.HasConditionOrRange = h.HasConditionOrRange || TokenIs(name, "if-match")
	case len("if-none-match"):
		h.HasConditionOrRange = h.HasConditionOrRange || TokenIs(name, "if-none-match")
	case len("range"):
		h.HasConditionOrRange = h.HasConditionOrRange || TokenIs(name, "range")
	}
	return nil
}

func (h *Head) refuse(f *Fault) {
	if h.Refused == nil {
		h.Refused = f
	}
}

func (h *Head) noteHost(b []byte, value Span) *Fault {
	if h.hosts++; h.hosts > 1 {
		return twoHosts
	}
	if text := value.Of(b); len(text) > 0 && !bytes.Equal(text, h.lastHost) {
		if !validAuthority(text) {
			return badHost
		}
		if len(text) < 256 {
			h.lastHost = append(h.lastHost[:0], text...)
		}
	}
	// The authority of an absolute target overrides the field (RFC 9112, 3.2.2).
	if h.Host == (Span{}) {
		h.Host = value
	}
	return nil
}

func (h *Head) noteExpect(list []byte) {
	for len(list) > 0 {
		var what []byte
		what, list = NextElement(list)
		switch {
		case TextIs(what, "100-continue"):
			h.Expect = true
		case len(what) > 0:
			h.refuse(BadExpectation)
		}
	}
}

func (h *Head) noteConnection(list []byte) {
	for len(list) > 0 {
		var option []byte
		option, list = NextElement(list)
		switch {
		case TextIs(option, "close"):
			h.close = true
		case TextIs(option, "keep-alive"):
			h.keepAlive = true
		}
	}
}

func (h *Head) noteLength(digits []byte) *Fault {
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
		return BodyTooLarge
	}
	for _, ch := range digits {
		h.Length = h.Length*10 + int64(ch-'0')
	}
	return nil
}

func (h *Head) noteCoding(value []byte) *Fault {
	if h.HasCoding {
		return twoCodings
	}
	h.HasCoding = true
	if TextIs(value, "chunked") {
		h.Chunked = true
		return nil
	}
	// Without chunked as the last one the end of the body can't be told (RFC 9112, 6.3).
	chunked := false
	for list := value; list != nil; {
		var coding []byte
		coding, list = NextElement(list)
		if len(coding) == 0 || chunked {
			return badCoding
		}
		chunked = TextIs(coding, "chunked")
	}
	if !chunked {
		return badCoding
	}
	return unknownCoding
}

// check is what can be said only when all header lines are known.
func (h *Head) check() *Fault {
	switch {
	case h.HasCoding && h.hasLength:
		return codingAndLength
	case h.HasCoding && h.Minor == 0:
		return codingBefore11
	case h.hosts == 0 && h.Minor > 0 && h.Method != MethodConnect: // net/http takes it, too
		return noHost
	}
	if h.Minor == 0 {
		h.Expect = false
		if h.Refused == BadExpectation {
			h.Refused = nil
		}
	}
	return nil
}

// Persistent reports whether the client wants the connection to stay.
func (h *Head) Persistent() bool {
	if h.Minor == 0 {
		return h.keepAlive && !h.close
	}
	return !h.close
}

// splitTarget finds path, query and authority of the target (RFC 9112, 3.2). Most of what a URI may
// not hold (RFC 3986, appendix A) is let through, as browsers leave it as it is (brackets, braces, bar,
// circumflex, backquote, in a query the backslash), or curl does (quotation marks, angle brackets).
func (h *Head) splitTarget(b []byte) *Fault {
	from, to := h.Target.From, h.Target.To
	switch {
	case b[from] == '/':
	case h.Method == MethodConnect:
		if !validAuthority(h.Target.Of(b)) {
			return badTarget
		}
		h.Host = h.Target
		return nil
	case b[from] == '*' && to-from == 1 && h.Method == MethodOptions:
		h.Path = h.Target
		return nil
	default:
		var f *Fault
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
	h.Path = Span{from, from + uint32(path)}
	if path == len(rest) {
		return nil
	}
	h.Query = Span{from + uint32(path) + 1, to}
	if bytes.IndexByte(rest[path+1:], '#') >= 0 {
		return badTarget
	}
	return nil
}

// splitAuthority reads "http://authority" and returns the offset of the path.
func (h *Head) splitAuthority(b []byte) (uint32, *Fault) {
	target := h.Target.Of(b)
	scheme := len("http://")
	if len(target) < scheme || !TextIs(target[:scheme], "http://") {
		scheme++
		if len(target) < scheme || !TextIs(target[:scheme], "https://") {
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
	h.Host = Span{h.Target.From + uint32(scheme), h.Target.From + uint32(end)}
	return h.Target.From + uint32(end), nil
}

// Find returns the value of the first header line called lower.
func (h *Head) Find(b []byte, lower string) ([]byte, bool) {
	for i := range h.Fields {
		one := &h.Fields[i]
		if int(one.Name.To-one.Name.From) == len(lower) && TokenIs(one.Name.Of(b), lower) {
			return one.Value.Of(b), true
		}
	}
	return nil, false
}

// AnnouncedTrailers are the names that the values of Trailer header lines list, as keys without values; nil: none. ok is false
// if one may not stand in a trailer.
func AnnouncedTrailers(lists []string) (names map[string][]string, ok bool) {
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			switch name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); name {
			case "":
				continue
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return nil, false
			}
			if names == nil {
				names = make(map[string][]string)
			}
			names[name] = nil
		}
	}
	return names, true
}
