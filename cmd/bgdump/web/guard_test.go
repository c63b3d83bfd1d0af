package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// request makes one with a method, a Host and a path.
func request(method, host, path string) *http.Request {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	return r
}

func answerTo(p *Page, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestOnLoopbackOnlyItsNamesAreAnswered(t *testing.T) {
	p := New(sample.Shop(), Options{Loopback: true})
	for host, want := range map[string]int{
		"localhost:8080": 200, "localhost": 200, "LocalHost:1": 200, "127.0.0.1:8080": 200, "127.9.8.7": 200, "[::1]:8080": 200, "[::1]": 200,
		"evil.example:8080": 403, "evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:8080": 403, "192.168.1.4:8080": 403, "": 403, "[fe80::1]:80": 403,
	} {
		testenv.Equal(t, answerTo(p, request("GET", host, "/")).Code, want, "Host %q: status", host)
		testenv.Equal(t, answerTo(p, request("GET", host, "/api/state")).Code, want, "Host %q: status N of the state", host)
	}
	open := New(sample.Shop(), Options{})
	if got := answerTo(open, request("GET", "metrics.internal:8080", "/")).Code; got != 200 {
		t.Errorf("status %d for another name where not only loopback is listened on; want 200", got)
	}
}

func TestOnlyReadingIsAnswered(t *testing.T) {
	p := New(sample.Shop(), Options{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "NONSENSE"} {
		w := answerTo(p, request(method, "localhost", "/api/state"))
		if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d, Allow %q; want 405 and GET, HEAD", method, w.Code, w.Header().Get("Allow"))
		}
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, request("HEAD", "localhost", "/api/state"))
	if w.Code != 200 || w.Body.Len() != 0 {
		t.Errorf("HEAD: status %d and %d bytes; want 200 and none", w.Code, w.Body.Len())
	}
}

func TestOtherSitesMayNotAskForFigures(t *testing.T) {
	p := New(sample.Shop(), Options{})
	for site, want := range map[string]int{"": 200, "same-origin": 200, "none": 200, "cross-site": 403, "same-site": 403} {
		r := request("GET", "localhost", "/api/state")
		r.Header.Set("Sec-Fetch-Site", site)
		testenv.Equal(t, answerTo(p, r).Code, want, "Sec-Fetch-Site %q: status", site)
	}
	r := request("GET", "localhost", "/")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	for dest, want := range map[string]int{"document": 200, "image": 403, "iframe": 403} {
		r.Header.Set("Sec-Fetch-Dest", dest)
		testenv.Equal(t, answerTo(p, r).Code, want, "the page as %s of another site: status", dest)
	}
}

func TestEveryAnswerCarriesThePolicy(t *testing.T) {
	p := New(sample.Shop(), Options{Loopback: true})
	for _, r := range []*http.Request{request("GET", "localhost", "/"), request("GET", "localhost", "/api/state"), request("GET", "localhost", "/none"), request("GET", "evil", "/"), request("POST", "localhost", "/")} {
		h := answerTo(p, r).Header()
		if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s %s: policy %q; want default-src 'self' without exceptions", r.Method, r.URL, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin"} {
			testenv.Equal(t, h.Get(name), want, "%s %s: %s", r.Method, r.URL, name)
		}
	}
}

func TestStaticFiles(t *testing.T) {
	p := New(sample.Shop(), Options{})
	for path, kind := range map[string]string{"/": "text/html", "/index.html": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml"} {
		w := answerTo(p, request("GET", "localhost", path))
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, type %q, %d bytes; want 200 and %s", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len(), kind)
		}
		again := request("GET", "localhost", path)
		again.Header.Set("If-None-Match", w.Header().Get("ETag"))
		if got := answerTo(p, again); got.Code != 304 || got.Body.Len() != 0 {
			t.Errorf("%s again: status %d, %d bytes; want 304 and none", path, got.Code, got.Body.Len())
		}
	}
	for _, path := range []string{"/static/app.js", "/../page.go", "/..%2fpage.go", "/api/", "/api/none", "/favicon.ico"} {
		if got := answerTo(p, request("GET", "localhost", path)).Code; got != 404 && got != 307 {
			t.Errorf("%s: status %d; want 404", path, got)
		}
	}
}

// The policy of the page forbids these, and a parser of HTML is how names would become
// more than names.
func TestThePageParsesNoHTMLAndLoadsNothingFromElsewhere(t *testing.T) {
	entries := testenv.Need(embedded.ReadDir("static"))(t)
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|style="|\son[a-z]+="|https?://|@import`)
	for _, e := range entries {
		content := testenv.Need(embedded.ReadFile("static/" + e.Name()))(t)
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "")
		testenv.Equal(t, forbidden.FindString(text), "", e.Name())
	}
}

// snapshotOf fails the test if the program has none.
func snapshotOf(t *testing.T, p *sample.Program) *bgraph.Snapshot {
	t.Helper()
	s := testenv.Need(p.Snapshot(t.Context()))(t)
	return s
}

// fill adds a snapshot for each of n seconds.
func fill(t *testing.T, h *history, p *sample.Program, n int) {
	t.Helper()
	for range n {
		p.Advance(time.Second)
		s := snapshotOf(t, p)
		if !h.add(s, s.Taken) {
			t.Fatal("a new snapshot was taken for an old one")
		}
	}
}

// chargedTwice adds up anew what the moments hold.
func chargedTwice(moments []*moment) int {
	total := 0
	var prev *bgraph.Snapshot
	for _, m := range moments {
		total += charge(prev, m.snap)
		prev = m.snap
	}
	return total
}

func TestHistoryKeepsFirstAndLastAndThinsOutWhatIsOld(t *testing.T) {
	h := &history{maxMoments: 50, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 700)
	moments, era := h.all()
	if len(moments) != 50 || era != 1 {
		t.Fatalf("%d moments of era %d; want 50 of era 1", len(moments), era)
	}
	if moments[0].id != 1 || moments[49].id != 700 {
		t.Errorf("from %d to %d; want the first and the last, 1 to 700", moments[0].id, moments[49].id)
	}
	recent, old := moments[49].id-moments[44].id, moments[6].id-moments[1].id
	if recent > 10 || old < 4*recent {
		t.Errorf("five moments cover %d s at the end and %d s at the beginning; want few, and many", recent, old)
	}
	for i := 2; i < len(moments); i++ {
		if moments[i].id <= moments[i-1].id {
			t.Fatalf("moment %d comes after %d", moments[i].id, moments[i-1].id)
		}
	}
}

func TestHistoryStaysWithinItsBytes(t *testing.T) {
	const most = 3 << 20
	h := &history{maxMoments: 600, maxBytes: most}
	p := sample.Wide(200)
	fill(t, h, p, 60)
	moments, _ := h.all()
	testenv.AtMost(t, h.bytes, most, "bytes")
	if len(moments) < 5 || len(moments) == 60 {
		t.Errorf("%d moments; want some of 60", len(moments))
	}
	testenv.Equal(t, chargedTwice(moments), h.bytes, "counted %d bytes while moments came and went, N afterwards", h.bytes)
}

func TestHistoryHoldsTwoMomentsHoweverLarge(t *testing.T) {
	h := &history{maxMoments: 1, maxBytes: 1}
	fill(t, h, sample.Shop(), 5)
	if moments, _ := h.all(); len(moments) != 2 || moments[0].id != 1 || moments[1].id != 5 {
		t.Errorf("%d moments; want the first and the last", len(moments))
	}
}

func TestMomentsShareWhatIsEqual(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 2)
	moments, _ := h.all()
	a, b := moments[0].snap, moments[1].snap
	for i := range b.Nodes {
		n := &b.Nodes[i]
		if was := a.Node(n.Key); len(n.Stack) > 0 && &was.Stack[0] != &n.Stack[0] {
			t.Fatalf("the stack of %s is there twice", n.Name())
		}
	}
	if moments[1].bytes >= moments[0].bytes {
		t.Errorf("the second moment counts for %d bytes, the first for %d; want less, as it shares", moments[1].bytes, moments[0].bytes)
	}
	fresh := snapshotOf(t, p)
	if fmt.Sprint(fresh.Nodes) != fmt.Sprint(b.Nodes) || fmt.Sprint(fresh.Edges) != fmt.Sprint(b.Edges) {
		t.Error("sharing has changed what a moment says")
	}
}

func TestHistoryBeginsAnewWithTheProgram(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 3)
	p.Restart()
	fill(t, h, p, 2)
	moments, era := h.all()
	if len(moments) != 2 || era != 2 || moments[0].id != 4 {
		t.Errorf("%d moments of era %d from id %d; want 2 of era 2 from 4", len(moments), era, moments[0].id)
	}
	testenv.Equal(t, chargedTwice(moments), h.bytes, "%d bytes counted; there are", h.bytes)
}

func TestHistoryPassesOverARepeatedSnapshot(t *testing.T) {
	h := &history{maxMoments: 10, maxBytes: 1 << 30}
	p := sample.Shop()
	fill(t, h, p, 1)
	if h.add(snapshotOf(t, p), time.Now()) {
		t.Error("a snapshot that was taken when the last one was is new")
	}
	if moments, _ := h.all(); len(moments) != 1 {
		t.Errorf("%d moments; want 1", len(moments))
	}
}
