package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/headers"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var flags = []string{"addr", "admin", "idle-timeout", "cache", "quiet", "loops", "ratio", "hosts"}

func TestRead(t *testing.T) {
	file, err := Read("f", []byte("\ufeff"+`# comment
addr = ":80"
idle-timeout = "75s"
quiet = true
loops = 2
ratio = 0.25
hosts = ["a", "b"]
[[site]]
hosts = ["example.org", "*.example.org"]
root = "/srv/a"
index = ["main.html"]
listing = true
compress = false
requests-per-second = 5
error-pages = { 404 = "/404.html", 5xx = "/5xx.html" }
[[site.header]]
match = "*.js"
set = { Cache-Control = "max-age=60" }
[[site.header]]
match = "/**"
always = true
[site.header.set]
X-Frame-Options = "DENY"
[[site.password]]
match = "/private/**"
users = "htpasswd"
[[site]]
root = "/srv/b"
`), flags, nil)
	testenv.Must(t, err)
	want := []Value{{"addr", ":80", Place{"f", 2}}, {"idle-timeout", "75s", Place{"f", 3}}, {"quiet", "true", Place{"f", 4}}, {"loops", "2", Place{"f", 5}}, {"ratio", "0.25", Place{"f", 6}}, {"hosts", "a,b", Place{"f", 7}}}
	if !reflect.DeepEqual(file.Values, want) {
		t.Errorf("%+v, want %+v", file.Values, want)
	}
	no := false
	a := Site{
		Hosts: []string{"example.org", "*.example.org"}, Root: "/srv/a", Index: []string{"main.html"}, Listing: true, Compress: &no,
		RequestsPerSecond: 5, ErrorPages: map[string]string{"404": "/404.html", "5xx": "/5xx.html"},
		Headers: []headers.Config{
			{Match: "*.js", Set: map[string]string{"Cache-Control": "max-age=60"}},
			{Match: "/**", Set: map[string]string{"X-Frame-Options": "DENY"}, Always: true},
		},
		Passwords: []Password{{Match: "/private/**", Users: "htpasswd"}},
	}
	for path, line := range map[string]int{
		"addr": 2, "site.1": 8, "site.1.root": 10, "site.1.rate": 8, "site.1.error-pages.404": 15, "site.1.header.1.set.Cache-Control": 18,
		"site.1.header.2": 19, "site.1.header.2.set": 22, "site.1.header.2.set.X-Frame-Options": 23, "site.1.password.1.realm": 24, "site.2.root": 28, "none": 0,
	} {
		testenv.Equal(t, file.Lines.Of(path).Line, line, path)
	}
	if len(file.Sites) != 2 || !reflect.DeepEqual(file.Sites[0], a) || file.Sites[1].Root != "/srv/b" {
		t.Errorf("%+v", file.Sites)
	}
}

func TestWhatIsWrong(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"adr = 1", `f:1: there is no key "adr" here; did you mean addr?`},
		{"\nidle_timeout = 1", `f:2: there is no key "idle_timeout" here; did you mean idle-timeout?`},
		{"Addr = 1", `f:1: there is no key "Addr" here; did you mean addr?`},
		{"[[stie]]", `f:1: there is no key "stie" here; did you mean site?`},
		{"entirely-different = 1", `f:1: there is no key "entirely-different" here`},
		{"[[site]]\nrot = 1", `f:2: there is no key "rot" in site; did you mean root?`},
		{"[[site]]\n[[site.header]]\nmacht = 1", `f:3: there is no key "macht" in site.header; did you mean match?`},
		{"[[site]]\n[[site.password]]\nunexpected = 1", `f:3: there is no key "unexpected" in site.password; there are match, realm, users`},
		{"a = 1\nb = 2", "f:1: there is no key \"a\" here\nf:2: there is no key \"b\" here"},
		{"addr = [1, 2]", "f:1: addr: want a list of texts without commas"},
		{"addr = ['a,b']", "f:1: addr: want a list of texts without commas"},
		{"[addr]\nx = 1", `f:1: addr: want a text`},
		{"addr = ", "f:1:"},
		{"addr = 1\naddr = 2", "addr is already defined"},
		{"[[site]]\nroot = 5", "f:2:8: this is of type integer; want a text"},
		{"[[site]]\nlisting = 'yes'", "f:2:11: this is of type string; want true or false"},
		{"[[site]]\nproxy = 'http://a:1'", "f:2:9: this is of type string; want tables, each below its name in two brackets, as [[site]] or [[site.proxy]]"},
		{"[[site]]\n[[site.proxy]]\ncheck = '/x'", "f:3:9: this is of type string; want a table: { key = value, … }"},
		{"[[site]]\nroot = true", "f:2:8: this is of type boolean; want another type"},
		{"[[site]]\nhosts = 'a'", "want a list of texts"},
		{"[site]\nroot = 'a'", "f:1:2: this table may be there several times: write its name in two brackets"},
		{"site = 1", "f:1:"},
		{"Include = ['x']", `f:1: there is no key "Include" here; did you mean include?`},
		{"[[site]]\nRoot = 'x'", `f:2: there is no key "Root" in site; did you mean root?`},
		{"[[site]]\nroot = 'x'\n[[site.proxy]]\n[site.proxy.check]\nPath = '/'", `f:5: there is no key "Path" in site.proxy.check; did you mean path?`},
	} {
		_, err := Read("f", []byte(test.text), flags, nil)
		testenv.ErrorSays(t, err, test.want, "%q", test.text)
		if err != nil && strings.Contains(err.Error(), "config.") {
			t.Errorf("%q: the error has names of Go: %v", test.text, err)
		}
	}
}

// FuzzRead: no text makes it panic, or yields an error without a place.
func FuzzRead(f *testing.F) {
	f.Add("addr = ':80'\n[[site]]\nroot = 'x'\n[[site.header]]\nset = {A = 'b'}")
	f.Add("[[site]]\n[site.error-pages]\n404 = 'x'")
	none := func(string) ([]byte, error) { return nil, errors.New("there is none") }
	f.Add("include = ['a', 'b/*', '*/x', '[']")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Read("f", []byte(text), flags, none); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func Example() {
	file, err := Read("knot.toml", []byte("admin = ':9090'\n[[site]]\nroot = '/srv'"), []string{"admin"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(file.Values[0].Name, file.Values[0].Text, file.Sites[0].Root)
	// Output: admin :9090 /srv
}

// TestEveryKeyIsDocumented, and every one that is documented is there.
func TestEveryKeyIsDocumented(t *testing.T) {
	documented := func(page, heading string) (keys map[string]string) {
		text := testenv.Need(os.ReadFile(filepath.Join("../../../../docs", page)))(t)
		_, section, found := strings.Cut(string(text), "\n"+heading+"\n")
		if !found {
			t.Fatalf("%s has no section %q", page, heading)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		keys = make(map[string]string)
		for line := range strings.Lines(section) {
			cells := strings.SplitN(line, "|", 3)
			if len(cells) < 3 {
				continue
			}
			for name := range strings.SplitSeq(cells[1], ",") {
				if name = strings.TrimSpace(name); strings.HasPrefix(name, "`") {
					keys[strings.Trim(name, "`")] = cells[2]
				}
			}
		}
		return keys
	}
	for _, name := range keysOf(reflect.TypeFor[document](), []string{"listen"}) {
		if documented("knot-addresses.md", "## [[listen]]")[name] == "" {
			t.Errorf("knot-addresses.md: %q is not documented", name)
		}
	}
	tables := map[string]bool{"maintenance": true, "body": true, "access": true, "client-certificate": true, "forward-auth": true, "cache": true, "limit": true, "redirect": true, "rewrite": true, "header": true, "cors": true, "password": true, "proxy": true, "sticky": true, "canary": true, "mirror": true} // have sections of their own
	site, balancing := reflect.TypeFor[Site](), reflect.TypeFor[Balancing]()
	elsewhere := keysOf(balancing, nil) // of the keys of a proxy
	for _, section := range []struct {
		page, heading, table string
		of                   reflect.Type
	}{
		{"knot-config.md", "## [[site]]", "", site}, {"knot-headers.md", "## [[site.header]]", "header", site}, {"knot-headers.md", "## [[site.cors]]", "cors", site}, {"knot-addresses.md", "## [[site.redirect]]", "redirect", site},
		{"knot-limits.md", "## [[site.limit]]", "limit", site}, {"knot-rewrites.md", "## [[site.rewrite]]", "rewrite", site}, {"knot-cache.md", "## Keys", "cache", site},
		{"knot-access.md", "## [[site.access]]", "access", site}, {"knot-access.md", "## [[site.forward-auth]]", "forward-auth", site},
		{"knot-access.md", "## [site.client-certificate]", "client-certificate", site},
		{"knot-access.md", "## [[site.password]]", "password", site}, {"knot-sites.md", "## [[site.body]]", "body", site}, {"knot-sites.md", "## [site.maintenance]", "maintenance", site}, {"knot-proxy.md", "## Keys", "proxy", site},
		{"knot-balancing.md", "## Keys of [[site.proxy]]", "", balancing}, {"knot-balancing.md", "## By cookie: [site.proxy.sticky]", "sticky", balancing},
		{"knot-balancing.md", "## A second group: [site.proxy.canary]", "canary", balancing}, {"knot-balancing.md", "## Copies: [site.proxy.mirror]", "mirror", balancing},
	} {
		var path []string
		if section.table != "" {
			path = []string{section.table}
		}
		there := documented(section.page, section.heading)
		for _, name := range keysOf(section.of, path) {
			about, ok := there[name]
			delete(there, name)
			if section.table == "" && tables[name] || section.table == "proxy" && slices.Contains(elsewhere, name) {
				continue
			}
			if !ok {
				t.Errorf("%s, %s: %q is not documented", section.page, section.heading, name)
			}
			for _, inner := range keysOf(section.of, append(path, name)) {
				if !strings.Contains(about, inner+" = ") {
					t.Errorf("%s, %s: %s.%s is not documented", section.page, section.heading, name, inner)
				}
			}
		}
		for name := range there {
			t.Errorf("%s, %s: there is no key %q", section.page, section.heading, name)
		}
	}
}
