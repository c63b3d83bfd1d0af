package proxy

import (
	"bytes"
	"net/netip"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
)

// is reports whether name is lower, in any case; lower is in lower case.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		if ch != lower[i] {
			return false
		}
	}
	return true
}

// hopByHop reports whether a line is about one connection (RFC 9110, 7.6.1). What Connection names is so too.
func hopByHop(name []byte) bool {
	switch len(name) {
	case 2:
		return is(name, "te")
	case 7:
		return is(name, "upgrade")
	case 10:
		return is(name, "connection") || is(name, "keep-alive")
	case 14:
		return is(name, "http2-settings")
	case 16:
		return is(name, "proxy-connection")
	case 17:
		return is(name, "transfer-encoding")
	case 19:
		return is(name, "proxy-authorization")
	}
	return false
}

// aboutClient reports whether a line tells of the client whom somebody forwards for.
func aboutClient(name []byte) bool {
	switch len(name) {
	case 9:
		return is(name, "forwarded") || is(name, "x-real-ip")
	case 15:
		return is(name, "x-forwarded-for")
	case 16:
		return is(name, "x-forwarded-host") || is(name, "x-forwarded-port")
	case 17:
		return is(name, "x-forwarded-proto")
	}
	return false
}

// connectionNames are the names that lines Connection list, in all, as views.
func connectionNames(each func(func(name, value []byte) bool)) (names [][]byte) {
	each(func(name, value []byte) bool {
		if is(name, "connection") {
			for part := range bytes.SplitSeq(value, []byte(",")) {
				if part = bytes.Trim(part, " \t"); len(part) > 0 && !is(part, "close") && !is(part, "keep-alive") {
					names = append(names, part)
				}
			}
		}
		return true
	})
	return names
}

// connectionNames are those of the response's head.
func (e *exchange) connectionNames() [][]byte {
	if e.res.Find(e.head, "connection") == nil {
		return nil
	}
	return connectionNames(func(fn func(name, value []byte) bool) { e.res.Each(e.head, fn) })
}

func contains(names [][]byte, name []byte) bool {
	for _, one := range names {
		if len(one) == len(name) && bytes.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// mayUpgrade reports whether a protocol may be asked for: not HTTP, whose requests would then pass unseen.
func mayUpgrade(protocols []byte) bool {
	for part := range bytes.SplitSeq(protocols, []byte(",")) {
		name, _, _ := bytes.Cut(bytes.Trim(part, " \t"), []byte("/"))
		if is(name, "h2c") || is(name, "h2") || is(name, "http") || is(name, "tls") || len(name) == 0 {
			return false
		}
	}
	return true
}

// trusts reports whether the client is a proxy whose word counts.
func (p *Proxy) trusts(x *knot.Ctx) bool {
	if len(p.Trust) == 0 {
		return false
	}
	addr, err := netip.ParseAddr(x.RemoteHost())
	if err != nil {
		return false
	}
	addr = addr.WithZone("").Unmap()
	for _, net := range p.Trust {
		if net.Contains(addr) {
			return true
		}
	}
	return false
}

// appendForwarded appends the lines that tell of the client. What a proxy before this server says is continued.
func (p *Proxy) appendForwarded(out []byte, x *knot.Ctx, trusted bool) []byte {
	proto := "http"
	if x.TLS() != nil {
		proto = "https"
	}
	client := x.RemoteHost()
	joined := func(name string) []byte {
		if !trusted {
			return nil
		}
		return joinLines(x, name)
	}
	if p.Forwarded == ForwardedX || p.Forwarded == ForwardedBoth {
		out = append(out, "X-Forwarded-For: "...)
		if before := joined("x-forwarded-for"); len(before) > 0 {
			out = append(append(out, before...), ", "...)
		}
		out = append(out, client...)
		out = append(out, "\r\nX-Forwarded-Proto: "...)
		if before := joined("x-forwarded-proto"); len(before) > 0 {
			out = append(out, before...)
		} else {
			out = append(out, proto...)
		}
		out = append(out, "\r\nX-Forwarded-Host: "...)
		if before := joined("x-forwarded-host"); len(before) > 0 {
			out = append(out, before...)
		} else {
			out = append(out, x.HostBytes()...)
		}
		out = append(out, "\r\n"...)
	}
	if p.Forwarded == ForwardedRFC || p.Forwarded == ForwardedBoth {
		out = append(out, "Forwarded: "...)
		if before := joined("forwarded"); len(before) > 0 {
			out = append(append(out, before...), ", "...)
		}
		out = append(append(out, "for="...), node(client)...)
		if host := x.HostBytes(); len(host) > 0 {
			out = append(append(append(out, `;host="`...), host...), '"')
		}
		out = append(append(append(out, ";proto="...), proto...), "\r\n"...)
	}
	return out
}

// node is an address as RFC 7239, 6, has it.
func node(client string) string {
	switch {
	case client == "-":
		return "unknown"
	case strings.Contains(client, ":"):
		return `"[` + client + `]"`
	}
	return client
}

// joinLines is the list that all lines with a name make.
func joinLines(x *knot.Ctx, lower string) (list []byte) {
	x.EachHeader(func(name, value []byte) bool {
		if is(name, lower) && len(value) > 0 {
			if len(list) > 0 {
				list = append(list, ", "...)
			}
			list = append(list, value...)
		}
		return true
	})
	return list
}

// target is what stands in the request line. The path goes as it came, so that escapes mean there what they meant
// to the client; but if the backend could understand another path than the one that this server has
// chosen it by (dots, empty segments), it gets that one.
func (p *Proxy) target(x *knot.Ctx) []byte {
	raw, clean := x.RawPath(), x.PathBytes()
	if len(clean) == 1 && clean[0] == '*' {
		return clean
	}
	if len(raw) == 0 || !unescapesTo(raw, clean) {
		raw = escape(clean)
	}
	if s := p.Strip; s != "" {
		switch {
		case len(raw) > len(s) && raw[len(s)] == '/' && string(raw[:len(s)]) == s:
			raw = raw[len(s):]
		case string(clean) == s:
			raw = []byte("/")
		case len(clean) > len(s) && clean[len(s)] == '/' && string(clean[:len(s)]) == s:
			raw = escape(clean[len(s):]) // escaped where strip is not
		}
	}
	query := x.Query()
	if query == "" {
		return raw
	}
	return append(append(append(make([]byte, 0, len(raw)+1+len(query)), raw...), '?'), query...)
}

// unescapesTo reports whether raw is clean but for its escapes.
func unescapesTo(raw, clean []byte) bool {
	at := 0
	for i := 0; i < len(raw); i++ {
		ch := raw[i]
		if ch == '%' && i+2 < len(raw) {
			ch = unhex(raw[i+1])<<4 | unhex(raw[i+2])
			i += 2
		}
		if at == len(clean) || clean[at] != ch {
			return false
		}
		at++
	}
	return at == len(clean)
}

func unhex(ch byte) byte {
	switch {
	case ch >= 'a':
		return ch - 'a' + 10
	case ch >= 'A':
		return ch - 'A' + 10
	}
	return ch - '0'
}

// escape escapes what may not stand in a path (RFC 3986, 3.3).
func escape(path []byte) []byte {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(path)+8)
	for _, ch := range path {
		if 'a' <= ch && ch <= 'z' || 'A' <= ch && ch <= 'Z' || '0' <= ch && ch <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@/", ch) >= 0 {
			out = append(out, ch)
		} else {
			out = append(out, '%', hex[ch>>4], hex[ch&15])
		}
	}
	return out
}
