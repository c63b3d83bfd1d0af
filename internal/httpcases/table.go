package httpcases

import (
	"fmt"
	"slices"
	"strings"
)

// Answers that are allowed, in the words of Case.Want.
const (
	taken    = "200 keep"
	bad      = "400 close|refused"                            // MUST or SHOULD be refused
	either   = "400 close|refused|200 keep"                   // MAY be refused, or read in the one sensible way
	good     = "200 keep|refused"                             // the same, and Knot takes it
	mayRead  = "400 close|refused|200 close"                  // may be read, but the connection has to end
	method   = "200 keep|refused|405 keep|501 keep|400 keep"  // whether there is the method is the server's affair
	noTunnel = "501 close|refused|400 keep|405 keep|501 keep" // CONNECT to a server that is no proxy
	cleaned  = "200 keep|400 keep|refused"                    // a path that may be normalized or refused
	unclean  = "400 keep|refused|200 keep"                    // the same, and Knot refuses it
	endless  = "close|refused"                                // has not come whole
	cutOff   = "400 close|refused|200 close"                  // has not come whole, and need not be read
	tooMuch  = "413 close|refused|413 waits|200 close|200 waits|waits"
)

// A group is several cases that differ in one place: %s in send is each of the values, where there are any.
type group struct {
	lists, section, name, want, send string
	values                           []string
	head, body                       string
	end                              bool
}

// Shorthands for what requests begin with.
const (
	get     = "GET / HTTP/1.1\r\nHost: h\r\n"
	post    = "POST / HTTP/1.1\r\nHost: h\r\n"
	chunked = post + "Transfer-Encoding: chunked\r\n\r\n"
	one     = "Content-Length: 1\r\n"
	inner   = "GET " + smuggled + " HTTP/1.1\r\nHost: h\r\n\r\n"
	whole   = get + "Accept: */*\r\n\r\n"
)

var (
	long   = strings.Repeat("x", 100<<10)
	groups = slices.Concat(requestLines, hosts, fields, lengths, codings, chunks, bodies, connections)
)

// Cases are all but those of a file.
var Cases = expand(groups)

func expand(groups []group) (all []Case) {
	for _, g := range groups {
		c := Case{Name: g.name, Lists: g.lists, Section: g.section, Want: g.want, Send: g.send, Head: g.head, Body: g.body, End: g.end}
		if g.values == nil {
			all = append(all, c)
		}
		for _, v := range g.values {
			c.Name = fmt.Sprintf("%s %.40q", g.name, v)
			c.Send = strings.ReplaceAll(g.send, "%s", v)
			all = append(all, c)
		}
	}
	return all
}

var requestLines = []group{
	{lists: "SPN", section: "9112 3", name: "a request", want: taken, send: get + "\r\n", head: "Date"},
	{lists: "S", section: "9112 2.2", name: "a request in two pieces, cut behind", want: taken, send: "%s", values: cuts(whole)},
	{lists: "P", section: "9112 2.2", name: "an empty line before", want: good, send: "\r\n\r\n" + get + "\r\n"},
	{lists: "PN", section: "9112 2.2", name: "LF for CR LF", want: either, send: "%s", values: []string{
		"GET / HTTP/1.1\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\n", "GET / HTTP/1.1\nHost: h\n\n", "\n" + get + "\r\n"}},
	{lists: "PS", section: "9112 2.2", name: "CR for CR LF", want: bad, send: "%s", values: []string{
		"GET / HTTP/1.1\rHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\rA: b\r\n\r\n"}},
	{lists: "P", section: "9112 2.2", name: "white space behind the request line", want: bad, send: "GET / HTTP/1.1\r\n%sHost: h\r\n\r\n", values: []string{" ", "\t", " \r\n"}},
	{lists: "P", section: "9112 3", name: "white space in the request line", want: either, send: "%s\r\nHost: h\r\n\r\n", values: []string{
		"GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1", "GET /\tHTTP/1.1", "GET / HTTP/1.1 "}},
	{lists: "PSN", section: "9112 3", name: "no request line", want: bad, send: "%s\r\nHost: h\r\n\r\n", values: []string{
		"GET HTTP/1.1", "GET", " GET / HTTP/1.1", "Extra lineGET / HTTP/1.1", "GET /a b HTTP/1.1", "GET / / HTTP/1.1", "G(T / HTTP/1.1", "\x16\x03\x01\x02\x00\x01", "\x00\xff\xfe\x80\x7f", "{} / HTTP/1.1"}},
	{lists: "PS", section: "9112 2.3", name: "HTTP/0.9", want: "400 close|refused|garbled", send: "GET %s\r\n\r\n", values: []string{"/", "/ "}},
	{lists: "P", section: "9112 2.3", name: "version", want: bad, send: "GET / %s\r\nHost: h\r\n\r\n", values: []string{
		"http/1.1", "Http/1.1", "HTTP/1.10", "HTTP/01.1", "HTTP/1.01", "HTTP/1", "HTTP/1.", "HTTP/.1", "HTTP/1,1", "HTTP/ 1.1", "HTTP/1.1x", "HTTPS/1.1", "HTTP/-1.1", "1.1"}},
	{lists: "PS", section: "9110 15.6.6", name: "major version", want: "505 close|refused", send: "GET / HTTP/%s\r\nHost: h\r\n\r\n", values: []string{"0.9", "2.0", "3.0", "9.9"}},
	{lists: "P", section: "9113 3.4", name: "the preface of HTTP/2", want: "505 close|refused|garbled", send: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
	{lists: "P", section: "9112 2.3", name: "a higher minor version", want: "200 keep|505 close", send: "GET / HTTP/1.2\r\nHost: h\r\n\r\n"},
	{lists: "PN", section: "9112 3.2.2", name: "an absolute target", want: taken, send: "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{
		"http://h/", "http://h:80/", "http://h", "http://h?args", "http://h:80?args", "HTTP://h/", "http://other/", "http://[::1]:80/", "http://127.0.0.1:123"}},
	{lists: "PN", section: "9112 3.2", name: "target", want: bad, send: "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{
		"*", "a", "h:80", "#f", "/#f", "/a?b#c", "http://h#f", "http://h:80?a#f", "/%aa#f", "http:///a", "http://u@h/", "http://h:b/", "ftp://h/", "/\x00", "/\x01", "/\x7f",
		"http://[ab..cd::1]/", "http://h\\i/", "http://[::1]x/"}},
	{lists: "PN", section: "3986 3.3", name: "an odd path", want: unclean, send: "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"/%", "/%1", "/%zz", "/../x", "/a/../../x", "/%2e%2e/x", "/%00", "/a%00b"}},
	{lists: "PN", section: "3986 3.3", name: "an odd byte in a path", want: either, send: "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"/a\\b"}},
	{lists: "PN", section: "3986 3.3", name: "an unusual path", want: cleaned, send: "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{
		"/\xc3\xa9", "/%c0%af", "/%0d%0aSet-Cookie:x", "/%02", "/a/.?b", "/a/..?b", "/a/.", "/a/..", "//a//b", "/[a]^`{|}?x=\\", "/\"", "/<a>", "/?q={job=\"x\"}&<a>"}},
	{lists: "P", section: "9112 3.2.4", name: "OPTIONS *", want: "200 keep|405 keep|501 keep", send: "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"},
	{lists: "P", section: "9110 9.1", name: "method", want: method, send: "%s / HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{
		"get", "Get", "BREW", "TRACE", "PATCH", "DELETE", "OPTIONS", "M-SEARCH", "!#$%&'*+-.^_`|~1"}},
	{lists: "P", section: "9110 9.3.8", name: "TRACE with secrets or content", want: method, send: "TRACE / HTTP/1.1\r\nHost: h\r\n%s", values: []string{"Cookie: a=b\r\n\r\n", one + "\r\nx"}},
	{lists: "PN", section: "9110 9.3.6", name: "CONNECT", want: noTunnel, send: "CONNECT %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"h:80"}},
	{lists: "PN", section: "9112 3.2.3", name: "CONNECT", want: noTunnel, send: "CONNECT %s HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"h", "h:", "/", "/a"}},
	{lists: "PN", section: "9112 3.2.3", name: "CONNECT with a scheme", want: "400 close|" + noTunnel, send: "CONNECT http://h:80 HTTP/1.1\r\nHost: h\r\n\r\n"},
	{lists: "P", section: "9110 4.1", name: "a target of 7,900 bytes", want: taken, send: "GET /" + long[:7900] + " HTTP/1.1\r\nHost: h\r\n\r\n"},
	{lists: "P", section: "9112 3", name: "too long", want: "414 close|refused", send: "%s / HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"GET /" + long, long}},
}

// cuts cuts a request in two at several places.
func cuts(text string) (all []string) {
	for _, at := range []int{1, 4, 5, 6, 10, 14, 15, 16, 19, 21, 22, 23, 24, 25, 34, 38, 39} {
		all = append(all, text[:at]+"{pause}"+text[at:])
	}
	return all
}

var hosts = []group{
	{lists: "PSN", section: "9112 3.2", name: "no Host", want: bad, send: "%s HTTP/1.1\r\n\r\n", values: []string{"GET /", "HEAD /", "GET http://h/"}},
	{lists: "PSN", section: "9112 3.2", name: "two Hosts", want: bad, send: get + "%s\r\n\r\n", values: []string{"Host: h", "Host: i", "host: h"}},
	{lists: "N", section: "9112 3.2", name: "two Hosts in HTTP/1.0", want: bad, send: "GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n"},
	{lists: "P", section: "9112 3.2", name: "HTTP/1.0 without Host", want: "200 close|refused", send: "GET / HTTP/1.0\r\n\r\n"},
	{lists: "PN", section: "9110 7.2", name: "Host", want: bad, send: "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", values: []string{
		"h/", "h/a", "a@b", "a b", "h:abc", "h:99999999", "h:65536", "h:1:2", "[::1", "[::1]a", "a[b]", "::1", "a%zz", "a%4", "h\\i", "[abcd::e\\f98:0/:1]", "[::1]..:98", "h\x02", "h\x00", "h?a", "h#a", "http://h"}},
	{lists: "PN", section: "9110 7.2", name: "an odd Host", want: either, send: "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", values: []string{":80", "[127.0.0.1]", "[fe80::1%eth0]"}},
	{lists: "PN", section: "9110 7.2", name: "a tolerable Host", want: good, send: "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", values: []string{
		"", "h,i", "..h", "h..:1", "a_b", "h:", "a%c3%a9"}},
	{lists: "N", section: "9110 7.2", name: "a Host", want: taken, send: "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", values: []string{
		"h", "h:88", "h.", "h.:88", "AbC-d.Ru:88", "123.40.56.78", "123.40.56.78:9", "[abcd::ef98:0:7654:321]", "[::1]:80", "[::ffff:12.30.67.89]", "[::123.45.67.89]:1", "\th\t"}},
	{lists: "N", section: "3986 3.2.2", name: "a Host of the future", want: either, send: "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", values: []string{"[v0aF.!$&'()*+,;=-._~aZ0:]"}},
}

var fields = []group{
	{lists: "P", section: "9112 5.1", name: "white space before a colon", want: bad, send: get + "%s\r\n\r\n", values: []string{"A : b", "A\t: b", "Content-Length : 0", "Transfer-Encoding : chunked"}},
	{lists: "PSN", section: "9110 5.1", name: "name", want: bad, send: get + "%s: b\r\n\r\n", values: []string{"", "A B", "A[]", "A@", "A(", "A\tB", "A\x00", "A\x01", "\xc3\xa9", "A\"", "A/b", "A\x7f"}},
	{lists: "P", section: "9110 5.1", name: "an unusual name", want: taken, send: get + "%s: b\r\n\r\n", values: []string{"a", "A_b", "!#$%&'*+-.^_`|~", "1", "Transfer_Encoding", "Content_Length"}},
	{lists: "P", section: "9112 5", name: "no colon", want: bad, send: get + "%s\r\n\r\n", values: []string{"A", "A b", "\x80"}},
	{lists: "P", section: "9112 5.2", name: "folded", want: either, send: get + "A: b\r\n%sc\r\n\r\n", values: []string{" ", "\t", "  \t"}},
	{lists: "P", section: "9112 5.2", name: "a line of white space", want: either, send: get + "A: b\r\n%s\r\n\r\n", values: []string{" ", "\t"}},
	{lists: "PSN", section: "9110 5.5", name: "control byte in a value", want: either, send: get + "A: b%sc\r\n\r\n", values: []string{"\x00", "\x01", "\x07", "\x0b", "\x0c", "\x1b", "\x7f"}},
	{lists: "P", section: "9112 2.2", name: "CR in a value", want: either, send: get + "A: b\rc\r\n\r\n"},
	{lists: "P", section: "9110 5.5", name: "value", want: taken, send: get + "A:%s\r\n\r\n", values: []string{"", " ", "b", " \tb\t ", " \xc3\xa9\xff", " a=b; c=\"d\"; =; ;;", " ()<>@,;:\\\"/[]?={}"}},
	{lists: "SN", section: "9112 5.1", name: "a tab before a value", want: taken, send: "GET / HTTP/1.1\r\nhoSt:\th\r\nempty:\r\n\r\n"},
	{lists: "PN", section: "9110 5.3", name: "several", want: taken, send: get + "%s\r\n\r\n", values: []string{"Cookie: a=1\r\nCookie: b=2", "Via: a\r\nVia: b", "X-Forwarded-For: a\r\nX-Forwarded-For: b", "Foo: a\r\nFoo: b"}},
	{lists: "PN", section: "9110 5.3", name: "two, where there may be one", want: good, send: get + "%s: a\r\n%s: b\r\n\r\n", values: []string{
		"User-Agent", "Referer", "Content-Type", "If-Modified-Since", "If-Unmodified-Since", "If-Match", "If-None-Match", "Content-Range", "If-Range", "Authorization"}},
	{lists: "P", section: "9110 12.5.1", name: "a field that makes no sense", want: "200 keep|406 keep", send: get + "%s\r\n\r\n", values: []string{"Accept: nonsense", "Accept: text/x-unknown", "Range: bytes=abc", "If-Modified-Since: yesterday"}},
	{lists: "P", section: "9110 5.4", name: "a large field", want: "431 close|refused|200 keep", send: get + "%s\r\n\r\n", values: []string{long + ": b", "A: " + long, "Cookie: a=" + long[:65<<10], strings.Repeat("A: b\r\n", 10_000) + "A: b"}},
	{lists: "P", section: "9110 5.4", name: "a field of 4 KB", want: taken, send: get + "Cookie: " + strings.Repeat("a=b; ", 800) + "\r\n\r\n"},
	{lists: "PN", section: "9110 10.1.1", name: "Expect", want: "417 close|refused|417 keep|200 keep", send: get + "Expect: %s\r\n\r\n", values: []string{"tea", "token=param", "a\r\nExpect: b"}},
	{lists: "PN", section: "9110 10.1.1", name: "Expect", want: "100 200 keep|200 keep", send: post + one + "Expect: %s\r\n\r\n{100}x", values: []string{"100-continue", "100-Continue"}, body: "x"},
	{lists: "S", section: "9110 10.1.1", name: "Expect without content", want: "200 keep|100 200 keep", send: get + "Expect: 100-continue\r\n\r\n"},
	{lists: "PN", section: "9110 10.1.1", name: "Expect in HTTP/1.0", want: "200 close", send: "POST / HTTP/1.0\r\nHost: h\r\n" + one + "Expect: 100-continue\r\n\r\nx", body: "x"},
	{lists: "P", section: "9110 7.8", name: "Upgrade to what nobody knows", want: taken, send: get + "%s\r\n\r\n", values: []string{
		"Upgrade: tea\r\nConnection: upgrade", "Upgrade: websocket", "Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 99"}},
	{lists: "P", section: "9110 7.8", name: "Upgrade in HTTP/1.0", want: "200 close", send: "GET / HTTP/1.0\r\nHost: h\r\nUpgrade: tea\r\nConnection: upgrade\r\n\r\n"},
}

var lengths = []group{
	{lists: "PSN", section: "9110 8.6", name: "length", want: bad, send: post + "Content-Length:%s\r\n\r\nabc", values: []string{
		" abc", " 3a", " +3", " -3", " -0", " 0x3", " 0o3", " 3_0", " 3 3", " 1e1", " 3.0", "", " ", " 3;a", " 3,4", " -123456789123456789123456789", " \"3\"", " \v3"}},
	{lists: "PSN", section: "9112 6.3", name: "unlike lengths", want: bad, send: post + "Content-Length: 3\r\nContent-Length: 0\r\n\r\n%s", values: []string{"abc", inner}},
	{lists: "PN", section: "9110 8.6", name: "a length twice", want: either, send: post + "Content-Length: %s\r\n\r\nabc", values: []string{"3, 3", "3,3", "3,3,3", "3\r\nContent-Length: 3"}},
	{lists: "P", section: "9110 8.6", name: "a length with zeros", want: good, send: post + "Content-Length: %s\r\n\r\nabc", values: []string{"03", "0003", "0000000000000000000000003"}, body: "abc"},
	{lists: "P", section: "9110 8.6", name: "a length of zeros", want: good, send: post + "Content-Length: 00\r\n\r\n"},
	{lists: "P", section: "9110 8.6", name: "not octal", want: good, send: post + "Content-Length: 010\r\n\r\n0123456789", body: "0123456789"},
	{lists: "PSN", section: "9110 8.6", name: "length", want: taken, send: post + "Content-Length:%s\r\n\r\nabc", values: []string{"3", " 3", "  3", "\t3", " 3 ", " \t3\t"}, body: "abc"},
	{lists: "P", section: "9110 8.6", name: "a huge length", want: tooMuch, send: post + "Content-Length: %s\r\n\r\nabc", values: []string{
		"999999999999", "9223372036854775807", "9223372036854775808", "18446744073709551619", "99999999999999999999999999"}},
	{lists: "P", section: "9112 6.3", name: "less than the length", want: cutOff, send: post + "Content-Length: 10\r\n\r\nabc", end: true},
	{lists: "P", section: "9112 9.3", name: "more than the length", want: "200 400 close|200 refused", send: post + "Content-Length: %s", values: []string{"0\r\n\r\n\x01", "1\r\n\r\nx\x01", "0\r\n\r\n("}},
}

var codings = []group{
	{lists: "PSN", section: "9112 6.1", name: "coding and length", want: mayRead, send: post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n%s", values: []string{
		"\r\n0\r\n\r\n", "\r\n0\r\n\r\n" + inner, "Connection: close\r\n\r\n0\r\n\r\n" + inner, "\r\n3\r\nabc\r\n0\r\n\r\n"}},
	{lists: "PSN", section: "9112 6.1", name: "length after a coding", want: mayRead, send: post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n%s", values: []string{
		"\r\n23\r\n" + inner + "\r\n0\r\n\r\n", "Connection: close\r\n\r\n0\r\n\r\n", "\r\n0\r\n\r\n" + strings.Replace(inner, "GET", "HEAD", 1)}},
	{lists: "P", section: "9112 6.1", name: "length and a coding with", want: mayRead, send: post + "Content-Length: 5\r\nTransfer-Encoding:%s\r\n\r\n0\r\n\r\n" + inner, values: []string{" chunked ", " Chunked", " ,chunked", " chunked,", "\r\n chunked", "\tchunked", " chunked\r\nTransfer-Encoding: identity"}},
	{lists: "P", section: "9112 6.1", name: "a bad length and a coding", want: mayRead, send: post + "Content-Length: %s\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner, values: []string{"+5", "5a", "5, 6"}},
	{lists: "PN", section: "9112 6.1", name: "coding", want: "501 close|refused", send: post + "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", values: []string{"gzip, chunked", "xchunked, chunked"}},
	{lists: "PN", section: "9112 6.3", name: "coding", want: bad, send: post + "Transfer-Encoding:%s\r\n\r\n0\r\n\r\n", values: []string{
		" xchunked", " identity", " gzip", " chunked, gzip", " chunked, chunked", " chunked, identity", " identity, chunked, identity", "", " \"chunked\"", " 'chunked'", " chunked;q=1", " chunk", " chunked chunked", " \vchunked", " \fchunked", " chunked\x00", " chunked\xa0",
		" chunked\r\nTransfer-Encoding: chunked", " chunked\r\nTransfer-Encoding: identity", " identity\r\nTransfer-Encoding: chunked", " gzip\r\nTransfer-Encoding: chunked", "\x00chunked", " x\r\nTransfer-Encoding: y"}},
	{lists: "P", section: "9112 6.1", name: "a bad coding and a length", want: bad, send: post + "Content-Length: 5\r\nTransfer-Encoding: %s\r\n\r\n0\r\n\r\n" + inner, values: []string{"xchunked", "", "identity", "chunked, identity", "chunked\x00"}},
	{lists: "P", section: "9110 5.6.1", name: "a coding in a list with gaps", want: either, send: post + "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", values: []string{",chunked", ", chunked", "chunked,"}},
	{lists: "P", section: "9112 5.2", name: "a folded coding", want: either, send: "%s / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", values: []string{"POST", "OPTIONS"}},
	{lists: "PN", section: "9112 7", name: "coding", want: taken, send: post + "Transfer-Encoding:%s\r\n\r\n1\r\nx\r\n0\r\n\r\n", values: []string{"chunked", " chunked", " Chunked", " CHUNKED", " chunked ", "\tchunked\t", "\t \tchunked"}, body: "x"},
	{lists: "PN", section: "9112 6.1", name: "a coding in HTTP/1.0", want: mayRead, send: "POST / HTTP/1.0\r\nHost: h\r\n%sTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", values: []string{"", "Connection: keep-alive\r\n"}},
}

var chunks = []group{
	{lists: "PN", section: "9112 7.1", name: "chunks", want: taken, send: chunked + "%s", values: []string{
		"3\r\nabc\r\n0\r\n\r\n", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "0003\r\nabc\r\n000\r\n\r\n", "3{pause}\r\nab{pause}c\r\n0\r{pause}\n\r\n",
		"3;a\r\nabc\r\n0\r\n\r\n", "3;a=b;c=\"d;\\\"e\"\r\nabc\r\n0;f\r\n\r\n", "3 ; a = b\r\nabc\r\n0\r\n\r\n", "3\r\nabc\r\n0\r\nT: v\r\n\r\n", "3\r\nabc\r\n0\r\nT: v\r\nU:\r\n\r\n"}, body: "abc"},
	{lists: "P", section: "9112 7.1", name: "a chunk of", want: taken, send: chunked + "%s\r\n0123456789\r\n0\r\n\r\n", values: []string{"a", "A", "00A"}, body: "0123456789"},
	{lists: "P", section: "9112 7.1", name: "no chunks", want: taken, send: chunked + "0\r\n\r\n"},
	{lists: "P", section: "9112 7.1", name: "size of a chunk", want: bad, send: chunked + "%s\r\nabc\r\n0\r\n\r\n", values: []string{
		"", "x", "0x3", "+3", "-1", "-3", " 3", "3 ", "\t3", "3_0", "3,", "3.0", "\"3\"", "3g", "3\x00", "G", "ffffffffffffffff", "10000000000000003", "fffffffffffffffffffff"}},
	{lists: "P", section: "9112 7.1.1", name: "extension of a chunk", want: bad, send: chunked + "3;%s\r\nabc\r\n0\r\n\r\n", values: []string{"", " ", "=b", "a=", "a b", ";a", "bad[=x", "a=\"b", "a=\"b\"c", "a\x00", "a\x01", "a\rb"}},
	{lists: "P", section: "9112 2.2", name: "LF in chunks", want: either, send: chunked + "%s", values: []string{"3\nabc\r\n0\r\n\r\n", "3\r\nabc\n0\r\n\r\n", "3\r\nabc\r\n0\n\r\n", "3\r\nabc\r\n0\r\n\n", "3\r\nabc\r\n0\r\nT: v\n\r\n", "0\n\n"}},
	{lists: "P", section: "9112 7.1.1", name: "LF in an extension", want: bad, send: chunked + "3;a\nbc\r\n0\r\n\r\n"},
	{lists: "PN", section: "9112 7.1", name: "data of a chunk", want: bad, send: chunked + "%s", values: []string{"1\r\nab\r\n0\r\n\r\n", "3\r\nabcde\r\n0\r\n\r\n", "4\r\nSEE-THIS\r\n0\r\n\r\n", "3\r\nabc0\r\n\r\n", "3\r\nabc\r0\r\n\r\n", "3\rabc\r\n0\r\n\r\n", "3\r\nabcxx0\r\n\r\n", "3\r\nab\r\n0\r\n\r\n"}},
	{lists: "P", section: "9112 7.1.2", name: "trailer", want: bad, send: chunked + "3\r\nabc\r\n0\r\n%s\r\n\r\n", values: []string{"bad trailer", "T : v", ": v", "T\x00: v", "(: v"}},
	{lists: "P", section: "9110 6.5.1", name: "a trailer that has no business there", want: good, send: chunked + "3\r\nabc\r\n0\r\n%s\r\n\r\n", values: []string{
		"Content-Length: 9", "Transfer-Encoding: chunked", "Host: other", "Authorization: Basic eA==", "Content-Type: text/html", "Trailer: T", "Content-Encoding: gzip"}, body: "abc"},
	{lists: "P", section: "9112 7.1", name: "chunks without an end", want: cutOff, send: chunked + "%s", values: []string{"", "3", "3\r\nab", "3\r\nabc\r\n", "3\r\nabc\r\n0\r\n", "3\r\nabc\r\n0\r\nT: v\r\n"}, end: true},
	{lists: "N", section: "9110 15.5.14", name: "a chunk that is too large", want: tooMuch, send: chunked + "%s\r\nabc", values: []string{"fffffff", "ffffffffff"}},
}

var bodies = []group{
	{lists: "PN", section: "9110 9.3.1", name: "content that has no meaning", want: "200 keep|refused|405 keep|501 keep|413 keep", send: "%s", values: []string{
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "OPTIONS / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
		"DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 35\r\n\r\n" + inner, "OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 35\r\n\r\n" + inner,
		"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n23\r\n" + inner + "\r\n0\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 28\r\n\r\nGET " + smuggled + " HTTP/1.1\r\nA: b"}},
	{lists: "P", section: "9110 8.6", name: "POST without content", want: "200 keep|411 keep|411 close", send: post + "%s\r\n", values: []string{"", "Content-Length: 0\r\n"}},
	{lists: "PS", section: "9110 8.6", name: "POST", want: taken, send: post + "Content-Length: 5\r\n%s\r\nhello", values: []string{"", "Content-Type: application/x-unknown\r\n", "Content-Type: a\r\nContent-Type: b\r\n"}, body: "hello"},
	{lists: "P", section: "9110 9.3.2", name: "HEAD", want: taken, send: "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"},
	{lists: "P", section: "9110 8.6", name: "204", want: "204 keep", send: "GET " + NoContent + " HTTP/1.1\r\nHost: h\r\n\r\n", head: "!Content-Length\n!Transfer-Encoding"},
}

var connections = []group{
	{lists: "PN", section: "9112 9.6", name: "close", want: "200 close", send: get + "Connection: %s\r\n\r\n", values: []string{"close", "CLOSE", "keep-alive, close", "x,\tclose ,y", "keep-alive\r\nConnection: close"}},
	{lists: "P", section: "9112 9.3", name: "HTTP/1.0", want: "200 close", send: "GET / HTTP/1.0\r\nHost: h\r\n\r\n"},
	{lists: "N", section: "9112 9.3", name: "HTTP/1.0 that wants to go on", want: "200 keep|200 close", send: "GET / HTTP/1.0\r\nHost: h\r\nConnection: Keep-Alive\r\n\r\n"},
	{lists: "PN", section: "9112 9.3.2", name: "pipelined", want: "200 200 200 keep", send: get + "\r\n" + "%s" + get + "\r\n", values: []string{
		get + "\r\n", post + "Content-Length: 5\r\n\r\nhello", chunked + "5\r\nhello\r\n0\r\n\r\n", chunked + "a00\r\n" + long[:0xa00] + "\r\n0\r\n\r\n", "\r\n" + get + "\r\n"}},
	{lists: "P", section: "9112 9.3.2", name: "pipelined with one that is bad", want: "200 400 close|200 refused", send: get + "\r\n" + "GET / HTTP/1.1\r\n\r\n" + inner},
	{lists: "PS", section: "9112 8", name: "a request without an end", want: endless, send: "%s", values: []string{"", "\r\n", "GET", "GET / HT", "GET / HTTP/1.1\r\n", get}, end: true},
	{lists: "P", section: "9110 6.6.1", name: "Date", want: "400 close|refused", send: "GET / HTTP/1.1\r\n\r\n", head: "Date"},
}

// FileCases ask for /file, whose content is File.
var FileCases = expand(files)

const ask = "GET /file HTTP/1.1\r\nHost: h\r\n"

var files = []group{
	{lists: "PN", section: "9110 15.3.1", name: "a file", want: taken, send: ask + "\r\n", head: "Content-Length: 100\nLast-Modified\nDate", body: File},
	{lists: "PN", section: "9110 9.3.2", name: "HEAD of a file", want: taken, send: "HEAD /file HTTP/1.1\r\nHost: h\r\n\r\n", head: "Content-Length: 100"},
	{lists: "P", section: "9110 15.5.6", name: "method of a file", want: "405 keep", send: "%s /file HTTP/1.1\r\nHost: h\r\n\r\n", values: []string{"DELETE", "PUT", "POST"}, head: "Allow"},
	{lists: "P", section: "9110 13.1.2", name: "unchanged", want: "304 keep", send: ask + "If-None-Match: %s\r\n\r\n", values: []string{"{etag}", "W/{etag}", "*", "\"x\", {etag}", "W/\"x\",\t{etag} ,\"y\""}, head: "ETag\n!Content-Range"},
	{lists: "PN", section: "9110 13.1.2", name: "changed", want: taken, send: ask + "If-None-Match: %s\r\n\r\n", values: []string{"\"x\"", "W/\"x\", \"y\"", "x", "\"x"}, body: File},
	{lists: "PN", section: "9110 13.1.3", name: "unchanged since", want: "304 keep", send: ask + "If-Modified-Since: {modified}\r\n\r\n", head: "!Content-Range"},
	{lists: "PN", section: "9110 13.1.3", name: "changed since", want: taken, send: ask + "If-Modified-Since: %s\r\n\r\n", values: []string{"Mon, 28 Sep 1970 06:00:00 GMT", "x", "2020-01-01", "{modified}x"}, body: File},
	{lists: "P", section: "9110 13.1.3", name: "changed since a day to come", want: "304 keep|200 keep", send: ask + "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n\r\n"},
	{lists: "P", section: "9110 13.2.2", name: "tags go before dates", want: taken, send: ask + "If-None-Match: \"x\"\r\nIf-Modified-Since: {modified}\r\n\r\n", body: File},
	{lists: "N", section: "9110 13.1.1", name: "if it is", want: taken, send: ask + "If-Match: %s\r\n\r\n", values: []string{"*", "{etag}", "\"x\", {etag}"}, body: File},
	{lists: "N", section: "9110 13.1.1", name: "if it is not", want: "412 keep", send: ask + "If-Match: %s\r\n\r\n", values: []string{"\"x\"", "W/{etag}"}},
	{lists: "N", section: "9110 13.1.4", name: "if it has not changed", want: taken, send: ask + "If-Unmodified-Since: %s\r\n\r\n", values: []string{"{modified}", "Fri, 01 Jan 2100 00:00:00 GMT", "x"}, body: File},
	{lists: "N", section: "9110 13.1.4", name: "if it had not changed", want: "412 keep", send: ask + "If-Unmodified-Since: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n"},
	{lists: "PN", section: "9110 14.2", name: "range", want: "206 keep|200 keep", send: ask + "Range: bytes=0-8\r\n\r\n", head: "Content-Range: bytes 0-8/100\nContent-Length: 9", body: File[:9]},
	{lists: "N", section: "9110 14.2", name: "range to the end", want: "206 keep|200 keep", send: ask + "Range: %s\r\n\r\n", values: []string{"bytes=91-", "bytes=-9", "bytes=91-99", "bytes=91-1000", "BYTES=91-", "bytes= 91-"}, head: "Content-Range: bytes 91-99/100", body: File[91:]},
	{lists: "N", section: "9110 14.1.2", name: "range of more than there is", want: "206 keep|200 keep", send: ask + "Range: bytes=-1000\r\n\r\n", body: File},
	{lists: "N", section: "9110 15.5.17", name: "range behind the end", want: "416 keep|200 keep", send: ask + "Range: %s\r\n\r\n", values: []string{"bytes=100-", "bytes=1000-1001", "bytes=-0", "bytes=99999999999999999999-"}, head: "Content-Range: bytes */100"},
	{lists: "PN", section: "9110 14.2", name: "no range", want: "200 keep|416 keep|400 keep", send: ask + "Range: %s\r\n\r\n", values: []string{"bytes=", "bytes=x-", "bytes=8-1", "bytes=1", "bytes=--1", "lines=1-2", "bytes 1-2", "bytes=1-2x"}, body: File},
	{lists: "P", section: "9110 14.2", name: "ranges", want: "200 keep|206 keep|416 keep", send: ask + "Range: bytes=%s\r\n\r\n", values: []string{"0-1,5-6", "0-0," + strings.Repeat("5-,", 1000) + "1-1"}},
	{lists: "PN", section: "9110 14.2", name: "ranges that overlap", want: "206 keep|200 keep|416 keep", send: ask + "Range: bytes=%s\r\n\r\n", values: []string{"0-9,5-14", "0-,0-,0-,0-,0-"}},
	{lists: "P", section: "9110 14.2", name: "range of a method without", want: "405 keep|200 keep", send: "POST /file HTTP/1.1\r\nHost: h\r\nRange: bytes=0-8\r\n\r\n"},
	{lists: "N", section: "9110 13.1.5", name: "range if unchanged", want: "206 keep|200 keep", send: ask + "Range: bytes=0-8\r\nIf-Range: %s\r\n\r\n", values: []string{"{etag}", "{modified}"}, body: File[:9]},
	{lists: "N", section: "9110 13.1.5", name: "range if changed", want: taken, send: ask + "Range: bytes=0-8\r\nIf-Range: %s\r\n\r\n", values: []string{"\"x\"", "W/{etag}", "Mon, 28 Sep 1970 06:00:00 GMT", "x"}, body: File},
	{lists: "P", section: "9110 13.2.1", name: "a condition and an error", want: "404 keep", send: "GET /none HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n\r\n"},
}

// Browser is a request as a browser makes it.
const Browser = "GET /articles/2026/runtime.html?from=feed HTTP/1.1\r\n" +
	"Host: www.example.org\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
	"Accept-Language: en-US,en;q=0.7,de;q=0.3\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
	"Referer: https://www.example.org/articles/\r\n" +
	"Connection: keep-alive\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n" +
	"If-Modified-Since: Sat, 01 Aug 2026 10:00:00 GMT\r\n" +
	"Priority: u=0, i\r\n\r\n"
