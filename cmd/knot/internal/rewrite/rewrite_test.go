package rewrite

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// serve returns a function that says what a request for a target is served as.
func serve(t testing.TB, rs *Rules) func(t testing.TB, host, target string) string {
	seen := make(chan string, 1)
	server := knottest.Serve(t, &knot.Server{Handler: func(x *knot.Ctx) error {
		to, err := rs.Target(x)
		if err == nil && to != "" {
			err = x.Rewrite(to)
		}
		if err == nil {
			seen <- strings.TrimSuffix(x.Path()+"?"+x.Query(), "?")
		}
		return err
	}})
	client := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(client.CloseIdleConnections)
	return func(t testing.TB, host, target string) string {
		req := testenv.Need(http.NewRequest("HEAD", server, nil))(t)
		req.Host, req.URL.Opaque = host, target
		resp := testenv.Need(client.Do(req))(t)
		resp.Body.Close()
		select {
		case got := <-seen:
			return got
		default:
			return fmt.Sprint(resp.StatusCode)
		}
	}
}

// TestTargets: what requests are served as.
func TestTargets(t *testing.T) {
	no := false
	rs, wrong := New([]Config{
		{Path: "/old", To: "/new"},
		{Path: "/new", To: "/newer"},
		{Path: "/drop", To: "/new?a=1", Query: &no},
		{Path: "/keep", To: "/new?a=1"},
		{Prefix: "/blog", To: "/news"},
		{Pattern: `^/item/(\d+)(/.*)?$`, To: "/item.php?id=$1&rest=$2"},
		{Pattern: `^/(?P<lang>de|fr)(/.*)$`, To: "/site$2?lang=${lang}"},
		{Pattern: `^/long/(.*)$`, To: "/$1$1$1"},
		{Pattern: `(?s)^/go(.*)$`, To: "/in$1"},
		{Host: "m.test", Prefix: "/", To: "/mobile"},
	})
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	served := serve(t, rs)
	for _, c := range []struct{ host, target, want string }{
		{"h", "/old", "/new"},
		{"h", "/old?q=%2F", "/new?q=%2F"},
		{"h", "/x/../old", "/new"},
		{"h", "/new", "/newer"},
		{"h", "/drop?q", "/new?a=1"},
		{"h", "/keep?q", "/new?a=1&q"},
		{"h", "/blog/a%20b%3F/", "/news/a b?/"},
		{"h", "/blogger", "/blogger"},
		{"h", "/item/12/a&b?c", "/item.php?id=12&rest=%2Fa%26b&c"},
		{"h", "/de/x", "/site/x?lang=de"},
		{"h", "/long/" + strings.Repeat("x", 4000), "414"},
		{"h", "/go/..%2f..%2fetc", "400"},
		{"h", "/go%3Fx%23y%25", "/in?x#y%"},
		{"h", "/go%0d%0aX", "/in\r\nX"},
		{"m.test", "/a/", "/mobile/a/"},
		{"M.TEST.:80", "/a", "/mobile/a"},
		{"h", "/other?q", "/other?q"},
	} {
		testenv.Equal(t, served(t, c.host, c.target), c.want, "%s%s", c.host, c.target)
	}
}

// TestEscapesStay: a backend gets what follows a prefix as it came.
func TestEscapesStay(t *testing.T) {
	rs, _ := New([]Config{{Prefix: "/thumb", To: "/img"}})
	h := func(x *knot.Ctx) error {
		to, err := rs.Target(x)
		if err == nil {
			err = x.Rewrite(to)
		}
		return errors.Join(err, x.SendString(200, "text/plain", x.Path()+" "+string(x.RawPath())))
	}
	for target, want := range map[string]string{
		"/thumb/https%3A%2F%2Fa.test/x": "/img/https:/a.test/x /img/https%3A%2F%2Fa.test/x",
		"/thumb/%2e%2e%2fthumb/a%2fb":   "/img/a/b /img/a/b",
	} {
		resp := knottest.Do(t, h, testenv.Need(http.NewRequest("GET", "http://h"+target, nil))(t))
		testenv.Equal(t, string(testenv.Need(io.ReadAll(resp.Body))(t)), want, target)
	}
}

// TestFaults: what is wrong with tables.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		want   string
		tables []Config
	}{
		{"to: \"https://x.test/\"; want a path of this site", []Config{{Path: "/a", To: "https://x.test/"}}},
		{"to: \"x\"; want a path of this site", []Config{{Path: "/a", To: "x"}}},
		{"to: \"/x#y\"; want a path of this site", []Config{{Path: "/a", To: "/x#y"}}},
		{"to: say which path is served", []Config{{Path: "/a"}}},
		{"say which requests", []Config{{To: "/a"}}},
		{"exclude each other", []Config{{Path: "/a", Prefix: "/b", To: "/x"}}},
		{"no group $2", []Config{{Pattern: "^/(.)", To: "/$2"}}},
		{"pattern: error parsing regexp", []Config{{Pattern: "(", To: "/x"}}},
		{"a site may have 10000 rewrites", make([]Config, rule.Most+1)},
	} {
		_, wrong := New(c.tables)
		got := ""
		for _, faults := range wrong {
			for _, f := range faults {
				got += fmt.Sprintf("%s: %v\n", f.Key, f.Err)
			}
		}
		testenv.Contains(t, got, c.want)
	}
}

// FuzzTarget: whatever a client asks for, a target is taken by Rewrite or refused with 400, and its path is clean.
func FuzzTarget(f *testing.F) {
	rs, wrong := New([]Config{{Pattern: `(?s)^/go(.*)$`, To: "/in$1?a=$1"}, {Prefix: "/n", To: "/"}, {Pattern: `(?s)^(.*)/end$`, To: "/$1/../x"}})
	if len(wrong) > 0 {
		f.Fatal(wrong)
	}
	for _, path := range []string{"/go/../x", "/go//x", "/n/%2e%2e/x", "/go%00", "/go\r\nX: y", "/a/b/end", "/n?#"} {
		f.Add(path)
	}
	served := serve(f, rs)
	f.Fuzz(func(t *testing.T, path string) {
		target := (&url.URL{Path: "/" + path}).EscapedPath()
		got := served(t, "h", target)
		if got == "400" || got == "414" {
			return
		}
		if got[0] != '/' || strings.Contains(got, "/../") && !strings.Contains(got, "?") {
			t.Errorf("%q is served as %q", target, got)
		}
	})
}
