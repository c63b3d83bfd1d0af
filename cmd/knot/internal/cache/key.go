package cache

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/knot"
)

// A response is kept by the URL that the backend was asked for, as text: what a backend may tell apart is told apart. Nothing
// that a client says reaches the backend, and shapes responses, but is not in that text or among the lines that Vary names:
// such lines are dropped, or the request goes past the cache.

// passes reports whether a request goes past the cache: it has a body, wants what only the backend can decide, is
// written in a way in which two servers may read two requests, or the backend is told by this server who the client is.
func passes(x *knot.Ctx) bool {
	if x.ContentLength() != 0 || len(x.HostBytes()) == 0 {
		return true
	}
	if slices.ContainsFunc(innerOf(x).Passed(), func(l knot.Header) bool { return l.Value != "" }) {
		return true
	}
	past := false
	x.EachHeader(func(name, value []byte) bool {
		switch len(name) {
		case 7:
			past = is(name, "upgrade")
		case 8:
			past = is(name, "if-match")
		case 10:
			past = is(name, "connection") && !onlyPersistence(value)
		case 19:
			past = is(name, "if-unmodified-since")
		}
		return !past
	})
	return past
}

// onlyPersistence reports whether a line Connection names no header lines: those would not reach the backend.
func onlyPersistence(value []byte) bool {
	for one := range bytes.SplitSeq(value, []byte(",")) {
		if one = bytes.TrimSpace(one); len(one) > 0 && !is(one, "close") && !is(one, "keep-alive") {
			return false
		}
	}
	return true
}

func is(name []byte, lower string) bool {
	return len(name) == len(lower) && strings.EqualFold(string(name), lower)
}

// A target is the parts of the URL that a request is for.
type target struct {
	key  []byte // scheme://host/path?query as the client has asked, and behind blanks the two below
	host int    // where the host begins
	path int    // where the path begins
	end  int    // where the query ends

	forwarded string // X-Forwarded-Host, if that is another host; else ""
	rewritten string // path and query, if rules have made others of those of the client; else ""
}

func (t *target) hostText() []byte { return t.key[t.host:t.path] }
func (t *target) pathText() []byte { return t.key[t.path:t.end] }

// appendTarget makes the target of a request in b. ok is false if its path is not to be kept by.
func (c *Cache) appendTarget(b []byte, x *knot.Ctx, trust knot.Trust) (t target, ok bool) {
	scheme, forwarded := "http", ""
	if x.TLS() != nil {
		scheme = "https"
	}
	proto, host := x.HeaderBytes("x-forwarded-proto"), x.HeaderBytes("x-forwarded-host")
	if (proto != nil || host != nil) && x.TrustPeers(trust) {
		switch {
		case is(proto, "https"):
			scheme = "https"
		case is(proto, "http"):
			scheme = "http"
		}
		forwarded = strings.ToLower(string(host))
	}
	b = append(append(b, scheme...), "://"...)
	t.host = len(b)
	for _, ch := range x.HostBytes() {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		b = append(b, ch)
	}
	b = bytes.TrimSuffix(b, []byte(standardPort(scheme)))
	t.path = len(b)
	came, query, _ := strings.Cut(pathOf(x.Target()), "?")
	if b, ok = c.appendURL(b, came, query); !ok {
		return t, false
	}
	t.end = len(b)
	if forwarded != string(b[t.host:t.path]) {
		t.forwarded = forwarded
	}
	if raw, now := string(x.RawPath()), x.Query(); raw != came || now != query {
		text, ok := c.appendURL(nil, raw, now)
		if !ok {
			return t, false
		}
		t.rewritten = string(text)
	}
	if t.forwarded+t.rewritten != "" {
		b = append(append(append(append(b, ' '), t.forwarded...), ' '), t.rewritten...)
	}
	t.key = b
	return t, true
}

// pathOf is a target without its scheme and host.
func pathOf(target string) string {
	if _, rest, absolute := strings.Cut(target, "://"); absolute && target[0] != '/' {
		if i := strings.IndexAny(rest, "/?"); i >= 0 && rest[i] == '/' {
			return rest[i:]
		}
		return "" // not to be kept by
	}
	return target
}

// appendURL appends a path and a query as they are sent to backends.
func (c *Cache) appendURL(b []byte, path, query string) (out []byte, ok bool) {
	if b, ok = appendPath(b, []byte(path)); ok && query != "" {
		b = c.appendQuery(b, query)
	}
	return b, ok
}

func standardPort(scheme string) string {
	if scheme == "https" {
		return ":443"
	}
	return ":80"
}

// keyOf is the key of what is kept for a URL.
func (c *Cache) keyOf(url string) (string, error) {
	scheme, rest, found := strings.Cut(url, "://")
	scheme = strings.ToLower(scheme)
	if !found || scheme != "http" && scheme != "https" || strings.ContainsAny(url, " #") {
		return "", fmt.Errorf("%q is no URL that responses are kept for; want one like https://example.org/path, with escapes", url)
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, rest := strings.ToLower(rest[:end]), rest[end:]
	at, query, _ := strings.Cut(rest, "?")
	if at == "" {
		at = "/"
	}
	key, ok := c.appendURL([]byte(scheme+"://"+strings.TrimSuffix(host, standardPort(scheme))), at, query)
	if !ok || host == "" {
		return "", fmt.Errorf("%q: responses are not kept for such a host or path", url)
	}
	return string(key), nil
}

const upperHex = "0123456789ABCDEF"

// appendPath appends an escaped path, with one form of each escape (RFC 3986, 6.2.2). Paths with segments of dots, which
// the proxy sends otherwise than they came, are refused.
func appendPath(b, raw []byte) (out []byte, ok bool) {
	if len(raw) == 0 || raw[0] != '/' {
		return b, false
	}
	from := len(b)
	for i := 0; i < len(raw); i++ {
		ch := raw[i]
		if ch != '%' {
			b = append(b, ch)
			continue
		}
		if i+2 >= len(raw) {
			return b, false
		}
		high, low := unhex(raw[i+1]), unhex(raw[i+2])
		if high > 15 || low > 15 {
			return b, false
		}
		i += 2
		if ch = high<<4 | low; isUnreserved(ch) {
			b = append(b, ch)
		} else {
			b = append(b, '%', upperHex[high], upperHex[low])
		}
	}
	for segment := range bytes.SplitSeq(b[from:], []byte("/")) {
		if segment, _, _ = bytes.Cut(segment, []byte(";")); string(segment) == "." || string(segment) == ".." {
			return b, false
		}
	}
	return b, true
}

func isUnreserved(ch byte) bool {
	return 'a' <= ch && ch <= 'z' || 'A' <= ch && ch <= 'Z' || '0' <= ch && ch <= '9' || ch == '-' || ch == '.' || ch == '_' || ch == '~'
}

// unhex is the value of a hexadecimal digit, above 15 for another byte.
func unhex(ch byte) byte {
	switch {
	case '0' <= ch && ch <= '9':
		return ch - '0'
	case 'a' <= ch|0x20 && ch|0x20 <= 'f':
		return ch | 0x20 - 'a' + 10
	}
	return 255
}

// appendQuery appends the query without the parameters that are ignored.
func (c *Cache) appendQuery(b []byte, query string) []byte {
	mark, from := byte('?'), len(b)
	for one := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(one, "=")
		ignored := false
		for _, pattern := range c.ignore {
			if ignored, _ = path.Match(pattern, name); ignored {
				break
			}
		}
		if !ignored {
			b = append(append(b, mark), one...)
			mark = '&'
		}
	}
	if len(b) == from+1 { // of "utm_x&" an empty parameter is left, which is no query
		b = b[:from]
	}
	return b
}

// goesOn reports whether a line of a client's request is in the request to the backend. Left out are lines
// by which a client would choose the URL, method or host that the backend takes the request for, and lines that the cache writes.
func goesOn(name []byte) bool {
	lower := strings.ToLower(string(name))
	switch lower {
	case "host", "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length", "expect",
		"http2-settings", "range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since",
		"forwarded", "x-host", "x-scheme", "x-url-scheme", "front-end-https", "x-http-method", "x-http-method-override", "x-method-override", "x-http-host-override":
		return false
	case "x-forwarded-for":
		return true
	}
	families := []string{"x-forwarded", "x-original-", "x-rewrite-"}
	return !slices.ContainsFunc(families, func(family string) bool { return strings.HasPrefix(lower, family) })
}

// request is the request to the backend: its text, and what package rfc goes by. also are lines of the cache.
func (t *target) request(x *knot.Ctx, trust knot.Trust, also []rfc.Field) (head []byte, req rfc.Request) {
	req.Method = "GET"
	x.EachHeader(func(name, value []byte) bool {
		if goesOn(name) {
			req.Header = append(req.Header, rfc.Field{Name: string(name), Value: string(value)})
		}
		return true
	})
	head = append(append(append(head, "GET "...), t.pathText()...), " HTTP/1.1\r\nHost: "...)
	head = append(append(head, t.hostText()...), "\r\n"...)
	line := func(name, value string) {
		head = append(append(append(append(head, name...), ": "...), value...), "\r\n"...)
	}
	for _, f := range req.Header {
		line(f.Name, f.Value)
	}
	for _, f := range also {
		line(f.Name, f.Value)
	}
	if t.forwarded != "" {
		line("X-Forwarded-Host", t.forwarded)
	}
	if x.HeaderBytes("x-forwarded-proto") != nil { // it counts only if the peer is trusted
		scheme, _, _ := strings.Cut(string(t.key), ":")
		line("X-Forwarded-Proto", scheme)
	}
	if x.HeaderBytes("forwarded") != nil && x.TrustPeers(trust) { // of it only the address: host and proto are not in the key
		switch addr := x.ClientAddr(); {
		case addr.Is4():
			line("Forwarded", "for="+addr.String())
		case addr.IsValid():
			line("Forwarded", `for="[`+addr.String()+`]"`)
		}
	}
	return append(head, "\r\n"...), req
}
