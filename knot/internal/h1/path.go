package h1

import "bytes"

// CleanPath decodes the percent escapes of an absolute path, resolves "." and
// ".." and joins runs of slashes. An escaped slash counts as a slash. A path
// that needs none of this is returned as it is; otherwise the result is built
// in scratch, which is returned too, grown. A path that climbs above the root
// is a fault, not the root: no honest client sends one.
func CleanPath(escaped, scratch []byte) (clean, grown []byte, f *Fault) {
	if len(escaped) == 0 {
		return append(scratch[:0], '/'), scratch, nil
	}
	if pathIsClean(escaped) {
		return escaped, scratch, nil
	}
	scratch, f = unescape(scratch[:0], escaped)
	if f != nil {
		return nil, scratch, f
	}
	clean, f = resolveDots(scratch)
	return clean, scratch, f
}

func pathIsClean(path []byte) bool {
	for i, ch := range path {
		switch ch {
		case '%':
			return false
		case '/':
			if i+1 < len(path) && (path[i+1] == '/' || path[i+1] == '.') {
				return false
			}
		}
	}
	return true
}

func unescape(dst, escaped []byte) ([]byte, *Fault) {
	for i := 0; i < len(escaped); i++ {
		ch := escaped[i]
		if ch == '%' {
			if i+2 >= len(escaped) {
				return dst, badEscape
			}
			high, low := HexValue(escaped[i+1]), HexValue(escaped[i+2])
			if high < 0 || low < 0 {
				return dst, badEscape
			}
			ch = byte(high<<4 | low)
			if ch == 0 {
				return dst, badPathNUL
			}
			i += 2
		}
		dst = append(dst, ch)
	}
	return dst, nil
}

// resolveDots works in place: what is written never overtakes what is read,
// since a slash stands before each segment.
func resolveDots(p []byte) ([]byte, *Fault) {
	to := 0
	for i := 0; i < len(p); {
		for i < len(p) && p[i] == '/' {
			i++
		}
		end := i
		for end < len(p) && p[end] != '/' {
			end++
		}
		segment, last := p[i:end], end == len(p)
		dots := false
		switch string(segment) {
		case "", ".":
			dots = true
		case "..":
			if to == 0 {
				return nil, badPathAbove
			}
			to, dots = bytes.LastIndexByte(p[:to], '/'), true
		default:
			p[to] = '/'
			to += 1 + copy(p[to+1:], segment)
		}
		if dots && last {
			p[to] = '/'
			to++
		}
		i = end
	}
	return p[:to], nil
}

const upperHex = "0123456789ABCDEF"

// pathByte marks what stands unescaped in a path (RFC 3986, 3.3).
var pathByte = ByteSet("/-._~!$&'()*+,;=:@" + Digits + Letters)

// AppendEscaped appends a decoded path with its escapes, as a Location has it.
func AppendEscaped(dst, path []byte) []byte {
	for _, ch := range path {
		if pathByte[ch] {
			dst = append(dst, ch)
		} else {
			dst = append(dst, '%', upperHex[ch>>4], upperHex[ch&15])
		}
	}
	return dst
}
