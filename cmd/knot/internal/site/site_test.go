package site

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// lay writes files below a new folder.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.Must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

func open(t *testing.T, root string, rules ...HeaderRule) *knot.Files {
	t.Helper()
	f := testenv.Need(knot.OpenFiles(root, knot.FilesConfig{Header: FileHeaders(rules)}))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

func pattern(t *testing.T, text string) Pattern {
	t.Helper()
	p := testenv.Need(NewPattern(text))(t)
	return p
}

// serve runs a server for h, and returns its address.
func serve(t *testing.T, h *Hosts, change ...func(*knot.Server)) string {
	t.Helper()
	var sw Switch
	sw.Set(h)
	s := &knot.Server{Handler: sw.Handle, ErrorPage: sw.ErrorPage, ErrorLog: testenv.Quiet()}
	for _, fn := range change {
		fn(s)
	}
	return strings.TrimPrefix(knottest.Serve(t, s), "http://")
}

// only makes hosts of one site.
func only(s *Site) *Hosts { return &Hosts{fallback: s} }

type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; extra is "Name: value" lines. Redirects are not followed.
func ask(t *testing.T, addr, method, target string, extra ...string) answer {
	t.Helper()
	req := testenv.Need(http.NewRequest(method, "http://"+addr+target, nil))(t)
	for _, line := range extra {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
		} else {
			req.Header.Add(name, value)
		}
	}
	resp := testenv.Need(http.DefaultTransport.RoundTrip(req))(t)
	defer resp.Body.Close()
	body := testenv.Need(io.ReadAll(resp.Body))(t)
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// expect asks for target, and wants an answer with that status and part of a body.
func expect(t *testing.T, addr, method, target string, status int, part string, extra ...string) answer {
	t.Helper()
	a := ask(t, addr, method, target, extra...)
	testenv.Equal(t, a.status, status, "%s %s %q: status", method, target, extra)
	testenv.Contains(t, a.body, part, "%s %s %q: body", method, target, extra)
	return a
}

// usersOf makes users whose password is "p".
func usersOf(t *testing.T, names ...string) *Users {
	t.Helper()
	var lines strings.Builder
	for _, name := range names {
		fmt.Fprintf(&lines, "%s:%s\n", name, hashOf(t, "p", bcrypt.MinCost))
	}
	return testenv.Need(ReadUsers(strings.NewReader(lines.String())))(t)
}

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		pattern, yes, no string
	}{
		{"/a", "/a", "/a/ /ab /x/a"},
		{"/a/*", "/a/b /a/", "/a /a/b/c"},
		{"/a/**", "/a/b /a/ /a/b/c", "/a /b/a/c"},
		{"/**", "/ /a /a/b", ""},
		{"*.js", "/a.js /x/y/a.js /.js", "/a.js/b /ajs /a.jsx"},
		{"/*.js", "/a.js", "/x/a.js"},
		{"/**.js", "/a.js /x/a.js", "/a.css"},
		{"/a?c", "/abc", "/ac /a/c"},
		{"/a.b+(c)[d]", "/a.b+(c)[d]", "/axb+(c)[d]"},
		{"(?i)*.PHP", "/a.php /A.PhP", "/a.php/b"},
		{"(?i)/intern/**", "/Intern/a", "/x/intern/a"},
		{"robots.txt", "/robots.txt /x/robots.txt", "/xrobots.txt"},
	} {
		p := pattern(t, test.pattern)
		for want, paths := range map[bool]string{true: test.yes, false: test.no} {
			for _, path := range strings.Fields(paths) {
				testenv.Equal(t, p.Match(path), want, "%s matches %s", p, path)
				testenv.Equal(t, p.MatchBytes([]byte(path)), want, "%s matches the bytes %s", p, path)
			}
		}
	}
	if !pattern(t, "/a*c**").Match("/a\nc\n/") {
		t.Error("a line break ends a match")
	}
	for _, bad := range []string{"", "a/b", "(?i)", "(?i)a/b"} {
		testenv.Fails(t, testenv.Err(NewPattern(bad)), "%q is taken", bad)
	}
	if (Pattern{}).Match("/") {
		t.Error("the zero pattern matches")
	}
}

func TestHosts(t *testing.T) {
	var h Hosts
	sites := make(map[string]*Site)
	for _, names := range []string{"example.org www.example.org", "*.example.org", "*.deep.example.org", "[::1]", "*"} {
		s := new(Site)
		sites[strings.Fields(names)[0]] = s
		testenv.Must(t, h.Add(s, strings.Fields(names)...))
	}
	for host, want := range map[string]string{
		"example.org": "example.org", "EXAMPLE.org:8080": "example.org", "example.org.": "example.org", "example.org.:80": "example.org",
		"www.example.org": "example.org", "a.example.org": "*.example.org", "a.b.example.org": "*.example.org",
		"deep.example.org": "*.example.org", "x.deep.example.org": "*.deep.example.org", "[::1]:8080": "[::1]", "[::1]": "[::1]",
		"": "*", "org": "*", "xexample.org": "*", ".example.org": "*", "127.0.0.1:80": "*", strings.Repeat("a", 400) + ".example.org": "*",
	} {
		testenv.Equal(t, h.Site([]byte(host)), sites[want], "%s does not get %s", host, want)
	}
	for _, bad := range []string{"example.org", "Example.ORG.", "*.example.org", "*", "a.*.org", "a b", "", "*.", "a/b", "h:80", "a@b", "münchen.de"} {
		testenv.Fails(t, h.Add(new(Site), bad), "%q is taken", bad)
	}
}

// TestVirtualHosts: each serves its own files and pages; a host that nobody has gets 421.
func TestVirtualHosts(t *testing.T) {
	one, two := lay(t, map[string]string{"index.html": "one", "e.html": "one's error"}), lay(t, map[string]string{"index.html": "two"})
	pages := testenv.Need(OpenErrorPages(one, map[string]string{"4xx": "/e.html"}, nil))(t)
	var h Hosts
	testenv.Must(t, h.Add(&Site{Files: open(t, one), Errors: pages}, "one.example"))
	testenv.Must(t, h.Add(&Site{Files: open(t, two)}, "two.example"))
	addr := serve(t, &h)
	for _, test := range []struct {
		host, target, body string
		status             int
	}{
		{"one.example", "/", "one", 200}, {"two.example", "/", "two", 200}, {"three.example", "/", "421 Misdirected", 421},
		{"one.example", "/none", "one's error", 404}, {"two.example", "/none", "404 Not Found", 404},
	} {
		expect(t, addr, "GET", test.target, test.status, test.body, "Host: "+test.host)
	}
}

func TestHeaderRules(t *testing.T) {
	rules := []HeaderRule{
		{Match: pattern(t, "/**"), Set: []knot.Header{{Name: "X-Frame-Options", Value: "DENY"}, {Name: "X-B", Value: "1"}}, Always: true},
		{Match: pattern(t, "/assets/**"), Set: []knot.Header{{Name: "x-b", Value: "2"}}, Always: true},
		{Match: pattern(t, "/**"), Set: []knot.Header{{Name: "Cache-Control", Value: "no-cache"}}},
		{Match: pattern(t, "*.js"), Set: []knot.Header{{Name: "cache-control", Value: "max-age=31536000, immutable"}}},
		{Match: pattern(t, "/both/**"), Set: []knot.Header{{Name: "Cache-Control", Value: "private"}}, Always: true},
		{Match: pattern(t, "/both/*.txt"), Set: []knot.Header{{Name: "cache-control", Value: "max-age=60"}}},
		{Match: pattern(t, "/both/b.txt"), Set: []knot.Header{{Name: "Cache-Control", Value: "no-store"}}, Always: true},
	}
	root := lay(t, map[string]string{"index.html": "index", "assets/a.js": "js", "list/x": "x", "both/a.txt": "a", "both/b.txt": "b"})
	addr := serve(t, only(&Site{Files: open(t, root, rules...), Headers: rules, Listing: true}))
	for _, test := range []struct {
		target, cache, b string
		status           int
	}{
		{"/", "no-cache", "1", 200},
		{"/assets/a.js", "max-age=31536000, immutable", "2", 200},
		{"/assets/none.js", "", "2", 404},
		{"/none", "", "1", 404},
		{"/list/", "no-cache", "1", 200},
		{"/list", "", "1", 301},
		// Rules of both kinds that set the same line.
		{"/both/a.txt", "max-age=60", "1", 200},
		{"/both/b.txt", "no-store", "1", 200},
		{"/both/none", "private", "1", 404},
		{"/both/", "private", "1", 200},
	} {
		a := ask(t, addr, "GET", test.target)
		if a.status != test.status || a.header.Get("X-Frame-Options") != "DENY" || strings.Join(a.header.Values("X-B"), "|") != test.b || strings.Join(a.header.Values("Cache-Control"), "|") != test.cache {
			t.Errorf("%s: %d %v", test.target, a.status, a.header)
		}
	}
}

// TestAlways: the lines of a site replace those of a backend, and are on the pages of errors that take the place of its
// response; the next response on the connection has its own.
func TestAlways(t *testing.T) {
	backend := func(x *knot.Ctx) error {
		passed := ownctx.Of(x).(interface{ CopyHeader(name, value []byte) })
		passed.CopyHeader([]byte("x-frame-options"), []byte("ALLOWALL"))
		passed.CopyHeader([]byte("Server"), []byte("app"))
		passed.CopyHeader([]byte("X-Own"), []byte("1"))
		switch x.Path() {
		case "/panic":
			panic("the handler is wrong")
		case "/502":
			return knot.Status(502)
		case "/500":
			return fmt.Errorf("it fails")
		case "/404":
			return knot.Status(404)
		}
		return x.SendString(200, "", "fine")
	}
	always := HeaderRule{Match: pattern(t, "/**"), Always: true, Set: []knot.Header{{Name: "X-Frame-Options", Value: "DENY"}, {Name: "Server", Value: "site"}}}
	special := HeaderRule{Match: pattern(t, "/502"), Always: true, Set: []knot.Header{{Name: "X-Special", Value: "1"}}}
	addr := serve(t, only(&Site{Headers: []HeaderRule{always, special}, Routes: []Route{{Match: pattern(t, "/**"), Handler: backend}}}),
		func(s *knot.Server) { s.Name = "knot" })
	for target, status := range map[string]int{"/": 200, "/404": 404, "/500": 500, "/502": 502, "/panic": 500} {
		for range 2 {
			a := ask(t, addr, "GET", target)
			got := fmt.Sprint(a.status, a.header["X-Frame-Options"], a.header["Server"], len(a.header["X-Own"]), len(a.header["X-Special"]))
			own, specials := map[bool]int{true: 1}[status < 500], map[bool]int{true: 1}[status == 502]
			testenv.Equal(t, got, fmt.Sprint(status, []string{"DENY"}, []string{"site"}, own, specials), target)
		}
	}
}

// TestPrepared: the response to a request gets the lines of the site once, by the path that the client asks for, also if it is
// refused before a handler sees it.
func TestPrepared(t *testing.T) {
	rule := func(match, name string) HeaderRule {
		return HeaderRule{Match: pattern(t, match), Always: true, Set: []knot.Header{{Name: name, Value: "1"}}}
	}
	var paths testenv.Buffer
	s := &Site{
		Headers: []HeaderRule{rule("/**", "X-All"), rule("/new", "X-New")},
		Prepare: []func(*knot.Ctx){func(x *knot.Ctx) { fmt.Fprintln(&paths, x.Path()) }},
		Rewrite: func(*knot.Ctx) (string, error) { return "/new", nil },
		Routes:  []Route{{Match: pattern(t, "/new"), Handler: func(*knot.Ctx) error { return knot.Status(502) }}},
	}
	addr := serve(t, only(s), func(s *knot.Server) {
		s.TimeoutHeader, s.Trust = "X-Timeout", testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
	})
	for _, c := range []struct {
		method, target, line string
		status               int
	}{
		{"GET", "/late", "X-Timeout: 0", 503},
		{"GET", "/fails", "X-None: 1", 502},
		{"CONNECT", "/tunnel", "X-None: 1", 501},
	} {
		a := ask(t, addr, c.method, c.target, c.line)
		testenv.Equal(t, fmt.Sprint(a.status, a.header["X-All"], a.header["X-New"]), fmt.Sprint(c.status, []string{"1"}, []string(nil)), c.target)
	}
	testenv.Equal(t, paths.String(), "/late\n/fails\n/tunnel\n", "paths of requests that were prepared")
}

// TestOptionsOfTheServer: OPTIONS * is answered by a site that has nothing but a proxy, too.
func TestOptionsOfTheServer(t *testing.T) {
	proxy := Route{Match: pattern(t, "/**"), Handler: func(x *knot.Ctx) error { return knot.Status(502) }}
	for _, s := range []*Site{{Files: open(t, lay(t, nil))}, {Routes: []Route{proxy}}} {
		resp := testenv.Need(http.DefaultTransport.RoundTrip(&http.Request{Method: "OPTIONS", Header: http.Header{}, URL: &url.URL{Scheme: "http", Host: serve(t, only(s)), Opaque: "*"}}))(t)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, 204, "status")
	}
}

func TestErrorPages(t *testing.T) {
	root := lay(t, map[string]string{"404.html": "not here", "4xx.txt": "client", "big": strings.Repeat("x", maxErrorPage+1), "dir/x": ""})
	pages, err := OpenErrorPages(root, map[string]string{"404": "/404.html", "4xx": "4xx.txt", "default": "404.html"}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	testenv.Must(t, err)
	half := Route{Match: pattern(t, "/half"), Handler: func(x *knot.Ctx) error {
		x.WriteString("half of a page")
		return knot.Status(404)
	}}
	addr := serve(t, only(&Site{Files: open(t, root), Errors: pages, Routes: []Route{half}}))
	for _, test := range []struct {
		method, target, ctype, body string
		status                      int
	}{
		{"GET", "/none", "text/html; charset=utf-8", "not here", 404},
		{"HEAD", "/none", "text/html; charset=utf-8", "", 404},
		{"GET", "/half", "text/html; charset=utf-8", "not here", 404},
		{"POST", "/none", "text/plain; charset=utf-8", "client", 405},
		{"CONNECT", "/none", "text/html; charset=utf-8", "not here", 501},
	} {
		if a := ask(t, addr, test.method, test.target); a.status != test.status || a.body != test.body || a.header.Get("Content-Type") != test.ctype {
			t.Errorf("%s: %+v", test.method, a)
		}
	}
	// A change shows once the page is read again, for which nobody waits.
	page := pages.pages["404"]
	testenv.Must(t, os.WriteFile(filepath.Join(root, "404.html"), []byte("other"), 0o644))
	if err := page.load(root); err != nil || ask(t, addr, "GET", "/none").body != "other" {
		t.Error("the page is as it was", err)
	}
	testenv.Must(t, os.Remove(filepath.Join(root, "404.html")))
	if pages.refresh(page); !page.failing.Load() || ask(t, addr, "GET", "/none").body != "other" {
		t.Error("a page that is gone is not sent any more")
	}
	ahead := time.Now().Add(time.Hour).UnixNano() // when the clock is set back
	page.read.Store(ahead)
	if pages.page(404); page.read.Load() == ahead {
		t.Error("the page is not read again for an hour")
	}
	for _, bad := range []map[string]string{{"404": "/none"}, {"200": "/4xx.txt"}, {"4x": "/4xx.txt"}, {"0404": "/4xx.txt"}, {"404": "/big"}, {"404": "/dir"}, {"404": "/../x"}} {
		testenv.Fails(t, testenv.Err(OpenErrorPages(root, bad, nil)), "%v is taken", bad)
	}
}

// TestErrorPageOnAFolderThatHangs: there is one goroutine, and so one thread, that waits for it.
func TestErrorPageOnAFolderThatHangs(t *testing.T) {
	root := lay(t, map[string]string{"404.html": "not here"})
	pages := testenv.Need(OpenErrorPages(root, map[string]string{"404": "/404.html"}, slog.New(slog.DiscardHandler)))(t)
	page := pages.pages["404"]
	page.reading.Store(true) // the disk takes its time
	page.read.Store(0)       // long ago
	if _, text := pages.page(404); string(text) != "not here" {
		t.Errorf("%q", text)
	}
	testenv.Equal(t, page.read.Load(), 0, "when it was read: it is being read once more")
}

// TestFilesThatAreFIFOs are not waited for: an error page that becomes one stays as it was, and users can't be read from one.
func TestFilesThatAreFIFOs(t *testing.T) {
	root := lay(t, map[string]string{"404.html": "not here"})
	pages := testenv.Need(OpenErrorPages(root, map[string]string{"404": "/404.html"}, slog.New(slog.DiscardHandler)))(t)
	page, path := pages.pages["404"], filepath.Join(root, "404.html")
	testenv.Must(t, os.Remove(path))
	testenv.Must(t, unix.Mkfifo(path, 0o600))
	pages.refresh(page)
	testenv.Equal(t, page.failing.Load(), true, "the page can't be read")
	_, text := pages.page(404)
	testenv.Equal(t, string(text), "not here", "page")
	testenv.ErrorSays(t, testenv.Err(OpenErrorPages(root, map[string]string{"404": "/404.html"}, nil)), "404.html is not a regular file")
	testenv.ErrorSays(t, testenv.Err(OpenUsers(path)), "404.html is not a regular file")
}

func TestFallback(t *testing.T) {
	root := lay(t, map[string]string{"index.html": "app", "a.js": "js"})
	addr := serve(t, only(&Site{Files: open(t, root), Fallback: "/index.html"}))
	for _, test := range []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/", "app", 200}, {"GET", "/users/7", "app", 200}, {"GET", "/users/", "app", 200}, {"GET", "/users/john.doe", "app", 200},
		{"GET", "/about.html", "app", 200}, {"GET", "/a.js", "js", 200}, {"GET", "/b.js", "404", 404}, {"GET", "/x/b.PNG", "404", 404},
		{"POST", "/users/7", "405", 405}, {"GET", "/.git/config", "app", 200},
	} {
		expect(t, addr, test.method, test.target, test.status, test.body)
	}
	tag := ask(t, addr, "GET", "/users/7").header.Get("ETag")
	expect(t, addr, "GET", "/other/8", 304, "", "If-None-Match: "+tag)
}

func TestListing(t *testing.T) {
	root := lay(t, map[string]string{
		"d/b.txt": "12345", "d/a.txt": "123", "d/.hidden": "", "d/sub/x": "", "d/<i>&\"'.html": "", "d/javascript:alert(1)": "", "d/a b%41?#é": "", "i/index.html": "index",
	})
	addr := serve(t, only(&Site{Files: open(t, root), Listing: true, ListingMax: 7}))
	a := ask(t, addr, "GET", "/d/")
	if a.status != 200 || a.header.Get("Content-Type") != "text/html; charset=utf-8" || strings.Contains(a.body, "hidden") || strings.Contains(a.body, "<i>") {
		t.Fatalf("%d %v\n%s", a.status, a.header, a.body)
	}
	for _, want := range []string{`<a href="../">`, `<a href="./sub/">sub/</a>`, `<a href="./javascript:alert%281%29">`, `<a href="./%3Ci%3E&amp;%22%27.html">&lt;i&gt;&amp;&#34;&#39;.html</a>`, `<a href="./a%20b%2541%3F%23%C3%A9">`} {
		testenv.Contains(t, a.body, want)
	}
	expect(t, addr, "GET", "/d/a%20b%2541%3F%23%C3%A9", 200, "") // a link of the listing
	names := func(target string, extra ...string) (all []string) {
		t.Helper()
		a := ask(t, addr, "GET", target, extra...)
		var got []struct {
			Name, Type string
			Size       *int64
			Modified   time.Time
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.header.Get("Content-Type") != "application/json" {
			t.Fatalf("%v: %s", err, a.body)
		}
		for _, one := range got {
			if one.Modified.IsZero() || (one.Type == "file") != (one.Size != nil) {
				t.Errorf("%+v", one)
			}
			all = append(all, one.Name)
		}
		return all
	}
	for target, want := range map[string]string{
		"/d/?format=json":                      "[sub <i>&\"'.html a b%41?#é a.txt b.txt javascript:alert(1)]",
		"/d/?format=json&sort=size":            "[sub <i>&\"'.html a b%41?#é javascript:alert(1) a.txt b.txt]",
		"/d/?format=json&sort=size&order=desc": "[sub b.txt a.txt javascript:alert(1) a b%41?#é <i>&\"'.html]",
	} {
		testenv.Equal(t, fmt.Sprint(names(target)), want, target)
	}
	testenv.Equal(t, len(names("/d/", "Accept: application/json")), 6, "names")
	testenv.Equal(t, ask(t, addr, "GET", "/i/").body, "index")
	for target, want := range map[string]int{"/none/": 404, "/.git/": 404, "/d": 301} {
		testenv.Equal(t, ask(t, addr, "GET", target).status, want, target)
	}
	if a := ask(t, addr, "HEAD", "/d/"); a.status != 200 || a.body != "" {
		t.Errorf("%+v", a)
	}
	for i := range 4 {
		os.WriteFile(filepath.Join(root, "d", fmt.Sprint("more", i)), nil, 0o644)
	}
	testenv.Contains(t, ask(t, addr, "GET", "/d/").body, "There are more than these 7.")
	expect(t, serve(t, only(&Site{Files: open(t, root)})), "GET", "/d/", 404, "")
}

// TestSwitch: the old sites are closed when their last request has ended, and not before.
func TestSwitch(t *testing.T) {
	var s Switch
	closed := make([]int, 3)
	hosts := make([]*Hosts, 3)
	for i := range hosts {
		hosts[i] = new(Hosts)
		hosts[i].OnRetire(func() { closed[i]++ })
	}
	expect := func(what string, want ...int) {
		t.Helper()
		if fmt.Sprint(closed) != fmt.Sprint(want) {
			t.Errorf("%s: closed %v, want %v", what, closed, want)
		}
	}
	s.Set(hosts[0])
	a, b := s.enter(), s.enter()
	s.Set(hosts[1])
	expect("two requests are served", 0, 0, 0)
	a.leave()
	expect("one request is served", 0, 0, 0)
	s.Set(hosts[2])
	expect("nobody was served by the second", 0, 1, 0)
	b.leave()
	expect("nobody is served by the first", 1, 1, 0)
	s.Set(hosts[2])
	expect("set again", 1, 1, 0)
	testenv.Equal(t, s.enter(), hosts[2], "not the last")
}
