package site

import (
	"bytes"
	"fmt"
	"iter"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
)

// A Fault is what is wrong with a key of a table of the configuration.
type Fault struct {
	Key string
	Err error
}

// NoteIn returns a function that adds a fault to wrong, unless the error is nil.
func NoteIn(wrong *[]Fault) func(key string, err error) {
	return func(key string, err error) {
		if err != nil {
			*wrong = append(*wrong, Fault{key, err})
		}
	}
}

// ReadTables calls read for each of n tables of a site, by its index, and returns what is wrong with each table. More than most
// are a fault of key in the first that is too many; then it reads none. kind is what they are in the plural: "tables of access".
func ReadTables(n, most int, key, kind string, read func(i int) []Fault) (wrong map[int][]Fault) {
	if n > most {
		return map[int][]Fault{most: {{key, fmt.Errorf("a site may have %d %s, and this one has %d; a pattern stands for many", most, kind, n)}}}
	}
	wrong = make(map[int][]Fault)
	for i := range n {
		if faults := read(i); len(faults) > 0 {
			wrong[i] = faults
		}
	}
	return wrong
}

// ClientNetwork is what clients are told apart by: the first bits of the address.
func ClientNetwork(addr netip.Addr, bits4, bits6 int) netip.Addr {
	addr = addr.WithZone("").Unmap()
	bits := bits6
	if addr.Is4() {
		bits = bits4
	}
	network, _ := addr.Prefix(bits)
	return network.Addr()
}

// Matches reports whether the path of a request matches: the clean one, or the one that a backend may see.
func Matches(x *knot.Ctx, p Pattern) bool {
	return p.MatchBytes(x.PathBytes()) || p.MatchBytes(OtherPath(x))
}

// OtherPath is the path that a backend may see, in which escaped slashes and empty segments count; nil: it is the clean one.
func OtherPath(x *knot.Ctx) []byte {
	raw := x.RawPath()
	if !bytes.Contains(raw, []byte("//")) && !bytes.Contains(raw, []byte("%2F")) && !bytes.Contains(raw, []byte("%2f")) {
		return nil
	}
	segments, err := url.PathUnescape(strings.NewReplacer("%2F", "%252F", "%2f", "%252F").Replace(string(raw)))
	if err != nil {
		return nil
	}
	return []byte(segments)
}

// HeaderValues are the values of all lines with this name, in any case, as views.
func HeaderValues(x *knot.Ctx, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		x.EachHeader(func(n, value []byte) bool {
			return len(n) != len(name) || !strings.EqualFold(string(n), name) || yield(value)
		})
	}
}

// CookieValues are the values of all cookies with this name, as views, without quotes around them.
func CookieValues(x *knot.Ctx, name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range HeaderValues(x, "Cookie") {
			for pair := range bytes.SplitSeq(line, []byte(";")) {
				n, value, _ := bytes.Cut(pair, []byte("="))
				if string(bytes.Trim(n, " \t")) != name {
					continue
				}
				value = bytes.Trim(value, " \t")
				if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
					value = value[1 : len(value)-1]
				}
				if !yield(value) {
					return
				}
			}
		}
	}
}

// HasStatus reports whether a status is among those of a list, as "404" or "4xx".
func HasStatus(list []string, status int) bool {
	text := strconv.Itoa(status)
	return slices.Contains(list, text) || slices.Contains(list, text[:1]+"xx")
}

// CheckMethod reports what is wrong with the name of a method in the configuration.
func CheckMethod(m string) error {
	if m == "" || strings.ContainsFunc(m, func(ch rune) bool { return (ch < 'A' || ch > 'Z') && ch != '-' }) {
		return fmt.Errorf("%q is not a method; want one like GET, in capitals", m)
	}
	return nil
}
