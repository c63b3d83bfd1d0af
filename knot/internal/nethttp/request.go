package nethttp

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A Source is a request as Knot has it.
type Source struct {
	Head   *h1.Head
	Text   []byte // what the spans of Head count from; nothing is kept of it
	Framed int    // 2 or 3: it is one of HTTP/2 or HTTP/3; 0: neither
	Trails bool   // a trailer may come behind a body whose length is known
	Target string // that the URL is made of; "": as it came
}

// Fill makes r of a request, with everything but RemoteAddr, TLS and a Body. simple is for the URL of most requests. It reports
// whether the request is well formed.
func (s Source) Fill(r *http.Request, ctx context.Context, simple *url.URL) bool {
	h := s.Head
	*r = *blankRequest.WithContext(ctx) // nothing else can set the context
	text := string(s.Text[:h.Size])     // all strings are parts of this one
	r.Method = h1.MethodNames[h.Method]
	if h.Method == h1.MethodUnknown {
		r.Method = text[h.Start : h.Target.From-1]
	}
	r.RequestURI, r.Host = part(text, h.Target), part(text, h.Host)
	target := r.RequestURI
	if s.Target != "" {
		target = s.Target
	}
	if r.URL = parseTarget(r.Method, target, simple); r.URL == nil {
		return false
	}
	r.ProtoMajor, r.ProtoMinor, r.Proto = 1, int(h.Minor), h.ProtoText(s.Framed)
	r.ContentLength, r.Body = h.Length, http.NoBody
	if h.Chunked {
		r.ContentLength = -1
	}
	r.Header = headerOf(h, text)
	if s.Framed > 0 {
		r.ProtoMajor, r.ProtoMinor = s.Framed, 0
	} else {
		r.Close = !h.Persistent()
		if h.HasCoding {
			r.TransferEncoding = []string{"chunked"}
		}
	}
	if v := r.Header["Pragma"]; len(v) > 0 && v[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"}
	}
	if r.ContentLength < 0 || s.Trails {
		var ok bool
		if r.Trailer, ok = h1.AnnouncedTrailers(r.Header["Trailer"]); !ok {
			return false
		}
		delete(r.Header, "Trailer")
	}
	return true
}

var blankRequest = new(http.Request)

// part is the piece of the head that s says.
func part(head string, s h1.Span) string { return head[s.From:s.To] }

// parseTarget is url.ParseRequestURI, nil instead of an error, and quick for targets of
// which nothing is escaped, nor would be: they become *simple. That of CONNECT may be an authority.
func parseTarget(method, target string, simple *url.URL) *url.URL {
	path, query, asks := strings.Cut(target, "?")
	plain := len(path) > 0 && path[0] == '/' && (!asks || query != "")
	for i := 0; plain && i < len(path); i++ {
		plain = plainInPath[path[i]]
	}
	for i := 0; plain && i < len(query); i++ {
		plain = query[i] > ' ' && query[i] < 0x7f
	}
	if plain {
		*simple = url.URL{Path: path, RawQuery: query}
		return simple
	}
	authority := path != "" && path[0] != '/' && method == http.MethodConnect
	if authority {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	if authority {
		u.Scheme = ""
	}
	return u
}

// plainInPath marks what stands in a path unescaped, however it is written (RFC 3986, 3.3).
var plainInPath = h1.ByteSet("/-._~$&+,:;=@" + h1.Digits + h1.Letters)

// headerOf is the header of the request as net/http has it: without Host and
// Transfer-Encoding.
func headerOf(h *h1.Head, text string) http.Header {
	values := make([]string, len(h.Fields))
	header := make(http.Header, len(h.Fields))
	for i := range h.Fields {
		key := headerKey(part(text, h.Fields[i].Name))
		if key == "Host" || key == "Transfer-Encoding" {
			continue
		}
		value := part(text, h.Fields[i].Value)
		if before, twice := header[key]; twice {
			header[key] = append(before, value)
			continue
		}
		values[i] = value
		header[key] = values[i : i+1 : i+1]
	}
	return header
}

// headerKey is textproto.CanonicalMIMEHeaderKey, which is slow for names that are not in
// canonical form, as those are that browsers send over HTTP/2 and some proxies pass on.
func headerKey(name string) string {
	start := true
	for i := range len(name) {
		ch := name[i]
		if start && 'a' <= ch && ch <= 'z' || !start && 'A' <= ch && ch <= 'Z' {
			return textproto.CanonicalMIMEHeaderKey(name)
		}
		start = ch == '-'
	}
	return name
}
