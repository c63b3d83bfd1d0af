package cache

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

const fresh = "Cache-Control: max-age=60"

// TestValidation: a stale response is asked about with its validators, and used again if it is still right (RFC 9111, 4.3).
func TestValidation(t *testing.T) {
	r := newRig(t, Config{})
	r.sends(200, fresh, `ETag: "a"`, "X-Old: 1", "", "body")
	r.want("fwd=miss; stored", 1)
	r.pass(time.Hour)
	r.sends(304, fresh, `ETag: "a"`, "X-New: 1")
	a := r.want("hit; fwd=stale; fwd-status=304", 2)
	testenv.Contains(t, r.request(), "if-none-match: \"a\"\n")
	testenv.Equal(t, a.body+a.header.Get("X-Old")+a.header.Get("X-New"), "body11")
	testenv.Equal(t, r.want("hit", 2).body, "body")
	a = r.get("/", "If-None-Match: \"a\"")
	testenv.Equal(t, fmt.Sprint(a.status, a.header.Get("ETag"), a.body), `304"a"`)
	r.want("hit; fwd=stale; fwd-status=304", 3, "Cache-Control: no-cache")
	r.pass(time.Hour)
	r.sends(200, fresh, `ETag: "b"`, "", "new")
	testenv.Equal(t, r.want("fwd=stale; stored", 4).body, "new")
	r.pass(time.Hour)
	r.sends(304, `ETag: "c"`) // of another response: it must be asked again
	testenv.Equal(t, r.get("/").status, 304, "a backend that says so without having been asked")
	testenv.Equal(t, r.asked.Load(), 6)
	testenv.Equal(t, strings.Contains(r.request(), "if-none-match"), false, "it was asked with a validator again")
}

// TestStale: RFC 5861.
func TestStale(t *testing.T) {
	r := newRig(t, Config{Revalidate: "10s", IfError: "1h"})
	r.sends(200, fresh, "", "old")
	r.want("fwd=miss; stored", 1)
	r.pass(65 * time.Second)
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", "new")
	})
	testenv.Equal(t, r.get("/").body, "old", "while it is revalidated")
	testenv.Equal(t, r.get("/").body, "old", "while it is revalidated")
	release.Close()
	testenv.Until(t, "the new one is there", func() bool { return r.get("/").body == "new" })
	testenv.Equal(t, r.asked.Load(), 2)

	r.pass(80 * time.Second)
	r.sends(503, "", "sorry")
	testenv.Equal(t, r.want("hit; detail=stale-if-error", 3).body, "new")
	r.says(func(*knot.Ctx) error { return errors.New("no backend") })
	testenv.Equal(t, r.want("hit; detail=stale-if-error", 4).body, "new")
	r.sends(404, "", "gone")
	testenv.Equal(t, r.want("fwd=stale", 5).body, "gone")
	r.pass(time.Hour)
	r.sends(503, "", "sorry")
	testenv.Equal(t, r.want("fwd=stale", 6).status, 503)
}

// TestRequests: what becomes of requests when / is kept, and when nothing is.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		about, method string
		lines         []string
		status        int // when / is kept
		body          string
		asked         int64 // when / is kept
		stores        bool  // when it is not
	}{
		{"plain", "GET", nil, 200, "0123456789", 0, true},
		{"HEAD", "HEAD", nil, 200, "", 0, false},
		{"range", "GET", []string{"Range: bytes=2-4"}, 206, "234", 0, true},
		{"suffix", "GET", []string{"Range: bytes=-2"}, 206, "89", 0, true},
		{"several ranges", "GET", []string{"Range: bytes=0-1,3-4"}, 200, "0123456789", 0, true},
		{"a range that is not there", "GET", []string{"Range: bytes=10-"}, 416, "", 0, true},
		{"If-Range", "GET", []string{"Range: bytes=2-4", `If-Range: "a"`}, 206, "234", 0, true},
		{"If-Range of another", "GET", []string{"Range: bytes=2-4", `If-Range: "b"`}, 200, "0123456789", 0, true},
		{"HEAD with a range", "HEAD", []string{"Range: bytes=2-4"}, 200, "", 0, false},
		{"condition", "GET", []string{`If-None-Match: "x", W/"a"`}, 304, "", 0, true},
		{"condition that fails", "GET", []string{`If-None-Match: "x"`}, 200, "0123456789", 0, true},
		{"condition and range", "GET", []string{`If-None-Match: "a"`, "Range: bytes=1-2"}, 304, "", 0, true},
		{"range with credentials", "GET", []string{"Range: bytes=2-4", "Authorization: Basic x"}, 200, "0123456789", 1, false},
		{"If-Match", "GET", []string{`If-Match: "a"`}, 200, "0123456789", 1, false},
		{"If-Unmodified-Since", "GET", []string{"If-Unmodified-Since: " + epoch.Format(time.RFC1123)}, 200, "0123456789", 1, false},
		{"credentials", "GET", []string{"Authorization: Basic x"}, 200, "0123456789", 1, false},
		{"no-store", "GET", []string{"Cache-Control: no-store"}, 200, "0123456789", 0, false},
		{"no-cache", "GET", []string{"Cache-Control: no-cache"}, 200, "0123456789", 1, true},
		{"no-cache in a second line", "GET", []string{"Cache-Control: x", "Cache-Control: no-cache"}, 200, "0123456789", 1, true},
		{"cookies", "GET", []string{"Cookie: a=b"}, 200, "0123456789", 0, true},
		{"upgrade", "GET", []string{"Connection: upgrade", "Upgrade: websocket"}, 200, "0123456789", 1, false},
		{"one that is answered apart", "GET", []string{"X-Canary: yes"}, 200, "0123456789", 1, false},
		{"a line of the connection", "GET", []string{"Connection: x-hop", "X-Hop: a"}, 200, "0123456789", 1, false},
		{"POST", "POST", []string{"Content-Length: 0"}, 200, "0123456789", 1, false},
		{"OPTIONS", "OPTIONS", nil, 200, "0123456789", 1, false},
		{"unknown method", "get", nil, 200, "0123456789", 1, false},
	} {
		t.Run(c.about, func(t *testing.T) {
			r := newRig(t, Config{})
			r.sends(200, fresh, `ETag: "a"`, "Content-Length: 10", "", "0123456789")
			r.ask(c.method, "/", c.lines...)
			testenv.Equal(t, r.cache.Stats().Entries == 1, c.stores, "is stored")
			r.get("/")
			asked := r.asked.Load()
			a := r.ask(c.method, "/", c.lines...)
			testenv.Equal(t, a.status, c.status, "status")
			testenv.Equal(t, a.body, c.body, "body")
			testenv.Equal(t, r.asked.Load()-asked, c.asked, "requests at the backend")
		})
	}
	r := newRig(t, Config{})
	testenv.Equal(t, r.get("/", "Cache-Control: only-if-cached").status, 504)
	r.sends(200, fresh, "", "x")
	r.get("/")
	testenv.Equal(t, r.get("/", "Cache-Control: only-if-cached").status, 200)
	deaf := newRig(t, Config{IgnoreClients: true})
	deaf.sends(200, fresh, "", "x")
	deaf.get("/")
	deaf.want("hit", 1, "Cache-Control: no-cache")
	deaf = newRig(t, Config{IgnoreClients: true})
	deaf.sends(200, fresh, "", "x")
	deaf.get("/", "Cache-Control: no-store")
	deaf.want("hit", 1)
}

// TestTold: where the backend is told by this server who the client is, nothing that is kept is the answer, and the answer is not
// kept; what a client has written under that name reaches no backend.
func TestTold(t *testing.T) {
	r := newRig(t, Config{})
	next := Set{r.cache}.Before(r.handle, knot.Trust{}, isCanary)
	r.addr = serve(t, func(x *knot.Ctx) error {
		ownctx.Of(x).(interface{ PassHeader(name, value string) }).PassHeader("Remote-User", x.Header("X-As"))
		return next(x)
	})
	r.sends(200, fresh, "", "for one")
	for range 2 {
		testenv.Equal(t, r.get("/", "X-As: alice").body, "for one")
	}
	testenv.Equal(t, fmt.Sprint(r.asked.Load(), r.cache.Stats().Entries), "2 0", "requests, entries")
	r.sends(200, fresh, "", "for all")
	r.want("fwd=miss; stored", 3, "remote-USER: root")
	testenv.Equal(t, strings.Contains(r.request(), "root"), false, "the backend is told what a client has written")
	testenv.Equal(t, r.want("hit", 3).body, "for all")
	r.sends(200, fresh, "", "for another")
	testenv.Equal(t, r.get("/", "X-As: bob").body, "for another")
	testenv.Equal(t, r.want("hit", 4).body, "for all")
}

// TestVaryByClient: a response that depends on a line in which the proxy tells who the client is is not kept.
func TestVaryByClient(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "accept, FORWARDED"} {
		r := newRig(t, Config{})
		r.sends(200, fresh, "Vary: "+name, "", "x")
		r.want("fwd=miss", 1)
		r.want("fwd=miss", 2)
	}
}

// TestPoison: what one client says must not come back to another. Each request of an attacker has a response that repeats
// it; the next client's must not.
func TestPoison(t *testing.T) {
	for _, c := range []struct{ about, raw string }{
		{"X-Forwarded-Host", "GET / HTTP/1.1\r\nHost: site.test\r\nX-Forwarded-Host: evil\r\n\r\n"},
		{"X-Forwarded-Anything", "GET / HTTP/1.1\r\nHost: site.test\r\nX-Forwarded-Prefix: evil\r\n\r\n"},
		{"X-Host", "GET / HTTP/1.1\r\nHost: site.test\r\nx-host: evil\r\n\r\n"},
		{"Forwarded", "GET / HTTP/1.1\r\nHost: site.test\r\nForwarded: host=evil\r\n\r\n"},
		{"X-Original-URL", "GET / HTTP/1.1\r\nHost: site.test\r\nX-Original-URL: /evil\r\nX-Rewrite-URL: /evil\r\n\r\n"},
		{"another method", "GET / HTTP/1.1\r\nHost: site.test\r\nX-HTTP-Method-Override: evil\r\n\r\n"},
		{"GET with a body", "GET / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 4\r\n\r\nevil"},
		{"GET with a chunked body", "GET / HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n"},
		{"another host", "GET / HTTP/1.1\r\nHost: evil\r\n\r\n"},
		{"another port", "GET / HTTP/1.1\r\nHost: site.test:666\r\n\r\n"},
		{"host in the target", "GET http://evil/ HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"dots", "GET /evil/.. HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"dots in escapes", "GET /evil/%2e%2E/ HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"dots and a parameter", "GET /evil/..;/ HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"slashes", "GET //evil HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"escaped slash", "GET /%2fevil HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"ignored parameter", "GET /?utm_x=evil HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"ignored parameter with another inside", "GET /?utm_x=1;q=evil HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"escaped name of an ignored parameter", "GET /?utm%5fx=evil HTTP/1.1\r\nHost: site.test\r\n\r\n"},
		{"lines that Connection takes away", "GET / HTTP/1.1\r\nHost: site.test\r\nConnection: accept, evil\r\n\r\n"},
		{"lines that break", "GET / HTTP/1.1\r\nHost: site.test\r\nAccept: evil\rX: y\r\n\r\n"},
		{"line that Vary names", "GET / HTTP/1.1\r\nHost: site.test\r\nAccept: evil\r\n\r\n"},
		{"range", "GET / HTTP/1.1\r\nHost: site.test\r\nRange: bytes=evil\r\n\r\n"},
		{"HTTP/1.0 without a host", "GET /?evil HTTP/1.0\r\n\r\n"},
	} {
		r := newRig(t, Config{IgnoreQuery: []string{"utm_*"}})
		r.says(func(x *knot.Ctx) error {
			x.AddHeader("Cache-Control", "public, max-age=60")
			x.AddHeader("Vary", "Accept, Range, X-Forwarded-Host")
			body := make([]byte, 100)
			n, _ := x.Body().Read(body)
			r.mu.Lock()
			defer r.mu.Unlock()
			x.WriteString(r.last + string(body[:n]))
			return nil
		})
		r.raw(strings.Replace(c.raw, "\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1))
		for _, target := range []string{"/", "/?utm_x=1", "/%2f", "//"} {
			if a := r.get(target); a.status != 200 || strings.Contains(a.body, "evil") {
				t.Errorf("%s: the next client gets %d %q for %s", c.about, a.status, a.body, target)
			}
		}
	}
}

// TestKeys: which requests are about the same.
func TestKeys(t *testing.T) {
	r := newRig(t, Config{IgnoreQuery: []string{"utm_*", "fbclid"}})
	r.sends(200, fresh, "", "x")
	for _, c := range []struct {
		target, host string
		same         bool // as one before
	}{
		{"/a", "site.test", false}, {"/a", "SITE.test", true}, {"/a", "site.test:80", true}, {"/a", "site.test:8080", false}, {"/a", "other.test", false},
		{"/%61", "site.test", true}, {"/%41", "site.test", false}, {"/A", "site.test", true}, {"/a%2fb", "site.test", false}, {"/a%2Fb", "site.test", true}, {"/a/b", "site.test", false},
		{"/a?", "site.test", true}, {"/a?x=1", "site.test", false}, {"/a?x=1&utm_source=y&fbclid", "site.test", true}, {"/a?utm_a=b", "site.test", true}, {"/a?x=2", "site.test", false},
		{"http://site.test/a", "other.test", true},
	} {
		asked := r.asked.Load()
		testenv.Equal(t, r.get(c.target, "Host: "+c.host).status, 200)
		testenv.Equal(t, r.asked.Load() == asked, c.same, "%+v", c)
	}
	for _, trusted := range []bool{false, true} { // is the word of the peer about scheme and host
		if trusted {
			r.addr = serve(t, Set{r.cache}.Before(r.handle, testenv.Need(knot.ParseTrust("127.0.0.1"))(t), isCanary))
		}
		for _, line := range []string{"X-Forwarded-Proto: https", "X-Forwarded-Host: shop.test"} {
			asked := r.asked.Load()
			r.get("/a", "Host: site.test", line)
			testenv.Equal(t, r.asked.Load() > asked, trusted, "%s, trusted: %v", line, trusted)
			testenv.Equal(t, strings.Contains(r.request(), strings.ToLower(line)), trusted, "%s reaches the backend, trusted: %v", line, trusted)
		}
	}
}

// TestForwarded: of the line Forwarded of a trusted peer the address of the client reaches the backend, and no more.
func TestForwarded(t *testing.T) {
	trust := testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
	for _, c := range []struct {
		trust       knot.Trust
		lines       []string
		line, found string
	}{
		{trust, []string{"Forwarded: for=198.51.100.1;host=evil", "Forwarded: for=192.0.2.1;host=evil;proto=evil"}, "forwarded: for=192.0.2.1\n", "192.0.2.1"},
		{trust, []string{`Forwarded: for="[2001:db8::1]:4711";host=evil`}, "forwarded: for=\"[2001:db8::1]\"\n", "2001:db8::1"},
		{trust, []string{"Forwarded: for=_evil"}, "forwarded: for=127.0.0.1\n", "127.0.0.1"},
		{trust, []string{"X-Forwarded-For: 192.0.2.1"}, "", "192.0.2.1"},
		{knot.Trust{}, []string{"Forwarded: for=192.0.2.1;host=evil"}, "", "127.0.0.1"},
	} {
		r := newRig(t, Config{})
		r.addr = serve(t, Set{r.cache}.Before(r.handle, c.trust, isCanary))
		r.says(func(x *knot.Ctx) error {
			x.TrustPeers(c.trust)
			x.AddHeader("Cache-Control", "max-age=60")
			return x.SendString(200, "", x.ClientAddr().String())
		})
		testenv.Equal(t, r.want("fwd=miss; stored", 1, c.lines...).body, c.found, "%q", c.lines)
		_, line, found := strings.Cut(r.request(), "\nforwarded: ")
		testenv.Equal(t, found, c.line != "", "%q", c.lines)
		testenv.Equal(t, strings.Contains(r.request(), "evil"), false, "%q", c.lines)
		if found {
			testenv.Equal(t, "forwarded: "+line, c.line, "%q", c.lines)
		}
		r.want("hit", 1, "Forwarded: for=192.0.2.2")
	}
}

// TestRewritten: what rules make one path of stays apart, and reaches the backend rewritten and as it came.
func TestRewritten(t *testing.T) {
	r := newRig(t, Config{IgnoreQuery: []string{"utm_*"}})
	inner := Set{r.cache}.Before(r.handle, testenv.Need(knot.ParseTrust())(t), isCanary)
	r.addr = serve(t, func(x *knot.Ctx) error {
		if err := x.Rewrite("/index.php?p=" + x.Path() + "&" + x.Query()); err != nil {
			return err
		}
		return inner(x)
	})
	r.says(func(x *knot.Ctx) error {
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", x.Target()+" "+x.Path()+" "+x.Query())
	})
	for range 2 {
		testenv.Equal(t, r.get("/a").body, "/a /index.php p=/a&")
		testenv.Equal(t, r.get("/b?utm_x=evil").body, "/b /index.php p=/b")
	}
	testenv.Equal(t, r.asked.Load(), 2)
	testenv.Equal(t, testenv.Need(r.cache.Purge("http://site.test/a", false))(t), 1)
	r.get("/b?utm_x=2")
	testenv.Equal(t, r.asked.Load(), 2)
}

// TestInvalidation: after a change nothing of before is used, of what was under way neither (RFC 9111, 4.4).
func TestInvalidation(t *testing.T) {
	r := newRig(t, Config{})
	r.sends(200, fresh, "Vary: Accept", "", "old")
	r.want("fwd=miss; stored", 1)
	r.want("fwd=miss; stored", 2, "Accept: b")
	r.sends(500)
	r.ask("POST", "/", "Content-Length: 0")
	r.want("hit", 3)
	r.sends(204)
	r.ask("POST", "/", "Content-Length: 0")
	r.sends(200, fresh, "Vary: Accept", "", "new")
	testenv.Equal(t, r.want("fwd=miss; stored", 5).body, "new")
	testenv.Equal(t, r.want("fwd=miss; stored", 6, "Accept: b").body, "new")

	r.says(func(x *knot.Ctx) error {
		x.WriteString("changed")
		x.Flush()
		return errors.New("the client has left, or the backend breaks off")
	})
	nc := testenv.Dial(t, r.addr)
	fmt.Fprint(nc, "POST / HTTP/1.1\r\nHost: site.test\r\nContent-Length: 0\r\n\r\n")
	io.Copy(io.Discard, nc)
	nc.Close()
	r.sends(200, fresh, "Vary: Accept", "", "newer")
	testenv.Equal(t, r.want("fwd=miss; stored", 8).body, "newer")

	asked, release := make(chan bool), task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		if x.Method() == "PUT" {
			return x.Send(204, "", nil)
		}
		asked <- true
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", "between")
	})
	got := make(chan string)
	go func() { got <- r.get("/other").body }()
	<-asked
	r.ask("PUT", "/other", "Content-Length: 0")
	release.Close()
	testenv.Equal(t, <-got, "between")
	r.sends(200, fresh, "", "after")
	testenv.Equal(t, r.get("/other").body, "after")
}

// TestPurge: by URL and by prefix.
func TestPurge(t *testing.T) {
	r := newRig(t, Config{IgnoreQuery: []string{"x"}})
	r.sends(200, fresh, "", "x")
	for _, c := range []struct {
		url    string
		prefix bool
		want   int
		err    string
	}{
		{"http://site.test/a", false, 1, ""}, {"http://SITE.test:80/%61", false, 1, ""}, {"http://site.test/a?x=1", false, 1, ""}, {"http://site.test/", false, 0, ""},
		{"http://site.test/a", true, 3, ""}, {"http://site.test", true, 4, ""}, {"http://site", true, 0, ""}, {"https://site.test/a", true, 0, ""},
		{"/a", false, 0, "want one like https://example.org/path"}, {"http:///a", false, 0, "not kept for such a host"}, {"http://site.test/a/../b", false, 0, "or path"},
	} {
		for _, path := range []string{"/a", "/a/b", "/a?y", "/b"} {
			r.get(path)
		}
		n, err := r.cache.Purge(c.url, c.prefix)
		if testenv.Equal(t, n, c.want, "%+v", c); c.err != "" {
			testenv.ErrorSays(t, err, c.err)
		}
	}
}

// TestCookies: the client that a cookie is for gets it, and no other.
func TestCookies(t *testing.T) {
	r := newRig(t, Config{})
	r.sends(200, "Cache-Control: public, max-age=60", "Set-Cookie: a=b", "", "x")
	testenv.Equal(t, r.want("fwd=miss; stored", 1).header.Get("Set-Cookie"), "a=b")
	testenv.Equal(t, r.want("hit", 1).header.Get("Set-Cookie"), "")
	r.sends(200, fresh, "Set-Cookie: a=b", "", "x")
	for n := range int64(3) {
		testenv.Equal(t, r.get("/own").header.Get("Set-Cookie"), "a=b")
		testenv.Equal(t, r.asked.Load(), n+2)
	}
}

// TestLimits: what is kept stays within its limits, whatever clients ask for.
func TestLimits(t *testing.T) {
	r := newRig(t, Config{Memory: "40000", MaxEntry: "10000", Entries: 20})
	r.sends(200, fresh, "", strings.Repeat("x", 5000))
	for i := range 50 {
		r.get(fmt.Sprint("/", i))
		testenv.AtMost(t, r.cache.Stats().Memory, 40000)
	}
	testenv.AtLeast(t, r.cache.Stats().Entries, 5)
	r.sends(200, fresh, "", "x")
	for i := range 50 {
		r.get(fmt.Sprint("/", i, "?"))
		testenv.AtMost(t, r.cache.Stats().Entries, 20)
	}
	r.sends(200, fresh, "Vary: Accept", "", "x")
	for i := range 2 * maxVariants {
		r.get("/v", fmt.Sprint("Accept: ", i))
	}
	r.cache.mu.Lock()
	testenv.AtMost(t, len(r.cache.variantsLocked("http://site.test/v")), maxVariants)
	r.cache.mu.Unlock()
	for _, long := range []string{"Content-Length: 10001", "X-Without: one"} { // its length is known, or not
		r.sends(200, fresh, long, "", strings.Repeat("y", 10001))
		for range 2 {
			a := r.get("/long")
			testenv.Equal(t, len(a.body), 10001)
			testenv.Equal(t, a.how(), "fwd=miss")
		}
	}
	testenv.Equal(t, r.cache.Stats().Entries <= 20, true)
}

// TestAnotherSite: requests that a cache is not for go to the backend as they are.
func TestAnotherSite(t *testing.T) {
	r := newRig(t, Config{Match: "/static/**"})
	r.sends(200, fresh, "", "x")
	for n := range int64(2) {
		testenv.Equal(t, r.get("/other").how(), "")
		testenv.Equal(t, r.asked.Load(), n+1)
	}
	r.get("/static/a")
	testenv.Equal(t, r.get("/static/a").how(), "hit")
}

// TestFaults: what is wrong with a table.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		config    Config
		key, says string
	}{
		{Config{Match: "a/b"}, "match", "want /a/b"},
		{Config{Memory: "x"}, "memory", ""},
		{Config{Memory: "-1"}, "memory", "no room at all"},
		{Config{MaxEntry: "100000000"}, "max-entry", "larger than memory"},
		{Config{Disk: "5"}, "disk", "say which folder"},
		{Config{Folder: "x"}, "folder", "does not begin with a slash"},
		{Config{Entries: -1}, "entries", "want 1 to"},
		{Config{Heuristic: "x"}, "heuristic", "is not a time"},
		{Config{Revalidate: "-1s"}, "stale-while-revalidate", "is not a time"},
		{Config{IfError: "1"}, "stale-if-error", "is not a time"},
		{Config{StaleMax: "1"}, "stale-max", "is not a time"},
		{Config{Wait: "1"}, "wait", "is not a time"},
		{Config{Lifetimes: map[string]string{"206": "1s"}}, "lifetimes.206", "not a status"},
		{Config{Lifetimes: map[string]string{"4xx": "1s"}}, "lifetimes.4xx", "not a status"},
		{Config{Lifetimes: map[string]string{"200": "1"}}, "lifetimes.200", "is not a time"},
		{Config{IgnoreQuery: []string{"a=b"}}, "ignore-query", "not the name of a parameter"},
		{Config{IgnoreQuery: []string{"["}}, "ignore-query", "not the name of a parameter"},
		{Config{IgnoreQuery: make([]string, 101)}, "ignore-query", "want at most 100"},
	} {
		_, wrong := New(c.config, "", sizeOf, time.Now, testenv.Quiet())
		if len(wrong) == 0 || wrong[0].Key != c.key || !strings.Contains(wrong[0].Err.Error(), c.says) {
			t.Errorf("%+v: %v; want %s: %s", c.config, wrong, c.key, c.says)
		}
	}
}
