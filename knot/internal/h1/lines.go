package h1

import (
	"bytes"
	"slices"
)

// HasLine reports whether one of these header lines has that name.
func HasLine(lines, name []byte) bool {
	for line := range bytes.Lines(lines) {
		if own, _, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(own, name) {
			return true
		}
	}
	return false
}

// WithoutLines is lines without the lines whose names are in others, too. Both are header lines with their CR LF.
func WithoutLines(lines, others []byte) []byte {
	kept := lines[:0]
	for line := range bytes.Lines(lines) {
		if name, _, _ := bytes.Cut(line, []byte(":")); !HasLine(others, name) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// WithoutLine is lines without those of that name. It allocates nothing.
func WithoutLine(lines []byte, name string) []byte {
	kept := lines[:0]
	for line := range bytes.Lines(lines) {
		if own, _, _ := bytes.Cut(line, []byte(":")); !named(own, name) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// LineValue is the values of the lines of that name, joined by ", ".
func LineValue(lines []byte, name string) string {
	var all []byte
	for line := range bytes.Lines(lines) {
		if own, value, _ := bytes.Cut(line, []byte(":")); named(own, name) {
			if all != nil {
				all = append(all, ", "...)
			}
			all = append(all, bytes.TrimSpace(value)...)
		}
	}
	return string(all)
}

func named(own []byte, name string) bool { return len(own) == len(name) && SameFold(own, name) }

// SayClose adds Connection: close to the head of the response that begins at out[from:], in place of Connection: keep-alive if
// that is there.
func SayClose(out []byte, from int, keeps bool) []byte {
	const lasts = "Connection: keep-alive\r\n"
	at := from + bytes.IndexByte(out[from:], '\n') + 1
	to := at
	if keeps {
		at = from + bytes.Index(out[from:], []byte(lasts))
		to = at + len(lasts)
	}
	return slices.Replace(out, at, to, []byte("Connection: close\r\n")...)
}

// EndsHead looks for the empty line, or a line that ends wrongly, behind the first scanned bytes of b, so that a head that comes
// in small pieces is not parsed anew with each.
func EndsHead(b []byte, scanned int) bool {
	for i := max(scanned, 1); i < len(b); i++ {
		if b[i] == '\n' && (b[i-1] != '\r' || i > 1 && b[i-2] == '\n') {
			return true
		}
	}
	return false
}
