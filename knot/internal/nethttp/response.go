package nethttp

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A Head is what the header that a handler has set means for its response.
type Head struct {
	Fields  []byte // header lines
	Type    string // Content-Type; "": not set
	Length  int64  // Content-Length; below 0: not set
	Typed   bool   // the Content-Type does not depend on the body
	Unsized bool   // Content-Length is not to be sent
	Dated   bool   // Date is among Fields
	Named   bool   // Server is
	Lasts   bool   // the handler wants the connection to go on
	Close   bool   // ... to end

	Announced []string // names of the trailers
	Invalid   string   // a Content-Length that is none
}

// ReadHead makes a Head of a header. Its lines are appended to fields.
func ReadHead(header http.Header, status int, fields []byte) Head {
	coding := header["Content-Encoding"] // Get would first see to the name
	h := Head{Fields: fields, Length: -1, Typed: h1.Bodyless(status) || len(coding) > 0 && coding[0] != ""}
	var few [fewNames]string
	for _, name := range names(header, few[:0]) {
		h.take(header, name)
	}
	if status == http.StatusNotModified {
		h.Type = ""
	}
	return h
}

func (h *Head) take(header http.Header, name string) {
	values := header[name]
	switch key := headerKey(name); {
	case key == "Content-Type":
		h.Typed = true
		if len(values) > 0 && values[0] != "" {
			h.Type = values[0]
		} else {
			h.add(name, values)
		}
	case key == "Content-Length" && len(values) == 0:
		h.Unsized = true
	case key == "Content-Length":
		text := strings.Join(values, ",")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			h.Length = n
		} else {
			h.Invalid = text
		}
	case key == "Connection":
		h.connection(values, header.Get("Upgrade") != "")
	case key == "Transfer-Encoding", !h1.IsToken(name): // a name that is no token with http.TrailerPrefix, too
	case key == "Trailer":
		h.announce(values)
		h.add("Trailer", values)
	default:
		h.Dated = h.Dated || key == "Date"
		h.Named = h.Named || key == "Server"
		if key == "Upgrade" {
			h.Fields = append(h.Fields, "Connection: Upgrade\r\n"...) // RFC 9110, 7.8
		}
		h.add(name, values)
	}
}

func (h *Head) add(name string, values []string) { h.Fields = appendFields(h.Fields, name, values) }

func appendFields(lines []byte, name string, values []string) []byte {
	for _, v := range values {
		lines = h1.AppendField(lines, name, v)
	}
	return lines
}

// connection passes on the options of Connection that are not the server's own.
func (h *Head) connection(values []string, upgrades bool) {
	for _, v := range values {
		for option := range strings.SplitSeq(v, ",") {
			switch option = strings.TrimSpace(option); {
			case strings.EqualFold(option, "close"):
				h.Close = true
			case !h1.IsToken(option):
			case strings.EqualFold(option, "keep-alive"):
				h.Lasts = true
			case strings.EqualFold(option, "upgrade") && upgrades: // comes with Upgrade
			default:
				h.Fields = h1.AppendField(h.Fields, "Connection", option)
			}
		}
	}
}

// announce takes up the Trailer header.
func (h *Head) announce(values []string) {
	for _, list := range values {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.TrimSpace(name)
			if MayTrail(name) && !strings.HasPrefix(headerKey(name), "If-") && !slices.Contains(h.Announced, headerKey(name)) {
				h.Announced = append(h.Announced, headerKey(name))
			}
		}
	}
}

// fewNames is what most headers have at most.
const fewNames = 8

// names appends those of the header, in order.
func names(header http.Header, names []string) []string {
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// AppendEarly appends an informational response with this header.
func AppendEarly(out []byte, status int, header http.Header) []byte {
	out = append(out, h1.StatusLine(status)...)
	var few [fewNames]string
	for _, name := range names(header, few[:0]) {
		if key := headerKey(name); key != "Content-Length" && key != "Transfer-Encoding" && h1.IsToken(name) {
			out = appendFields(out, name, header[name])
		}
	}
	return append(out, "\r\n"...)
}

// Trailer returns the lines of the trailer that a handler has set in its header: names that were announced, and names with
// http.TrailerPrefix.
func Trailer(header http.Header, announced []string) (lines []byte) {
	for _, name := range announced {
		lines = appendFields(lines, name, header[name])
	}
	var prefixed []string
	for name := range header {
		if bare, ok := strings.CutPrefix(name, http.TrailerPrefix); ok && MayTrail(bare) {
			prefixed = append(prefixed, bare)
		}
	}
	slices.Sort(prefixed)
	for _, bare := range prefixed {
		lines = appendFields(lines, bare, header[http.TrailerPrefix+bare])
	}
	return lines
}

// MayTrail reports whether a line of that name may stand in a trailer (RFC 9110, 6.5.1), as net/http has it.
func MayTrail(name string) bool {
	return h1.IsToken(name) && !notTrailers[http.CanonicalHeaderKey(name)]
}

var notTrailers = map[string]bool{
	"Authorization": true, "Cache-Control": true, "Connection": true, "Content-Encoding": true,
	"Content-Length": true, "Content-Range": true, "Content-Type": true, "Expect": true, "Host": true,
	"Keep-Alive": true, "Max-Forwards": true, "Pragma": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Proxy-Connection": true, "Range": true, "Realm": true, "Te": true,
	"Trailer": true, "Transfer-Encoding": true, "Www-Authenticate": true,
}
