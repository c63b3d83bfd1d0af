package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// behinds starts n backends that answer with their number.
func behinds(t *testing.T, n int) (backends []string) {
	for i := range n {
		backends = append(backends, behind(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, i) }))
	}
	return backends
}

// asks returns the body of the answer to a GET with these lines, and the cookie that it sets.
func (f *front) asks(target string, lines ...string) (body string, cookie *http.Cookie) {
	f.t.Helper()
	resp, body := f.do(f.request("GET", target, "", lines...))
	testenv.Equal(f.t, resp.StatusCode, 200, "status")
	if all := resp.Cookies(); len(all) > 0 {
		cookie = all[0]
	}
	return body, cookie
}

// TestWeights: requests one after another are divided by weight, and a backend of weight 0 gets none.
func TestWeights(t *testing.T) {
	c := to(behinds(t, 3)...)
	c.Weights = []int{3, 0, 1}
	f := serve(t, c, 1)
	var got [3]int
	for range 40 {
		body, _ := f.asks("/")
		got[body[0]-'0']++
	}
	if got[1] != 0 || got[0] < 28 || got[0] > 32 {
		t.Errorf("%v of weights %v", got, c.Weights)
	}
	s := f.p.Stats()
	if s[0].Weight != 3 || s[1].Weight != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSticky: a client without a cookie gets one, and comes back to its backend by it, until that is gone; what is no cookie of ours leads
// nowhere.
func TestSticky(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		backends := behinds(t, 3)
		c := Config{Backends: backends, HTTP2: http2, Sticky: &Sticky{Cookie: "knot-to", Secret: "0123456789abcdef"}}
		f, other := serve(t, c, 1), serve(t, c, 1)
		for _, lie := range []string{"", "knot-to=", "knot-to=0", "knot-to=" + strings.TrimPrefix(backends[0], "http://"), "x=1; knot-to"} {
			_, cookie := f.asks("/", "Cookie: "+lie)
			if cookie == nil || cookie.Name != "knot-to" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Secure || cookie.Path != "/" || cookie.MaxAge != 0 {
				t.Fatalf("%q: %v", lie, cookie)
			}
		}
		seen := make(map[string]string)
		for range 6 {
			body, cookie := f.asks("/")
			if was, known := seen[body]; known && was != cookie.Value || strings.Contains(cookie.Value, "127") || len(cookie.Value) != 16 {
				t.Fatalf("cookie %v", cookie)
			}
			seen[body] = cookie.Value
		}
		testenv.Equal(t, len(seen), 3, "backends that have answered")
		for body, value := range seen {
			for _, at := range []*front{f, other} { // both have the secret
				again, cookie := at.asks("/", "Cookie: a=b;knot-to="+value, "cookie: c=d")
				if again != body || cookie != nil {
					t.Errorf("the client of %s comes to %s, and gets %v", body, again, cookie)
				}
			}
		}
		(*f.p.byToken.Load())[seen["1"]].sick.Store(true)
		body, cookie := f.asks("/", "Cookie: knot-to="+seen["1"])
		if body == "1" || cookie == nil || cookie.Value != seen[body] {
			t.Errorf("of a backend that is out: %s, %v", body, cookie)
		}
		stranger := c
		stranger.Sticky = &Sticky{Cookie: "knot-to"} // of another secret
		if _, cookie := serve(t, stranger, 1).asks("/", "Cookie: knot-to="+seen["1"]); cookie == nil || cookie.Value == seen["1"] {
			t.Errorf("by another secret: %v", cookie)
		}
	}
}

// TestStickyWhileNoneIsWell: a client comes back to its backend also while all are out, and get requests all the same.
func TestStickyWhileNoneIsWell(t *testing.T) {
	for _, threshold := range []float64{0, 0.5} {
		f := serve(t, Config{Backends: behinds(t, 3), PanicThreshold: threshold, Sticky: &Sticky{Cookie: "s"}}, 1)
		home, cookie := f.asks("/")
		for _, b := range f.p.all() {
			if b.downUntil.Store(math.MaxInt64); threshold > 0 {
				b.sick.Store(true)
			}
		}
		for range 4 {
			if body, other := f.asks("/", "Cookie: s="+cookie.Value); body != home || other != nil {
				t.Errorf("with a threshold of %v the client of %s comes to %s, and gets %v", threshold, home, body, other)
			}
		}
	}
}

// TestStickyOverTLS: the cookie is Secure over TLS, also before a trusted proxy, and not because a client says so. A cookie jar keeps it.
func TestStickyOverTLS(t *testing.T) {
	c := to(behinds(t, 2)...)
	c.Sticky = &Sticky{Cookie: "s"}
	ca := testenv.NewCA(t)
	secure := serve(t, c, 1, func(s *knot.Server) { s.TLS = ca.Server(t) })
	jar := testenv.Need(cookiejar.New(nil))(t)
	client := &http.Client{Jar: jar, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	first := ""
	for i := range 6 {
		resp, body := testenv.Get(t, client, "https://"+secure.addr+"/")
		if i == 0 {
			first = body
			testenv.True(t, resp.Cookies()[0].Secure, "over TLS: %v", resp.Cookies())
		} else if body != first || len(resp.Cookies()) > 0 {
			t.Errorf("then %s, %v", body, resp.Cookies())
		}
	}
	_, cookie := serve(t, c, 1).asks("/", "X-Forwarded-Proto: https")
	testenv.True(t, !cookie.Secure, "a client says that it is over TLS")
	c.Trust = testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
	_, cookie = serve(t, c, 1).asks("/", "X-Forwarded-Proto: https")
	testenv.True(t, cookie.Secure, "a trusted proxy says so")
}

// TestStickyTunnel: a response 101 has the cookie too.
func TestStickyTunnel(t *testing.T) {
	c := to(script(t, func(_ int, c net.Conn, _ string) {
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
	}))
	c.Sticky = &Sticky{Cookie: "s"}
	f := serve(t, c, 1)
	testenv.Contains(t, f.raw("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"), "\r\nSet-Cookie: s=")
}

// TestHash: what has the same key comes to the same backend; requests without one are spread.
func TestHash(t *testing.T) {
	backends := behinds(t, 3)
	for _, test := range []struct{ balance, target, line, another string }{
		{"hash header X-User", "/", "x-uSER: %d", "X-Users: %d"}, {"hash cookie sid", "/", "Cookie: a=b; sid=%d", "Cookie: asid=%d"},
		{"hash path", "/%d?q=%[2]d", "A: b", ""}, {"hash client", "/", "X-Forwarded-For: 10.0.0.%d", "X-Forwarded-For: %d"},
		{"hash client", "/", "X-Forwarded-For: 2001:db8:0:%d::%[2]d", ""},
	} {
		c := to(backends...)
		c.Balance, c.Trust = test.balance, testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
		f, twin := serve(t, c, 1), serve(t, c, 1)
		used := make(map[string]bool)
		for key := range 40 { // one of three backends has none of so many once in three million times
			ask := func(f *front, more int) string {
				target, line := test.target, test.line
				if strings.Contains(target, "%") {
					target = fmt.Sprintf(target, key, more)
				} else if line = fmt.Sprintf(line, key, more); strings.Contains(line, "%!") {
					line = fmt.Sprintf(test.line, key)
				}
				body, _ := f.asks(target, line)
				return body
			}
			first := ask(f, 1)
			used[first] = true
			testenv.Equal(t, ask(f, 2), first, "%s: key %d", test.balance, key)
			testenv.Equal(t, ask(twin, 9), first, "%s: key %d at another server", test.balance, key)
		}
		testenv.Equal(t, len(used), 3, "backends used by %s", test.balance)
		if test.another != "" && !strings.Contains(test.balance, "client") {
			used = make(map[string]bool)
			for range 3 {
				body, _ := f.asks("/", fmt.Sprintf(test.another, 1))
				used[body] = true
			}
			testenv.Equal(t, len(used), 3, "backends used without a key: %s", test.balance)
		}
	}
}

// TestCanary: a share of the requests goes to the second group, and those that ask for it; nobody else can be there.
func TestCanary(t *testing.T) {
	backends := behinds(t, 3)
	c := to(backends[0])
	c.Canary = &Canary{Backends: backends[1:], Share: 0.1, Header: "X-Canary: yes", Cookie: "canary=1"}
	f := serve(t, c, 1)
	n := 0
	for range 100 {
		if body, _ := f.asks("/", "X-Canary: no", "X-Canary-: yes", "Cookie: canary=0; xcanary=1; canary; a=canary=1"); body != "0" {
			n++
		}
	}
	testenv.AtLeast(t, n, 9, "of 100 requests")
	testenv.AtMost(t, n, 11, "of 100 requests")
	for _, line := range []string{"x-CANARY: yes", "Cookie: a=b;canary=1", "Cookie: canary=0; canary=1"} {
		used := make(map[string]bool)
		for range 4 {
			body, _ := f.asks("/", line)
			used[body] = true
		}
		testenv.True(t, used["1"] && used["2"] && len(used) == 2, "%s: %v", line, used)
	}
	// While no canary is well its requests go to the first group; those of the first group do not go to the canaries.
	for _, c.PanicThreshold = range []float64{0, 0.5} {
		f = serve(t, c, 1)
		f.p.all()[1].sick.Store(true)
		f.p.all()[2].sick.Store(true)
		body, _ := f.asks("/", "X-Canary: yes")
		testenv.Equal(t, body, "0", "while the canaries are out, with a threshold of %v", c.PanicThreshold)
	}
	c.PanicThreshold = 0
	c.Canary = &Canary{Backends: backends[1:], Header: "X-Canary"}
	f = serve(t, c, 1)
	f.p.all()[0].sick.Store(true)
	if status, _ := f.get("/"); status != 503 {
		t.Errorf("while the first group is out: %d", status)
	}
}

// TestCanaryFails: a request that a canary can't take is tried at the first group.
func TestCanaryFails(t *testing.T) {
	c := to(behinds(t, 1)...)
	c.Canary = &Canary{Backends: []string{refusing(t)}, Share: 1}
	f := serve(t, c, 1)
	for range 5 {
		body, _ := f.asks("/")
		testenv.Equal(t, body, "0", "the answer")
	}
	s := f.p.Stats()[1]
	if s.Up || s.Ejected != 1 || s.Failures["connect"] != DefaultMaxFails {
		t.Errorf("%+v", s)
	}
}

// TestCanarySticks: a client stays in its group, by cookie or key, whatever its share is; what asks for the canary gets it.
func TestCanarySticks(t *testing.T) {
	backends := behinds(t, 2)
	c := to(backends[0])
	c.Canary = &Canary{Backends: backends[1:], Share: 0.5, Header: "X-Canary"}
	c.Sticky = &Sticky{Cookie: "s"}
	f := serve(t, c, 1)
	var cookies [2]string
	for range 8 {
		body, cookie := f.asks("/")
		cookies[body[0]-'0'] = "Cookie: s=" + cookie.Value
	}
	for i, cookie := range cookies {
		for range 4 {
			body, again := f.asks("/", cookie)
			if body != fmt.Sprint(i) || again != nil {
				t.Errorf("the client of %d: %s, %v", i, body, again)
			}
		}
	}
	body, _ := f.asks("/", cookies[0], "X-Canary: x")
	testenv.Equal(t, body, "1", "by header")
	c.Sticky, c.Balance, c.Canary.Share = nil, "hash header X-User", 0.3
	f = serve(t, c, 1)
	there := 0
	for user := range 60 {
		first, _ := f.asks("/", fmt.Sprint("X-User: ", user))
		again, _ := f.asks("/", fmt.Sprint("X-User: ", user))
		testenv.Equal(t, again, first, "group of user %d", user)
		there += int(first[0] - '0')
	}
	testenv.AtLeast(t, there, 8, "of 60 users")
	testenv.AtMost(t, there, 30, "of 60 users")
}

// TestSlowStart: a backend that comes back gets a tenth of its part, and all of it in the end.
func TestSlowStart(t *testing.T) {
	var now atomic.Int64
	c := to(behinds(t, 2)...)
	c.SlowStart, c.FailTime, c.MaxFails = 100*time.Second, 10*time.Second, 1
	c.now = func() time.Time { return time.Unix(now.Load(), 0) }
	f := serve(t, c, 1)
	part := func() (n int) {
		for range 50 {
			if body, _ := f.asks("/"); body == "1" {
				n++
			}
		}
		return n
	}
	b := f.p.all()[1]
	for by, out := range map[string]func(){
		"failures": func() { b.failed(0); now.Add(10) },
		"checks": func() {
			f.p.Check = &Check{Fall: 1, Rise: 1}
			b.checked(errors.New("no"))
			b.checked(nil)
		},
	} {
		testenv.Equal(t, part(), 25, "%s: before", by)
		out()
		testenv.AtMost(t, part(), 7, "%s: at first", by) // 50 * 0.1/1.1
		now.Add(50)
		if n := part(); n < 14 || n > 20 {
			t.Errorf("%s: %d of 50 in the middle, want 17", by, n)
		}
		if w := b.currentWeight(); w < 0.49 || w > 0.51 {
			t.Errorf("%s: weight %v in the middle, want 0.5", by, w)
		}
		now.Add(51)
		testenv.Equal(t, part(), 25, "%s: at the end", by)
	}
}

// TestFailingAtOnceIsNotIdleness: a backend that fails every request at once gets no more requests than it would if it took as long
// as the others.
func TestFailingAtOnceIsNotIdleness(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"HTTP": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"gRPC": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Grpc-Status", "14") },
	} {
		for _, balance := range []string{"", "prequal"} {
			var now, failed atomic.Int64
			c := to(append(behinds(t, 2), behind(t, func(w http.ResponseWriter, r *http.Request) {
				failed.Add(1)
				fail(w, r)
			}))...)
			c.Balance, c.HTTP2 = balance, name == "gRPC"
			c.now = func() time.Time { return time.Unix(0, now.Load()) }
			f := serve(t, c, 1)
			for second := range int64(3) {
				for _, b := range f.p.all()[:2] { // it does not matter how long they take in truth
					b.latency.Store(int64(time.Hour))
				}
				now.Store(second * int64(1100*time.Millisecond))
				for range 30 {
					f.do(f.request("GET", "/", ""))
				}
				testenv.Equal(t, failed.Load(), second+1, "%s, balance %q: requests that have failed", name, balance)
			}
		}
	}
}

// TestRetriesHaveABudget: without a share left requests fail at once; the backend that fails is named.
func TestRetriesHaveABudget(t *testing.T) {
	good := says(t, okResponse)
	for share, want := range map[float64]int{0: 20, -1: 50} {
		at := time.Unix(0, 0)
		f := serve(t, Config{Backends: []string{refusing(t), good}, RetryShare: share, MaxFails: -1, Weights: []int{1000, 1}, now: func() time.Time { return at }}, 1)
		for range 77 { // of the 100 that are saved up some 15 are left: each takes a tenth more, without a request beside it
			f.p.budget.Take(f.p.clock(), 0)
		}
		answered := 0
		for range 50 { // at most one goes to the good one first
			if status, _ := f.ask(aRequest); status == "200" {
				answered++
			}
		}
		if s := f.stats(); answered < want-2 || answered > want+2 || s.OverBudget != uint64(50-answered) || share < 0 && s.Retries < 49 {
			t.Errorf("share %v: %d of 50 answered; %+v", share, answered, s)
		}
	}
}

// TestResponsesAreNotRetried: a response of a backend is the answer, whatever its status, above all one that says when to come again.
func TestResponsesAreNotRetried(t *testing.T) {
	var asked atomic.Int32
	refuse := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(503)
	}
	f := serve(t, to(behind(t, refuse), behind(t, refuse)), 1)
	resp, _ := f.do(f.request("GET", "/", ""))
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "7" || asked.Load() != 1 || f.stats().Retries != 0 {
		t.Errorf("%d %v, asked %d times", resp.StatusCode, resp.Header, asked.Load())
	}
}

// TestTimesOfConnections: ConnectTimeout is the time for a connection, and KeepTimeout for one at rest.
func TestTimesOfConnections(t *testing.T) {
	limits := make(chan time.Duration, 1)
	f := serve(t, Config{Backends: []string{"http://a:1"}, ConnectTimeout: 7 * time.Second, Dial: func(_, _ string, limit time.Duration) (net.Conn, error) {
		limits <- limit
		return nil, errors.New("none")
	}}, 1)
	f.get("/")
	limit := <-limits
	testenv.AtMost(t, limit, 7*time.Second, "for a connection")
	testenv.AtLeast(t, limit, 6*time.Second, "for a connection")
	ended := make(chan error, 1)
	backend := script(t, func(_ int, c net.Conn, _ string) {
		io.WriteString(c, okResponse)
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	f = serve(t, Config{Backends: []string{backend}, KeepTimeout: 10 * time.Millisecond}, 1)
	f.get("/")
	testenv.Must(t, <-ended)
}

// TestFieldErrors: what is wrong about the choice of backends is told by field.
func TestFieldErrors(t *testing.T) {
	for _, test := range []struct {
		field, says string
		change      func(c *Config)
	}{
		{"Weights", "there are 1; want one for each of 2", func(c *Config) { c.Weights = []int{1} }},
		{"Weights", "-1 is not from 0 to 1000", func(c *Config) { c.Weights = []int{2, -1} }},
		{"Weights", "1001 is not", func(c *Config) { c.Weights = []int{1, 1001} }},
		{"Weights", "all are 0", func(c *Config) { c.Weights = []int{0, 0} }},
		{"Balance", `"hash" is unknown; want least`, func(c *Config) { c.Balance = "hash" }},
		{"Balance", "is unknown", func(c *Config) { c.Balance = "hash header a:b" }},
		{"Bound", "0.5 is below 1", func(c *Config) { c.Balance, c.Bound = "hash path", 0.5 }},
		{"Bound", "led by a hash", func(c *Config) { c.Bound = 2 }},
		{"RetryShare", "1.5 is not", func(c *Config) { c.RetryShare = 1.5 }},
		{"Sticky.Cookie", `"a;b" is not the name`, func(c *Config) { c.Sticky = &Sticky{Cookie: "a;b"} }},
		{"Sticky.Secret", "it has 5 bytes", func(c *Config) { c.Sticky = &Sticky{Cookie: "a", Secret: "short"} }},
		{"Canary.Backends", "say which", func(c *Config) { c.Canary = &Canary{Share: 0.1} }},
		{"Canary.Backends", "is there twice", func(c *Config) { c.Canary = &Canary{Share: 0.1, Backends: []string{"http://a:1"}} }},
		{"Canary.Weights", "want one for each of 1", func(c *Config) { c.Canary = &Canary{Share: 0.1, Backends: []string{"http://c:1"}, Weights: []int{}} }},
		{"Canary.Share", "2 is not", func(c *Config) { c.Canary = &Canary{Share: 2, Backends: []string{"http://c:1"}} }},
		{"Canary.Share", "nothing goes there", func(c *Config) { c.Canary = &Canary{Backends: []string{"http://c:1"}} }},
		{"Canary.Header", `"a b: c" is neither`, func(c *Config) { c.Canary = &Canary{Header: "a b: c", Backends: []string{"http://c:1"}} }},
		{"Canary.Cookie", `"a=b;c" is neither`, func(c *Config) { c.Canary = &Canary{Cookie: "a=b;c", Backends: []string{"http://c:1"}} }},
		{"Mirror.Share", "-1 is not", func(c *Config) { c.Mirror = &Mirror{Share: -1, Backends: []string{"http://c:1"}} }},
		{"Mirror.MaxInFlight", "-1 is negative", func(c *Config) { c.Mirror = &Mirror{MaxInFlight: -1, Backends: []string{"http://c:1"}} }},
		{"Mirror", "say which", func(c *Config) { c.Mirror = &Mirror{} }},
		{"Mirror", "not for FastCGI", func(c *Config) {
			c.FastCGI, c.Backends, c.Mirror = nowhere, []string{"a:1"}, &Mirror{Backends: []string{"c:1"}}
		}},
	} {
		c := to("http://a:1", "http://b:1")
		test.change(&c)
		_, err := New(c)
		var field *FieldError
		if many, _ := err.(interface{ Unwrap() []error }); many == nil || len(many.Unwrap()) != 1 || !errors.As(err, &field) || field.Field != test.field || !strings.Contains(field.Error(), test.says) {
			t.Errorf("%v, want one of %s that says %q", err, test.field, test.says)
		}
	}
}

// TestTurnsBeginAnywhere: proxies that start at the same time do not all begin with the same backend.
func TestTurnsBeginAnywhere(t *testing.T) {
	begin := make(map[uint32]bool)
	for range 8 {
		p := testenv.Need(New(to("http://127.0.0.1:1", "http://127.0.0.1:2")))(t)
		begin[p.stable.next()] = true
		p.Close()
	}
	testenv.AtLeast(t, len(begin), 2, "beginnings of 8 proxies")
	seen := make(map[string]bool)
	for first := range uint32(2) {
		c := to(behinds(t, 2)...)
		c.first = func() uint32 { return first }
		body, _ := serve(t, c, 1).asks("/")
		seen[body] = true
	}
	testenv.Equal(t, len(seen), 2, "backends that get the first request")
}
