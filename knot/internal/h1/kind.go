package h1

import "strconv"

// MethodText is the method as it came.
func (h *Head) MethodText(b []byte) []byte {
	if h.Method != MethodUnknown || h.Target.From == 0 {
		return Bytes(MethodNames[h.Method])
	}
	return b[h.Start : h.Target.From-1]
}

// ProtoText is the name of the version, as in "HTTP/1.1"; framed is 2 or 3 for HTTP/2 and HTTP/3, else 0.
func (h *Head) ProtoText(framed int) string {
	switch {
	case framed > 0:
		return FramedProto(framed)
	case h.Minor == 1:
		return "HTTP/1.1"
	case h.Minor == 0:
		return "HTTP/1.0"
	}
	return "HTTP/1." + strconv.Itoa(int(h.Minor))
}

// FramedProto is the version of a request of HTTP/2 or HTTP/3.
func FramedProto(framed int) string {
	if framed == 3 {
		return "HTTP/3.0"
	}
	return "HTTP/2.0"
}

// Kind is two numbers for the requests that are likely to be handled alike: those of a route, which is the
// method and the path, without its parts that have digits in them, as they tend to name one thing of many; and
// those of one path and query.
func Kind(m method, path, query []byte) (route, detail uint32) {
	add := func(h uint32, b byte) uint32 { return (h ^ uint32(b)) * 16777619 }
	h := add(2166136261, byte(m))
	start, digits := h, false
	for _, b := range path[:min(len(path), kindMax)] {
		detail = add(detail, b)
		switch {
		case b == '/':
			start, digits = h, false
			h = add(h, b)
		case digits:
		case '0' <= b && b <= '9':
			h, digits = add(start, '#'), true
		default:
			h = add(h, b)
		}
	}
	for _, b := range query[:min(len(query), kindMax)] {
		detail = add(detail, b)
	}
	return h | 1, add(detail, byte(m)) | 1 // not 0
}

// kindMax is how many bytes of a path, or a query, count.
const kindMax = 128
