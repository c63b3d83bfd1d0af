package headers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// backend answers with the header that it was asked with, and headers of its own.
func backend(t *testing.T, http2 bool) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "Backend/1")
		w.Header().Set("X-Powered-By", "magic")
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Vary", "Cookie")
		if r.URL.Path == "/api/csp" {
			w.Header().Set("Content-Security-Policy", "sandbox")
		}
		if r.URL.Path == "/api/bad" {
			w.WriteHeader(404)
		}
		json.NewEncoder(w).Encode(r.Header)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(!http2)
	s.Config.Protocols.SetUnencryptedHTTP2(http2)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// start serves a site with files and a backend, and returns its URL.
func start(t *testing.T, rs *Rules, cors CrossOrigin, config proxy.Config, change ...func(*knot.Server)) string {
	t.Helper()
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("text"), 0o644))
	files := testenv.Need(knot.OpenFiles(root, knot.FilesConfig{Header: site.FileHeaders(rs.Prepared)}))(t)
	t.Cleanup(func() { files.Close() })
	config.Header, config.Log = rs.Backend(), testenv.Quiet()
	p := testenv.Need(proxy.New(config))(t)
	t.Cleanup(p.Close)
	s := &site.Site{Files: files, Headers: rs.Prepared, Prepare: []func(*knot.Ctx){rs.Prepare, cors.Prepare}, Steps: []site.Step{cors.Handle}}
	s.Routes = []site.Route{
		{Match: testenv.Need(site.NewPattern("/api/**"))(t), Handler: p.Handle},
		{Match: testenv.Need(site.NewPattern("/panic"))(t), Handler: func(*knot.Ctx) error { panic("!") }},
	}
	var hosts site.Hosts
	testenv.Must(t, hosts.Add(s, "*"))
	server := &knot.Server{Handler: hosts.Handle, ErrorPage: hosts.ErrorPage, ErrorLog: testenv.Quiet(), H2C: true, MaxBody: 10}
	for _, fn := range change {
		fn(server)
	}
	return knottest.Serve(t, server)
}

func ask(t *testing.T, method, url string, lines ...string) *http.Response {
	t.Helper()
	r := testenv.Need(http.NewRequest(method, url, nil))(t)
	for i := 0; i < len(lines); i += 2 {
		r.Header[lines[i]] = append(r.Header[lines[i]], lines[i+1])
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp := testenv.Need(tr.RoundTrip(r))(t)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func needRules(t *testing.T, tables ...Config) *Rules {
	t.Helper()
	rs, wrong := New(tables)
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	return rs
}

type table = map[string]string

// TestResponses: lines of responses, whoever has made them.
func TestResponses(t *testing.T) {
	rs := needRules(t,
		Config{Match: "*.txt", Set: table{"Cache-Control": "max-age=60"}},
		Config{Match: "/**", Set: table{"X-Old": "1"}, Always: true},
		Config{Match: "/**", Remove: []string{"server", "x-powered-by"}, Add: table{"X-All": "a"}},
		Config{Match: "/**", Statuses: []string{"4xx", "500"}, Set: table{"Cache-Control": "no-store"}},
		Config{Match: "/**", Statuses: []string{"200"}, Methods: []string{"HEAD"}, Set: table{"X-Head": "yes"}},
		Config{Match: "/**", Replace: table{"Cache-Control": "private", "X-None": "no"}, Default: table{"X-Old": "2", "X-New": "n"}, Methods: []string{"DELETE"}},
		Config{Match: "/**", Set: table{"X-Old": "3"}, Always: true},
	)
	testenv.Must(t, rs.AddHSTS("max-age=63072000; includeSubDomains"))
	testenv.Must(t, rs.AddCSP("default-src 'self'; "))
	url := start(t, rs, nil, proxy.Config{Backends: []string{backend(t, false)}, Trust: knot.Trust{}}, func(s *knot.Server) {
		s.Name = "knot"
		s.Trust = testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
	})
	const always = "X-All: a|X-Old: 3|"
	for _, c := range []struct {
		method, path string
		status       int
		want         string // lines of those that are looked at
		lines        []string
	}{
		{"GET", "/a.txt", 200, "Cache-Control: max-age=60|" + always, nil},
		{"HEAD", "/a.txt", 200, "Cache-Control: max-age=60|" + always + "X-Head: yes|", nil},
		{"GET", "/none", 404, "Cache-Control: no-store|" + always, nil},
		{"DELETE", "/none", 405, "Cache-Control: private|" + always + "X-New: n|", nil},
		{"GET", "/panic", 500, "Cache-Control: no-store|" + always, nil},
		{"GET", "/%zz", 400, "", nil}, // it names no path
		{"GET", "/api/", 200, always + "Strict-Transport-Security: max-age=1|", nil},
		{"GET", "/api/bad", 404, "Cache-Control: no-store|" + always + "Strict-Transport-Security: max-age=1|", nil},
		{"GET", "/api/", 200, always + "Strict-Transport-Security: max-age=63072000; includeSubDomains|", []string{"X-Forwarded-Proto", "https"}},
		{"GET", "/none", 404, "Cache-Control: no-store|" + always + "Strict-Transport-Security: max-age=63072000; includeSubDomains|", []string{"X-Forwarded-Proto", "https"}},
		{"POST", "/a.txt", 413, "Cache-Control: no-store|" + always, []string{"Content-Length", "11"}},
	} {
		var resp *http.Response
		if c.path == "/%zz" || c.status == 413 {
			nc := testenv.Dial(t, strings.TrimPrefix(url, "http://"))
			fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", c.method, c.path, map[int]int{413: 11}[c.status])
			resp = testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
		} else {
			resp = ask(t, c.method, url+c.path, c.lines...)
		}
		what := c.method + " " + c.path
		testenv.Equal(t, resp.StatusCode, c.status, what)
		got := ""
		for _, name := range []string{"Server", "X-Powered-By", "Cache-Control", "X-All", "X-Old", "X-Head", "X-New", "X-None", "Strict-Transport-Security"} {
			for _, v := range resp.Header[name] {
				got += name + ": " + v + "|"
			}
		}
		if c.path != "/%zz" {
			testenv.Equal(t, got, c.want, what)
			testenv.Equal(t, resp.Header.Get("Content-Security-Policy"), "default-src 'self';", what)
		}
	}
	testenv.Equal(t, ask(t, "GET", url+"/api/csp").Header.Get("Content-Security-Policy"), "sandbox")
}

// TestBackends: what backends are told, whatever the client says.
func TestBackends(t *testing.T) {
	rs := needRules(t,
		Config{Match: "/api/**", BackendSet: table{"X-Tenant": "a", "X-Env": "x"}, BackendRemove: []string{"authorization", "cookie"}},
		Config{Match: "/api/**", Methods: []string{"GET"}, BackendSet: table{"x-env": "test"}},
		Config{Match: "/api/other/**", BackendSet: table{"X-Tenant": "b"}, Set: table{"X-Both": "yes"}},
	)
	for _, http2 := range []bool{false, true} {
		url := start(t, rs, nil, proxy.Config{Backends: []string{backend(t, http2)}, HTTP2: http2})
		for path, tenant := range map[string]string{"/api/a": "a", "/api/other/a": "b"} {
			resp := ask(t, "GET", url+path, "X-Tenant", "evil", "x-TENANT", "evil", "X_Tenant", "evil", "Connection", "X-Tenant, X-Env",
				"Authorization", "Basic eDp5", "AUTHORIZATION", "Basic eDp5", "Cookie", "a=b", "X-Kept", "yes")
			testenv.Equal(t, resp.Header.Get("X-Both") != "", tenant == "b", path, http2, "a table about requests is about every response too")
			var got http.Header
			testenv.Must(t, json.NewDecoder(resp.Body).Decode(&got))
			for name, want := range (table{"X-Tenant": tenant, "X-Env": "test", "X_tenant": "", "Authorization": "", "Cookie": "", "X-Kept": "yes"}) {
				testenv.Equal(t, strings.Join(got[name], ","), want, path, http2, name)
			}
		}
	}
}

// TestCORS: who may read what, by origin and method.
func TestCORS(t *testing.T) {
	cors, wrong := NewCrossOrigin([]CORS{
		{Match: "/api/open/**", Origins: []string{"*"}, Headers: []string{"*"}},
		{Match: "/api/**", Origins: []string{"https://app.test", "https://*.site.test"}, Methods: []string{"GET", "PUT"}, Headers: []string{"X-A", "Content-Type"}, Expose: []string{"X-All"}, Credentials: true, MaxAge: "10m"},
	})
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	url := start(t, needRules(t), cors, proxy.Config{Backends: []string{backend(t, false)}})
	const allowed = "Origin=https://app.test|Credentials=true|"
	for _, c := range []struct {
		method, path, origin, asked string
		status                      int
		want                        string
	}{
		{"GET", "/api/x", "https://app.test", "", 200, allowed + "Expose=X-All|Vary=Cookie, Origin|"},
		{"GET", "/api/x", "https://a.b.site.test", "", 200, "Origin=https://a.b.site.test|Credentials=true|Expose=X-All|Vary=Cookie, Origin|"},
		{"GET", "/api/x", "", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "https://evil.test", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "https://app.test.evil.test", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "https://evil.test#.site.test", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "https://.site.test.evil.test", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "http://app.test", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/x", "null", "", 200, "Vary=Cookie, Origin|"},
		{"GET", "/api/bad", "https://app.test", "", 404, allowed + "Expose=X-All|Vary=Cookie, Origin|"},
		{"OPTIONS", "/api/x", "https://app.test", "PUT", 204, allowed + "Expose=X-All|Methods=GET, PUT|Headers=X-A, Content-Type|Max-Age=600|Vary=Origin|"},
		{"OPTIONS", "/api/x", "https://evil.test", "PUT", 403, "Vary=Origin|"},
		{"OPTIONS", "/api/x", "https://app.test", "", 200, allowed + "Expose=X-All|Vary=Cookie, Origin|"}, // is no preflight
		{"GET", "/api/open/x", "https://any.test", "", 200, "Origin=*|Vary=Cookie|"},
		{"OPTIONS", "/api/open/x", "https://any.test", "POST", 204, "Origin=*|Methods=GET, HEAD, POST|Headers=authorization|Vary=Access-Control-Request-Headers|"},
		{"OPTIONS", "/none", "https://app.test", "PUT", 204, ""}, // files have their own answer
	} {
		lines := []string{"Origin", c.origin}
		if c.origin == "" {
			lines = nil
		}
		if c.asked != "" {
			lines = append(lines, "Access-Control-Request-Method", c.asked, "Access-Control-Request-Headers", "authorization")
		}
		resp := ask(t, c.method, url+c.path, lines...)
		what := fmt.Sprint(c.method, " ", c.path, " ", c.origin)
		testenv.Equal(t, resp.StatusCode, c.status, what)
		got := ""
		for _, n := range [][2]string{{"Allow-Origin", "Origin"}, {"Allow-Credentials", "Credentials"}, {"Expose-Headers", "Expose"}, {"Allow-Methods", "Methods"}, {"Allow-Headers", "Headers"}, {"Max-Age", "Max-Age"}} {
			for _, v := range resp.Header["Access-Control-"+n[0]] {
				got += n[1] + "=" + v + "|"
			}
		}
		if vary := resp.Header["Vary"]; len(vary) > 0 {
			got += "Vary=" + strings.Join(vary, ", ") + "|"
		}
		testenv.Equal(t, got, c.want, what)
		io.Copy(io.Discard, resp.Body)
	}
}

// TestFaults: what is wrong with tables and keys.
func TestFaults(t *testing.T) {
	says := func(what string, wrong map[int][]site.Fault) {
		t.Helper()
		all := ""
		for _, faults := range wrong {
			for _, f := range faults {
				all += f.Key + ": " + f.Err.Error() + "\n"
			}
		}
		if !strings.Contains(all, what) {
			t.Errorf("%q does not say %q", all, what)
		}
	}
	for want, c := range map[string]Config{
		"match: the pattern is empty":                             {Set: table{"A": "b"}},
		"set.a: the header is set twice":                          {Match: "/**", Set: table{"A": "b", "a": "c"}},
		"set.Date: header Date is set by the server":              {Match: "/**", Set: table{"Date": "now"}},
		"add.Content-Length: header Content-Length is set by":     {Match: "/**", Add: table{"Content-Length": "1"}},
		"replace.A: the value of header A has control bytes":      {Match: "/**", Replace: table{"A": "b\r\nC: d"}},
		"default.Upgrade: header Upgrade is about one connection": {Match: "/**", Default: table{"Upgrade": "h2c"}},
		"remove: header Transfer-Encoding is set by the server":   {Match: "/**", Remove: []string{"Transfer-Encoding"}},
		`remove: header name "a b" is not a token`:                {Match: "/**", Remove: []string{"a b"}},
		`statuses: "40" is not the status`:                        {Match: "/**", Statuses: []string{"40"}, Set: table{"A": "b"}},
		`statuses: "1xx" is not the status`:                       {Match: "/**", Statuses: []string{"1xx"}, Set: table{"A": "b"}},
		`methods: "get" is not a method`:                          {Match: "/**", Methods: []string{"get"}, Set: table{"A": "b"}},
		"match: the table changes nothing":                        {Match: "/**", Methods: []string{"GET"}},
		"backend-set.Host: header Host is what Config.Host says":  {Match: "/**", BackendSet: table{"Host": "b"}},
		"backend-set.Connection: header Connection is about":      {Match: "/**", BackendSet: table{"Connection": "b"}},
		"backend-remove: header Content-Length is about":          {Match: "/**", BackendRemove: []string{"Content-Length"}},
		"backend-set.X-Forwarded-For: header X-Forwarded-For is":  {Match: "/**", BackendSet: table{"X-Forwarded-For": "b"}},
		"backend-set.X_A: header X_A may be taken for another":    {Match: "/**", BackendSet: table{"X_A": "b"}},
		"backend-set.A: the value is empty":                       {Match: "/**", BackendSet: table{"A": ""}},
		"backend-set.A: the value of header A has control bytes":  {Match: "/**", BackendSet: table{"A": "b\nc"}},
		"statuses: a request to a backend has no status yet":      {Match: "/**", Statuses: []string{"200"}, BackendSet: table{"A": "b"}},
	} {
		_, wrong := New([]Config{c})
		says(want, wrong)
	}
	_, wrong := New(make([]Config, Most+1))
	says("a site may have 100 tables", wrong)
	for want, c := range map[string]CORS{
		"origins: say which pages":                       {},
		`origins: "null": every page can make itself`:    {Origins: []string{"null"}},
		`origins: "app.test": want a scheme`:             {Origins: []string{"app.test"}},
		"an origin has no path; want https://app.test":   {Origins: []string{"https://app.test/"}},
		"browsers leave that port out":                   {Origins: []string{"https://app.test:443"}},
		"a star may stand only for all before a name":    {Origins: []string{"https://app.*.test"}},
		`origins: "*" stands for all`:                    {Origins: []string{"*", "https://app.test"}},
		`credentials: with origins = ["*"]`:              {Origins: []string{"*"}, Credentials: true},
		`methods: "put"; methods are compared`:           {Origins: []string{"*"}, Methods: []string{"put"}},
		`headers: "a,b" is not a name`:                   {Origins: []string{"*"}, Headers: []string{"a,b"}},
		`max-age: "48h"; want a time from "0s" to "24h"`: {Origins: []string{"*"}, MaxAge: "48h"},
		`match: pattern "a/b" has a slash and does not`:  {Origins: []string{"*"}, Match: "a/b"},
		`expose: "b\n" is not a name`:                    {Origins: []string{"*"}, Expose: []string{"b\n"}},
	} {
		_, wrong := NewCrossOrigin([]CORS{c})
		says(want, wrong)
	}
	for value, want := range (table{
		"includeSubDomains": "no max-age", "max-age=1; preload": "a year", "max-age=2y": "want seconds", "max-age=1; foo": `"foo" is not known`,
		"max-age=63072000; includeSubDomains; preload": "", `max-age="0"`: "",
	}) {
		if err := new(Rules).AddHSTS(value); want == "" {
			testenv.Must(t, err, value)
		} else {
			testenv.ErrorSays(t, err, want, value)
		}
	}
	for value, want := range (table{"default-src 'self'; defualt-src *": `no directive "defualt-src"`, "": `no directive ""`, "sandbox;": "", "script-src\n'self'": "control"}) {
		if err := new(Rules).AddCSP(value); want == "" {
			testenv.Must(t, err, value)
		} else {
			testenv.ErrorSays(t, err, want, value)
		}
	}
}

// FuzzOrigin: whatever origin is allowed ends in a name that the table has.
func FuzzOrigin(f *testing.F) {
	r, wrong := readCORS(&CORS{Origins: []string{"https://*.site.test", "https://app.test:8443"}})
	testenv.MustEqual(f, len(wrong), 0)
	for _, seed := range []string{"https://a.site.test", "https://app.test:8443", "https://evil.test/.site.test", "null", "https://a@b.site.test"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		if !r.allows(origin) || slices.Contains(r.origins, origin) && !strings.Contains(origin, "*") {
			return
		}
		resp := httptest.NewRequest("GET", "/", nil)
		u, err := resp.URL.Parse(origin)
		if err != nil || u.Scheme != "https" || !strings.HasSuffix(u.Host, ".site.test") || u.User != nil || u.Path != "" {
			t.Errorf("%q is allowed", origin)
		}
	})
}
