package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// hopByHop reports whether a line is about one connection (RFC 9110, 7.6.1). Lines that Connection names are so too.
func hopByHop(name []byte) bool {
	switch len(name) {
	case 2:
		return h1.TextIs(name, "te")
	case 7:
		return h1.TextIs(name, "upgrade")
	case 10:
		return h1.TextIs(name, "connection") || h1.TextIs(name, "keep-alive")
	case 14:
		return h1.TextIs(name, "http2-settings")
	case 16:
		return h1.TextIs(name, "proxy-connection")
	case 17:
		return h1.TextIs(name, "transfer-encoding")
	case 19:
		return h1.TextIs(name, "proxy-authorization")
	}
	return false
}

// CheckHeader reports what is wrong with a line that Config.Header is to return: names that are about one connection, that say
// where a body ends, and that the proxy writes itself.
func CheckHeader(name, value string) error {
	text := []byte(strings.ToLower(name))
	switch lower := string(text); {
	case !h1.IsToken(name):
		return fmt.Errorf("header name %q is not a token", name)
	case lower == "host":
		return errors.New("header Host is what Config.Host says: the key host of the proxy")
	case lower == "content-length", lower == "expect", hopByHop(text), lower == "trailer":
		return fmt.Errorf("header %s is about the connection or the framing of a message, and the proxy's own", name)
	case lower == "via", lower == "forwarded", slices.Contains([]string{"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"}, lower):
		return fmt.Errorf("header %s is what the proxy says of the client; see Config.Forwarded: the key forwarded", name)
	case !isPlain(text):
		return fmt.Errorf("header %s may be taken for another one; want a name of letters, digits and dashes, and not Proxy", name)
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
		return fmt.Errorf("the value of header %s has control bytes", name)
	}
	return nil
}

// linesOf are the lines that a request has for backends: lines that handlers before the proxy have passed, and lines of
// Config.Header, which take the place of others.
func (p *Proxy) linesOf(x *knot.Ctx, passed []knot.Header) []knot.Header {
	if p.Header == nil {
		return passed
	}
	own := p.Header(x)
	if len(passed) == 0 {
		return own
	}
	passed = slices.DeleteFunc(slices.Clone(passed), func(l knot.Header) bool { return hasName(own, h1.Bytes(l.Name)) })
	return append(passed, own...)
}

// hasName reports whether one of the lines has this name.
func hasName(lines []knot.Header, name []byte) bool {
	return slices.ContainsFunc(lines, func(l knot.Header) bool { return strings.EqualFold(l.Name, h1.Text(name)) })
}

// clientNames are headers in which proxies name the client and what the client has asked for. Headers that begin with
// X-Forwarded belong to them too.
var clientNames = [...]string{
	"forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip",
	"fly-client-ip", "proxy-client-ip", "wl-proxy-client-ip", "x-envoy-external-address",
	"x-original-for", "x-original-host", "x-original-proto", "x-original-url", "x-rewrite-url", "x-scheme", "x-url-scheme", "front-end-https",
}

// aboutClient reports whether a line tells of the client whom a proxy forwards for.
func aboutClient(name []byte) bool {
	const family = "x-forwarded"
	if len(name) >= len(family) && h1.TextIs(name[:len(family)], family) {
		return true
	}
	return slices.ContainsFunc(clientNames[:], func(one string) bool { return h1.TextIs(name, one) })
}

// passes reports whether a line of a request may go to a backend, on all wires.
func (e *exchange) passes(name []byte) bool {
	return isPlain(name) && !hopByHop(name) && (e.trusted || !aboutClient(name)) && (len(e.lines) == 0 || !hasName(e.lines, name))
}

// mayTrail reports whether a line of a request's trailer may go to a backend that gets these lines.
func mayTrail(name []byte, lines []knot.Header) bool {
	return isPlain(name) && !hopByHop(name) && !aboutClient(name) && !hasName(lines, name)
}

// isPlain reports whether programs take a name for no other one. Names with other bytes than letters,
// digits and dashes are not plain: CGI, WSGI, Rack and PHP would take X_Forwarded_For for X-Forwarded-For (RFC 3875, 4.1.18).
// Nor is Proxy, which libraries in CGI programs take for a setting.
func isPlain(name []byte) bool {
	for _, ch := range name {
		if !plainByte[ch] {
			return false
		}
	}
	return !h1.TextIs(name, "proxy")
}

var plainByte = h1.ByteSet("-" + h1.Digits + h1.Letters)

// connectionNames are the names that lines Connection list, in all, as views.
func connectionNames(each func(func(name, value []byte) bool)) (names [][]byte) {
	each(func(name, value []byte) bool {
		if h1.TextIs(name, "connection") {
			for part := range bytes.SplitSeq(value, []byte(",")) {
				if part = bytes.Trim(part, " \t"); len(part) > 0 && !h1.TextIs(part, "close") && !h1.TextIs(part, "keep-alive") {
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
		if h1.TextIs(name, "h2c") || h1.TextIs(name, "h2") || h1.TextIs(name, "http") || h1.TextIs(name, "tls") || len(name) == 0 {
			return false
		}
	}
	return true
}

// rewritten reports whether name is that of a line which is for appendForwarded to write: the line of the request is not passed on.
func rewritten(name []byte) bool {
	return h1.TextIs(name, "x-forwarded-for") || h1.TextIs(name, "x-forwarded-proto") || h1.TextIs(name, "x-forwarded-host") || h1.TextIs(name, "forwarded") || h1.TextIs(name, "x-real-ip")
}

// scheme is the one by which the client has asked: that of the connection, or what X-Forwarded-Proto of a trusted proxy
// says if it is one of the two.
func (e *exchange) scheme() string {
	if e.trusted {
		switch said := joinLines(e.x, "x-forwarded-proto"); {
		case h1.TextIs(said, "https"):
			return "https"
		case h1.TextIs(said, "http"):
			return "http"
		}
	}
	if e.x.TLS() != nil {
		return "https"
	}
	return "http"
}

// appendForwarded appends the lines that tell of the client. The words of a trusted proxy are continued, but X-Real-IP is the
// address that X-Forwarded-For or Forwarded names, as such a proxy may pass on what a client writes there. A peer without an
// address, on a Unix socket, is in none of these lines.
func (e *exchange) appendForwarded(out []byte) []byte {
	x, p, proto := e.x, e.p, "http"
	if x.TLS() != nil {
		proto = "https"
	}
	client := e.inner.RemoteIP()         // without the zone, which means nothing elsewhere
	before := func(name string) []byte { // what a proxy has said
		if !e.trusted {
			return nil
		}
		return joinLines(x, name)
	}
	if p.Forwarded == ForwardedX || p.Forwarded == ForwardedBoth {
		hops := before("x-forwarded-for")
		switch {
		case len(hops) == 0:
			hops = h1.Bytes(client)
		case client != "":
			hops = append(append(hops, ", "...), client...)
		}
		if len(hops) > 0 {
			out = appendLine(out, "X-Forwarded-For", hops)
		}
		said := func(name, lower string, own []byte) {
			if said := before(lower); len(said) > 0 {
				own = said
			}
			out = appendLine(out, name, own)
		}
		said("X-Forwarded-Proto", "x-forwarded-proto", h1.Bytes(proto))
		said("X-Forwarded-Host", "x-forwarded-host", x.HostBytes())
		if addr := x.ClientAddr(); addr.IsValid() && !hasName(e.lines, h1.Bytes("X-Real-IP")) {
			out = append(addr.AppendTo(append(out, "X-Real-IP: "...)), "\r\n"...)
		}
	}
	if p.Forwarded == ForwardedRFC || p.Forwarded == ForwardedBoth {
		out = append(out, "Forwarded: "...)
		if hops := before("forwarded"); len(hops) > 0 {
			out = append(append(out, hops...), ", "...)
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
	case client == "":
		return "unknown"
	case strings.Contains(client, ":"):
		return `"[` + client + `]"`
	}
	return client
}

// joinLines is the list that all lines with a name make, separated by commas, cookies by semicolons (RFC 6265, 4.2.1).
func joinLines(x *knot.Ctx, lower string) (list []byte) {
	between := ", "
	if lower == "cookie" {
		between = "; "
	}
	x.EachHeader(func(name, value []byte) bool {
		if h1.TextIs(name, lower) && len(value) > 0 {
			if len(list) > 0 {
				list = append(list, between...)
			}
			list = append(list, value...)
		}
		return true
	})
	return list
}
