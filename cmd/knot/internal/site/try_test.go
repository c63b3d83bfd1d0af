package site

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// TestTry: which path each request is served as, by files and by a route for scripts.
func TestTry(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"/index.php": "", "/admin/index.php": "", "/docs/index.html": "docs", "/page.html": "page", "/a.txt": "a", "/empty/.keep": "", "/.env": "secret", "/b c%.txt": "odd",
	} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		testenv.Must(t, os.WriteFile(root+name, []byte(text), 0o644))
	}
	testenv.Must(t, os.Symlink("/etc", root+"/out"))
	files := testenv.Need(knot.OpenFiles(root, knot.FilesConfig{Index: []string{"index.php", "index.html"}}))(t)
	defer files.Close()
	scripts := Route{Match: testenv.Need(NewPattern("*.php"))(t), Handler: func(x *knot.Ctx) error {
		return x.SendString(200, "text/plain", fmt.Sprintf("%s %s?%s", x.Method(), x.Path(), x.Query()))
	}}
	url := make(map[string]string)
	for name, list := range map[string][]string{
		"php": {"$path", "$path/", "/index.php"}, "404": {"$path", "$path.html", "$path/", "=404"}, "q": {"$path", "/index.php?q=$path&x=1"},
	} {
		s := &Site{Files: files, Routes: []Route{scripts}, Try: testenv.Need(NewTry(list))(t)}
		url[name] = knottest.Serve(t, &knot.Server{Handler: s.Handle})
	}
	listed := &Site{Files: files, Listing: true, Try: testenv.Need(NewTry([]string{"$path", "$path/", "/index.php"}))(t), Routes: []Route{scripts}}
	url["listed"] = knottest.Serve(t, &knot.Server{Handler: listed.Handle})
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for _, c := range []struct{ list, method, path, want string }{
		{"php", "GET", "/", "200 GET /index.php?"},
		{"php", "GET", "/a.txt", "200 a"},
		{"php", "HEAD", "/a.txt", "200 "},
		{"php", "GET", "/b%20c%25.txt?v=1", "200 odd"},
		{"php", "GET", "/2026/post?p=%2F", "200 GET /index.php?p=%2F"},
		{"php", "POST", "/wp-json/x", "200 POST /index.php?"},
		{"php", "POST", "/", "200 POST /index.php?"},
		{"php", "GET", "/admin/?a", "200 GET /admin/index.php?a"},
		{"php", "GET", "/admin?a", "301 /admin/?a"},
		{"php", "GET", "/docs/", "200 docs"},
		{"php", "GET", "/empty/", "200 GET /index.php?"},
		{"php", "GET", "/.env", "200 GET /index.php?"},
		{"php", "GET", "/out/passwd", "200 GET /index.php?"},
		{"php", "GET", "/missing.php", "200 GET /missing.php?"}, // the route's matter
		{"php", "GET", "/%2e%2e%2f", "400 "},
		{"php", "GET", "/a.txt%00.php", "400 "},
		{"404", "GET", "/page", "200 page"},
		{"404", "GET", "/none", "404 "},
		{"404", "GET", "/", "200 GET /index.php?"},
		{"404", "GET", "/empty/", "404 "},
		{"404", "DELETE", "/page.html", "405 "},
		{"q", "GET", "/a/b&c?d=1", "200 GET /index.php?q=%2Fa%2Fb%26c&x=1&d=1"},
		{"listed", "GET", "/empty", "301 /empty/"},
		{"listed", "GET", "/empty/?format=json", "200 ["},
		{"listed", "GET", "/none/", "200 GET /index.php?"},
	} {
		req := testenv.Need(http.NewRequest(c.method, url[c.list]+c.path, nil))(t)
		resp := testenv.Need(client.Do(req))(t)
		body := testenv.Need(io.ReadAll(resp.Body))(t)
		resp.Body.Close()
		got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Location"), string(body))
		if got != c.want && !(strings.HasPrefix(got, c.want) && (resp.StatusCode >= 300 || strings.HasSuffix(c.want, "["))) {
			t.Errorf("%s %s %s: %.80q; want %q", c.list, c.method, c.path, got, c.want)
		}
	}
}

// TestTryFaults: what is wrong with lists.
func TestTryFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "want 1 to 16",
		"=404":              "only at the end",
		"=404 /a":           "only at the end",
		"$path =200":        "want a status of 400 to 599",
		"$path =x":          "want a status",
		"index.php":         "is not a path below the root",
		"/a/../b":           "is not a path below the root",
		"/a$uri":            "is not a path below the root",
		"/a#b":              "is not a path",
		"/a?x /b":           "only the last entry may have a query",
		"/a /b?x\u00e9":     "only with escapes",
		"$path $path/ /i?x": "", "$path.html $path/index.html =410": "", "/pre$path /pre$path/ $path": "", "/": "",
	} {
		_, err := NewTry(strings.Fields(text))
		if want == "" {
			testenv.Check(t, err, text)
		} else {
			testenv.ErrorSays(t, err, want, text)
		}
	}
}

// pathGuard refuses requests for a path.
type pathGuard string

func (g pathGuard) Find(_ *knot.Ctx, path []byte) int {
	if strings.HasPrefix(string(path), string(g)) {
		return 0
	}
	return -1
}

func (g pathGuard) Admit(*knot.Ctx, int) error { return knot.Status(403) }

// TestGuardsOfRewrittenPaths: what guards one path is asked for the path that a client asks for, and for the one that is served.
func TestGuardsOfRewrittenPaths(t *testing.T) {
	files := testenv.Need(knot.OpenFiles(t.TempDir(), knot.FilesConfig{}))(t)
	defer files.Close()
	for name, c := range map[string]struct {
		guard, path string
		want        int
	}{
		"the path that is asked for":   {"/secret", "/secret/x", 403},
		"the path that is served":      {"/hidden", "/to-hidden", 403},
		"the path that a backend sees": {"/hidden/a%2Fb", "/slash", 403},
		"another":                      {"/other", "/to-hidden", 200},
		"a rewrite that fails":         {"/other", "/broken", 414},
	} {
		s := &Site{Files: files, Guards: []Guard{pathGuard(c.guard)}, Rewrite: func(x *knot.Ctx) (string, error) {
			switch x.Path() {
			case "/broken":
				return "", knot.Status(414)
			case "/secret/x", "/to-hidden":
				return "/hidden/x", nil
			case "/slash":
				return "/hidden/a%2Fb", nil
			}
			return "", errors.New(x.Path())
		}}
		s.Routes = []Route{{Match: testenv.Need(NewPattern("/hidden/**"))(t), Handler: func(x *knot.Ctx) error { return x.SendString(200, "text/plain", "x") }}}
		resp := knottest.Do(t, s.Handle, testenv.Need(http.NewRequest("GET", "http://h"+c.path, nil))(t))
		testenv.Equal(t, resp.StatusCode, c.want, name)
	}
}
