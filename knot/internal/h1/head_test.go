package h1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var testLimits = HeadLimits{Line: 200, Size: 600, Fields: 8}

const testHost = "Host: a\r\n"

// refusals has each fault at least once, and those that come before the head is whole; what else is refused is in httpcases.
var refusals = []struct {
	name, head string
	want       *Fault
}{
	{"bare LF after request line", "GET / HTTP/1.1\n" + testHost + "\r\n", badLineEnd},
	{"bare LF as the last byte", "GET / HTTP/1.1\r\n" + testHost + "\n", badLineEnd},
	{"bare LF after field, as the last byte", "GET / HTTP/1.1\r\nHost: a\n", badLineEnd},
	{"NUL as the last byte", "GET / HTTP/1.1\r\nHost: a\x00", badValue},
	{"CR without LF as blank line", "GET / HTTP/1.1\r\n" + testHost + "\rx", badLineEnd},
	{"TLS client hello", "\x16\x03\x01\x02\x00\x01", badMethod},
	{"two spaces before target", "GET  / HTTP/1.1\r\n", badTarget},
	{"two spaces before version", "GET /  HTTP/1.1\r\n", badVersion},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", UnknownVersion},
	{"folded line", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", badFold},
	{"space before colon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", badName},
	{"no Host", "GET / HTTP/1.1\r\n\r\n", noHost},
	{"two Hosts", "GET / HTTP/1.1\r\n" + testHost + testHost + "\r\n", twoHosts},
	{"Host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", badHost},
	{"equal lengths", "GET / HTTP/1.1\r\n" + testHost + "Content-Length: 1\r\ncontent-length: 1\r\n\r\n", twoLengths},
	{"list of lengths", "GET / HTTP/1.1\r\n" + testHost + "Content-Length: 1, 1\r\n\r\n", badLength},
	{"huge length", "GET / HTTP/1.1\r\n" + testHost + "Content-Length: 9223372036854775808\r\n\r\n", BodyTooLarge},
	{"coding and length", "GET / HTTP/1.1\r\n" + testHost + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", codingAndLength},
	{"coding in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", codingBefore11},
	{"two codings", "GET / HTTP/1.1\r\n" + testHost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", twoCodings},
	{"gzip coding", "GET / HTTP/1.1\r\n" + testHost + "Transfer-Encoding: gzip, chunked\r\n\r\n", unknownCoding},
	{"gzip alone", "GET / HTTP/1.1\r\n" + testHost + "Transfer-Encoding: gzip\r\n\r\n", badCoding},
	{"long target", "GET /" + strings.Repeat("a", 200) + " HTTP/1.1\r\n", targetTooLong},
	{"long target, not complete", "GET /" + strings.Repeat("a", 200), targetTooLong},
	{"long method", strings.Repeat("A", 201), targetTooLong},
	{"many fields", "GET / HTTP/1.1\r\n" + testHost + strings.Repeat("a: b\r\n", 8) + "\r\n", tooManyFields},
	{"large head", "GET / HTTP/1.1\r\n" + testHost + "a: " + strings.Repeat("b", 600) + "\r\n\r\n", HeadTooLarge},
	{"large head, not complete", "GET / HTTP/1.1\r\n" + testHost + "a: " + strings.Repeat("b", 600), HeadTooLarge},
	{"blank lines only", strings.Repeat("\r\n", 300), HeadTooLarge},
}

func TestParseRefuses(t *testing.T) {
	for _, test := range refusals {
		t.Run(test.name, func(t *testing.T) {
			var h Head
			testenv.MustEqual(t, h.Parse([]byte(test.head), &testLimits), test.want, "got fault")
		})
	}
}

func TestParseTakes(t *testing.T) {
	for _, test := range []struct{ head, want string }{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=a path=/ query= length=0 keep"},
		{"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=a path=/ query= length=0 keep"},
		{"GET /a/b?c=d?e HTTP/1.1\r\nhOST:a:80\r\n\r\n", "GET 1.1 host=a:80 path=/a/b query=c=d?e length=0 keep"},
		{"HEAD /? HTTP/1.1\r\nHost: \t [::1]:80 \t\r\n\r\n", "HEAD 1.1 host=[::1]:80 path=/ query= length=0 keep"},
		{"GET /\xc3\xa9 HTTP/1.1\r\nHost:\r\n\r\n", "GET 1.1 host= path=/\xc3\xa9 query= length=0 keep"},
		{"GET / HTTP/1.0\r\n\r\n", "GET 1.0 host= path=/ query= length=0 close"},
		{"GET / HTTP/1.0\r\nConnection: foo , Keep-Alive\r\n\r\n", "GET 1.0 host= path=/ query= length=0 keep"},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive,CLOSE\r\n\r\n", "GET 1.1 host=a path=/ query= length=0 close"},
		{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "GET 1.2 host=a path=/ query= length=0 keep"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS 1.1 host=a path=* query= length=0 keep"},
		{"GET http://b.c:8/d?e HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=b.c:8 path=/d query=e length=0 keep"},
		{"GET HTTPS://b HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=b path= query= length=0 keep"},
		{"GET http://b?c HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=b path= query=c length=0 keep"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0012\r\n\r\n", "POST 1.1 host=a path=/ query= length=12 keep"},
		{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n", "PUT 1.1 host=a path=/ query= chunked keep"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n", "POST 1.1 host=a path=/ query= length=1 keep expect"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue,, 100-CONTINUE\r\nExpect:\r\n\r\n", "POST 1.1 host=a path=/ query= length=1 keep expect"},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue, x\r\n\r\n", "POST 1.1 host=a path=/ query= length=1 keep expect refused=417"},
		{"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", " 1.1 host=a path=/ query= length=0 keep"},
		{"GET /[a]^`{|}?x=\\ HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=a path=/[a]^`{|} query=x=\\ length=0 keep"},
		{"GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "GET 1.1 host=a: path=/ query= length=0 keep"},
		{"GET / HTTP/1.1\r\nHost: a_b.%c3%a9:65535\r\n\r\n", "GET 1.1 host=a_b.%c3%a9:65535 path=/ query= length=0 keep"},
		{"GET http://[fe80::1%25eth0]:1/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 host=[fe80::1%25eth0]:1 path=/ query= length=0 keep"},
		{"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1]\r\n\r\n", "GET 1.1 host=[::ffff:127.0.0.1] path=/ query= length=0 keep"},
		{"CONNECT a:1 HTTP/1.1\r\nHost: b\r\n\r\n", "CONNECT 1.1 host=a:1 path= query= length=0 keep"},
		{"CONNECT [::1]:1 HTTP/1.0\r\nHost: a\r\n\r\n", "CONNECT 1.0 host=[::1]:1 path= query= length=0 close"},
		{"CONNECT /a?b HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT 1.1 host=a path=/a query=b length=0 keep"},
		{"CONNECT a:1 HTTP/1.1\r\n\r\n", "CONNECT 1.1 host=a:1 path= query= length=0 keep"},
		{"CONNECT /a HTTP/1.0\n\n", "CONNECT 1.0 host= path=/a query= length=0 close"},
		{"GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n", "GET 1.1 host=a path=/ query= length=0 keep refused=417"},
	} {
		var h Head
		for cut := range len(test.head) {
			if f := h.Parse([]byte(test.head[:cut]), &testLimits); f != NeedMore {
				t.Errorf("%q: got fault %v, want %v", test.head[:cut], f, NeedMore)
			}
		}
		const rest = "GET /next"
		if f := h.Parse([]byte(test.head+rest), &testLimits); f != nil {
			t.Errorf("%q: %v", test.head, f)
			continue
		}
		testenv.Equal(t, h.Size, len(test.head), "%q: size", test.head)
		testenv.Equal(t, describeHead(&h, []byte(test.head)), test.want, "%q", test.head)
	}
}

func describeHead(h *Head, b []byte) string {
	s := fmt.Sprintf("%s 1.%d host=%s path=%s query=%s", MethodNames[h.Method], h.Minor, h.Host.Of(b), h.Path.Of(b), h.Query.Of(b))
	if h.Chunked {
		s += " chunked"
	} else {
		s += fmt.Sprintf(" length=%d", h.Length)
	}
	if h.Persistent() {
		s += " keep"
	} else {
		s += " close"
	}
	if h.Expect {
		s += " expect"
	}
	if h.Refused != nil {
		s += fmt.Sprintf(" refused=%d", h.Refused.Status)
	}
	return s
}

func TestScannersAgreeWithNaive(t *testing.T) {
	b := make([]byte, 40)
	for at := range b {
		for ch := range 256 {
			for i := range b {
				b[i] = 'a' + byte(i%26)
			}
			b[at] = byte(ch)
			for from := range 10 {
				want := len(b)
				if at >= from && (ch < 0x20 || ch == 0x7f) {
					want = at
				}
				testenv.MustEqual(t, IndexControl(b, from), want, "byte %#x at %d from %d", ch, at, from)
				if ch == ' ' && at >= from {
					want = at
				}
				testenv.MustEqual(t, indexBlank(b, from), want, "blank: byte %#x at %d from %d", ch, at, from)
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	request := []byte(httpcases.Browser)
	limits := HeadLimits{Line: 8 << 10, Size: 32 << 10, Fields: 100}
	var h Head
	h.Parse(request, &limits)
	testenv.Equal(t, testing.AllocsPerRun(100, func() { h.Parse(request, &limits) }), 0, "allocations")
}

// That a Host is known from an earlier request does not let another pass, or make one invalid.
func TestHostsAreCheckedEachByItself(t *testing.T) {
	var h Head
	limits := HeadLimits{Line: 1 << 10, Size: 1 << 10, Fields: 10}
	for _, c := range []struct {
		host string
		want *Fault
	}{{"a.example:80", nil}, {"a.example:80", nil}, {"a.example:8x", badHost}, {"a.example:8x", badHost}, {"", nil}, {"a.example:80", nil}} {
		testenv.Equal(t, h.Parse([]byte("GET / HTTP/1.1\r\nHost: "+c.host+"\r\n\r\n"), &limits), c.want, "%q", c.host)
	}
}
