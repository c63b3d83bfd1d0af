package web

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
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
	testenv.Equal(t, answerTo(p, r).Code, 200, "following a link to the page: status")
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
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s has %q", e.Name(), found)
		}
	}
}
