package nginxconf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestTranslations: every configuration of testdata has the translation, and the rest, that stand beside it.
func TestTranslations(t *testing.T) {
	files := append(testenv.Need(filepath.Glob("testdata/*.conf"))(t), "testdata/several/nginx.conf")
	testenv.AtLeast(t, len(files), 12, "configurations")
	for _, file := range files {
		conf := testenv.Need(Load(file))(t)
		text, left := Translate(conf)
		for _, l := range left {
			text = append(text, "#! "+l.String()+"\n"...)
		}
		testenv.Golden(t, strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".conf")+".toml", text)
	}
}

// show writes directives on one line.
func show(all []*Directive) string {
	var out strings.Builder
	for _, d := range all {
		fmt.Fprintf(&out, "%d:%q", d.Line, append([]string{d.Name}, d.Args...))
		if d.HasBlock {
			fmt.Fprintf(&out, "{%s}", show(d.Block))
		}
	}
	return out.String()
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a;", `1:["a"]`},
		{"a b  c;\n# x; {\nd;", `1:["a" "b" "c"]3:["d"]`},
		{"a\n b\n;c;", `1:["a" "b"]3:["c"]`},
		{"a { b; c { } } d;", `1:["a"]{1:["b"]1:["c"]{}}1:["d"]`},
		{`a "b c" 'd "e' "f\"g" "";`, `1:["a" "b c" "d \"e" "f\"g" ""]`},
		{`a b#c "#d" #e;` + "\n;", `1:["a" "b#c" "#d"]`},
		{`a \.php$ "\d{3}" b\ c;`, `1:["a" "\\.php$" "\\d{3}" "b\\ c"]`},
		{`a ${b}c $d{e;}`, `1:["a" "${b}c" "$d"]{1:["e"]}`},
		{`a x}y;`, `1:["a" "x}y"]`},
		{"\ufeffa \"\n\" b;", `1:["a" "\n" "b"]`},
		{"if ($a = \"b\") { c; }", `1:["if" "($a" "=" "b" ")"]{1:["c"]}`},
	} {
		testenv.Equal(t, show(testenv.Need(Parse("f", []byte(c.text)))(t)), c.want, "%q", c.text)
	}
}

func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a", `f:1: "a" has no end; want ; or a block`},
		{"\na {", `f:2: the block has no end; want }`},
		{"a { b }", `f:1: "b" has no end; want ; before }`},
		{"a;\n}", "f:2: a } that ends no block"},
		{";", "without a directive before it"},
		{"{ }", "without a directive before it"},
		{"a 'b;\n", "f:1: a quote (') that has no end"},
		{`a "b"c;`, "right behind a quote"},
		{strings.Repeat("a{", mostDepth+1), "blocks within blocks"},
		{strings.Repeat(" ", mostBytes+1), "want at most"},
	} {
		testenv.ErrorSays(t, testenv.Err(Parse("f", []byte(c.text))), c.want, "%.100q", c.text)
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		return filepath.Join(dir, name)
	}
	testenv.ErrorSays(t, testenv.Err(Load(write("circle", "include circle;"))), "more than 1000 files")
	testenv.ErrorSays(t, testenv.Err(Load(filepath.Join(dir, "none"))), "no such file")
	write("bad", "a")
	testenv.ErrorSays(t, testenv.Err(Load(write("outer", "b;\ninclude bad;"))), `bad:1: "a" has no end`)
	testenv.Equal(t, show(testenv.Need(Load(write("glob", "include *.none; include none.conf;")))(t)), `1:["include" "none.conf"]`)
	testenv.Must(t, os.Mkdir(filepath.Join(dir, "sites-enabled"), 0o755))
	write("proxy_params", "p;")
	write("a.inc", "a;")
	enabled := write("sites-enabled/x", "include proxy_params; include *.inc; include none.conf;")
	testenv.Equal(t, show(testenv.Need(Load(enabled))(t)), `1:["p"]1:["a"]1:["include" "none.conf"]`)
	t.Chdir(filepath.Dir(enabled))
	testenv.Equal(t, show(testenv.Need(Load("x"))(t)), `1:["p"]1:["a"]1:["include" "none.conf"]`)
}

// TestLocationsWithinLocations: a site is left out if Knot would take another location for a path than nginx does, and more would be open.
func TestLocationsWithinLocations(t *testing.T) {
	const php = `location ~ \.php$ { fastcgi_pass a; }`
	for text, want := range map[string]string{
		"location /a/ { " + php + " }":                                                       `match = "/a/**.php"`,
		"location / { " + php + " }":                                                         `match = "*.php"`,
		"location / { " + php + " } location /up/ { }":                                       "",
		"location /a/ { " + php + " } location = /a/b.php { return 404; }":                   `match = "/a/**.php"`,
		"location /a/ { " + php + " location /a/b/ { } }":                                    `match = "/a/**.php"`,
		"location /a/ { location /a/b/ { " + php + " } } location /a/b/c/ { }":               "",
		"location /a/ { location /a/b/ { " + php + " } } location /a/b { }":                  "[[site]]",
		"location / { location ~* \\.js$ { expires 1h; } } location /up/ { }":                "[[site]]",
		"location ~ ^/a/ { " + php + " }":                                                    "",
		php + " location ~ ^/a/ { location ~ \\.php$ { deny all; } }":                        "",
		"location /a/ { location ^~ /a/b/ { } " + php + " }":                                 "",
		"location ^~ /a/ { location ^~ /a/b/ { deny all; } }":                                `match = "/a/b/**"`,
		"location ^~ /a/ { allow all; } location /a/b/ { deny all; } " + php:                 "",
		"location ^~ /a/ { allow all; } location /a/b/ { deny all; }":                        "match = \"/a/b/**\"\naction = \"deny\"\n\n[[site.access]]\nmatch = \"/a/**\"",
		"location ^~ /a/ { location /a/b/ { allow all; } } location ~ \\.key$ { deny all; }": "match = \"/a/b/**\"\naction = \"allow\"\n\n[[site.access]]\nmatch = \"/a/**\"\naction = \"allow\"\n\n[[site.access]]\nmatch = \"*.key\"",
		`location ^~ /a/ { allow all; location ~ \.key$ { deny all; } } location ~ b { }`:    "match = \"/a/**.key\"\naction = \"deny\"\n\n[[site.access]]\nmatch = \"/a/**\"",
		`location /a/ { location ~ \.html$ { return 301 /b; } }`:                             "[[site]]",
		"location /a/ { alias /srv/b/; location /a/b/ { proxy_pass http://a; } }":            "[[site]]",
	} {
		out, left := Translate(testenv.Need(Parse("f", []byte("server { root /srv; "+text+" }")))(t))
		testenv.Contains(t, string(out), want, "%s", text)
		told := slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, "the site is left out") })
		testenv.Equal(t, told, want == "", "told that there is no site of %s", text)
		testenv.Equal(t, strings.Contains(string(out), "[[site.redirect]]\npattern") || strings.Contains(string(out), "[[site.rewrite]]"), false, "%s: %s", text, out)
	}
}

func TestTimesAndSizes(t *testing.T) {
	for text, want := range map[string]int64{"30": 30, "1m": 60, "1h30m": 5400, "1y": 31536000, "5ms": 0, "x": -1, "": -1, "1q": -1, "99999999999": -1} {
		n, ok := seconds(text)
		if !ok {
			n = -1
		}
		testenv.Equal(t, n, want, "%s", text)
	}
	for text, want := range map[string]string{"10": "10B", "1k": "1KB", "64M": "64MB", "4G": "4GB", "0": "0", "x": "", "1t": ""} {
		got, _ := size(text)
		testenv.Equal(t, got, want, "%s", text)
	}
}

// TestAddressesOfAPort: where a server listens on every address of a port, another address of it is none of Knot's. A site that has only
// that one is left out: it would be served on all.
func TestAddressesOfAPort(t *testing.T) {
	for text, want := range map[string]string{
		"server { listen 80; listen 127.0.0.1:80; root /a; }":                                      `addr = ":80"` + "\n",
		"server { listen 0.0.0.0:80; listen [::]:80; root /a; }":                                   `addr = ":80"` + "\n",
		"server { listen 127.0.0.1:80; root /b; } server { listen 80; root /a; }":                  `addr = ":80"` + "\n",
		"server { listen 127.0.0.1:80; root /a; } server { listen 80; return 444; }":               `addr = "127.0.0.1:80"` + "\n",
		"server { listen 127.0.0.1:80; root /a; } server { listen 81; root /a; server_name _; }":   `[[listen]]` + "\n" + `addr = "127.0.0.1:80"` + "\n",
		"server { listen unix:/x:80; root /a; } server { listen 80; root /a; server_name other; }": `[[listen]]` + "\n" + `addr = "unix:/x:80"` + "\n",
	} {
		conf := testenv.Need(Parse("f", []byte(text)))(t)
		out, left := Translate(conf)
		testenv.Contains(t, string(out), want, text)
		testenv.Equal(t, strings.Contains(string(out), `"/b"`), false, "a site on one address: %s", text)
		told := slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, "can't serve a site on one address") })
		testenv.Equal(t, told, strings.Contains(text, "/b"), "told that there is no site of %s", text)
	}
}

// TestNamesLeftOut: a server none of whose names Knot has does not become the site of every host.
func TestNamesLeftOut(t *testing.T) {
	for text, want := range map[string]bool{
		"server { listen 80 default_server; return 444; } server { listen 80; server_name ~^a; root /a; }": false,
		"server { listen 80; server_name b; root /b; } server { listen 80; server_name a.*; root /a; }":    false,
		"server { listen 80; server_name b; root /b; } server { listen 80; server_name _; root /a; }":      false,
		"server { listen 80; server_name b; root /b; } server { listen 80; server_name a a.*; root /a; }":  true,
		"server { listen 80; server_name ~^a; root /a; }":                                                  true,
	} {
		out, left := Translate(testenv.Need(Parse("f", []byte(text)))(t))
		testenv.Equal(t, strings.Contains(string(out), `root = "/a"`), want, "a site of %s", text)
		testenv.Equal(t, strings.Count(string(out), "hosts ="), strings.Count(string(out), "[[site]]"), "sites without hosts: %s", out)
		told := slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, "Knot has none of them") })
		testenv.Equal(t, told, !want, "told that there is no site of %s", text)
	}
}

// TestScripts: PHP gets the scripts that nginx would name, or the site is left out.
func TestScripts(t *testing.T) {
	const php = `location ~ \.php$ { fastcgi_pass a; `
	for text, want := range map[string]string{
		php + "}": `{ root = "/srv" }`,
		php + "fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }":                     `{ root = "/srv" }`,
		php + "fastcgi_param SCRIPT_FILENAME $realpath_root/$fastcgi_script_name; }":                    `{ root = "/srv" }`,
		php + "fastcgi_param SCRIPT_FILENAME $document_root$uri; }":                                     `{ root = "/srv" }`,
		php + "fastcgi_param SCRIPT_FILENAME $request_filename; }":                                      `{ root = "/srv" }`,
		php + "fastcgi_param SCRIPT_FILENAME /app/public$fastcgi_script_name; }":                        `{ root = "/app/public" }`,
		php + "fastcgi_param SCRIPT_FILENAME /app/$uri; fastcgi_param DOCUMENT_ROOT /app; }":            `{ root = "/app" }`,
		php + "fastcgi_param DOCUMENT_ROOT /app; fastcgi_param HTTPS on; }":                             `{ root = "/srv", set = { DOCUMENT_ROOT = "/app", HTTPS = "on" } }`,
		php + "fastcgi_param DOCUMENT_ROOT $document_root; fastcgi_param HTTPS $https; }":               `{ root = "/srv" }`,
		php + "fastcgi_param DOCUMENT_ROOT $other; }":                                                   `{ root = "/srv" }`,
		php + "root /other/; fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; }":       `{ root = "/other" }`,
		"location / { root /files; } " + php + "}":                                                      `{ root = "/srv" }`,
		"location /a/ { alias /srv/a/; " + php + "fastcgi_param SCRIPT_FILENAME $request_filename; } }": `{ root = "/srv" }`,
		"location /a/ { alias /srv/b/; " + php + "fastcgi_param SCRIPT_FILENAME $request_filename; } }": "",
		"location /a/ { root /other; " + php + "} }":                                                    `{ root = "/other" }`,
		php + "fastcgi_param SCRIPT_FILENAME $document_root/index.php; }":                               "",
		php + "fastcgi_param SCRIPT_FILENAME /app/index.php; }":                                         "",
		php + "fastcgi_param SCRIPT_FILENAME $other$fastcgi_script_name; }":                             "",
		php + "fastcgi_param SCRIPT_FILENAME $fastcgi_script_name; }":                                   "",
	} {
		out, left := Translate(testenv.Need(Parse("f", []byte("server { root /srv; "+text+" }")))(t))
		told := slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, "the site is left out") })
		testenv.Equal(t, told, want == "", "told that there is no site of %s", text)
		if want != "" {
			want = "fastcgi = " + want + "\n"
		}
		testenv.Contains(t, string(out), want, "%s", text)
	}
}

// TestManyRules: what would become more tables than Knot takes is left out, and a site with it that would be open.
func TestManyRules(t *testing.T) {
	const paths = "location ~ ^/(a|b)(c|d)(e|f)(g|h)(i|j)(k|l)$ "
	for rules, want := range map[string]string{
		strings.Repeat("deny 192.0.2.1; allow 192.0.2.2;\n", 1000): "the site is left out",
		strings.Repeat("add_header A b;\n", 1000):                  "make more than 1000 tables",
	} {
		conf := testenv.Need(Parse("f", []byte("server { root /srv; "+paths+"{\n"+rules+"} }")))(t)
		out, left := Translate(conf)
		testenv.AtMost(t, len(out), 1000, "bytes for %.20q", rules)
		testenv.True(t, slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, want) }), "%.20q: nothing says %q", rules, want)
	}
}

// TestManyTables: Knot takes a limited number of tables of each kind for a site. The import leaves out further tables, or the whole
// site if the tables protect it.
func TestManyTables(t *testing.T) {
	for _, c := range []struct {
		rule, table string
		n, want     int
	}{
		{"expires 1h", "header", 101, 100},
		{"limit_req zone=z", "limit", 101, 100},
		{"client_max_body_size 1m", "body", 101, 100},
		{"proxy_pass http://a; proxy_set_header A b", "header", 101, 0},
		{"proxy_pass http://a; expires 1h; proxy_set_header A b", "header", 60, 100},
		{"deny all", "access", 1000, 1000},
		{"deny all", "access", 1001, 0},
	} {
		text := "limit_req_zone $uri zone=z:1m rate=1r/s; server { root /srv;"
		for i := range c.n {
			text += fmt.Sprintf("location = /%d { %s; }\n", i, c.rule)
		}
		out, left := Translate(testenv.Need(Parse("f", []byte(text+"}")))(t))
		testenv.Equal(t, strings.Count(string(out), "[[site."+c.table+"]]"), c.want, "tables of %d times %s", c.n, c.rule)
		told := slices.ContainsFunc(left, func(l Leftover) bool {
			return strings.Contains(l.Text, "Knot takes ") && strings.Contains(l.Text, "[[site."+c.table+"]]")
		})
		testenv.Equal(t, told, c.n != c.want, "told of %d times %s", c.n, c.rule)
	}
}

// TestRateOfAZone: the arguments of limit_req_zone may have any order.
func TestRateOfAZone(t *testing.T) {
	for _, zone := range []string{"zone=one:10m rate=10r/s", "rate=10r/s zone=one:10m", "zone=one:10m rate=10r/s sync"} {
		conf := testenv.Need(Parse("f", []byte("limit_req_zone $binary_remote_addr "+zone+"; server { root /srv; limit_req zone=one burst=5; }")))(t)
		out, _ := Translate(conf)
		testenv.Contains(t, string(out), "rate = \"10/s\"\nburst = 6\n", zone)
	}
}

// TestProtectedLocations: a site is left out if a location of it would be open without a directive that no table is made of.
func TestProtectedLocations(t *testing.T) {
	for text, want := range map[string]bool{
		"location / { auth_request off; proxy_pass http://a; }":                                                                    true,
		"location / { auth_request /auth; proxy_pass http://a; }":                                                                  false,
		"location / { proxy_pass http://a; location /in/ { auth_request /auth; } }":                                                false,
		"location / { proxy_pass http://a; limit_except GET { deny all; } }":                                                       false,
		"location / { proxy_pass http://a; } location /s/ { secure_link $arg_md5; root /srv/s; }":                                  false,
		`root /srv; location ~* "\.(sql|bak)[0-9]*$" { return 403; }`:                                                              false,
		`root /srv; location ~* "\.(sql|bak)[0-9]*$" { if ($args) { return 404 no; } }`:                                            false,
		"root /srv; location /in/ { return 503; }":                                                                                 false,
		`root /srv; location ~* "\.x[0-9]*$" { return 200 yes; }`:                                                                  true,
		"location / { proxy_pass http://a; } location ~ /\\.well-known/x[0-9]* { deny all; }":                                      false,
		"location / { proxy_pass http://a; } location ~ /\\.(?!well-known) { deny all; }":                                          true,
		"root /srv; location / { uwsgi_pass unix:/a; }":                                                                            false,
		"root /srv; location / { try_files /off.html @a; } location @a { uwsgi_pass a; }":                                          false,
		"root /srv; deny all; location / { allow all; try_files $uri @a; } location @a { proxy_pass http://a; }":                   false,
		"root /srv; deny all; location / { try_files $uri @a; } location @a { proxy_pass http://a; }":                              true,
		"root /srv; location / { try_files $uri @a; } location @a { uwsgi_pass a; }":                                               true,
		"root /srv; location / { try_files $uri @a; } location @a { auth_basic a; auth_basic_user_file /u; proxy_pass http://a; }": false,
		"root /srv; location / { try_files $uri @a; } location @a { deny all; proxy_pass http://a; }":                              false,
		"root /srv; location / { try_files $uri @a; } location @a { if ($arg_a) { return 403; } proxy_pass http://a; }":            false,
		"root /srv; location / { try_files $uri @a; } location @a { auth_basic off; proxy_pass http://a; }":                        true,
		"root /srv; location / { try_files /x/$host.html =404; }":                                                                  false,
		"root /srv; location ~ ^/(?!static) { try_files /off.html =404; }":                                                         false,
		"root /srv; location ~ ^/(?!static) { try_files $uri =404; }":                                                              true,
		"root /srv; location / { proxy_pass http://$a; }":                                                                          false,
		"root /srv; location ~ ^/(?!static) { proxy_pass http://a; }":                                                              false,
		"root /srv; location ~ ^/(?!s) { proxy_pass http://a; } location / { proxy_pass http://b; }":                               true,
		"location / { proxy_pass http://b; } location ~ ^/(?!static) { proxy_pass http://a; }":                                     true,
		"root /srv; location /z/ { grpc_pass grpc://a; }":                                                                          true,
	} {
		conf := testenv.Need(Parse("f", []byte("server { "+text+" }")))(t)
		out, left := Translate(conf)
		testenv.Equal(t, strings.Contains(string(out), "[[site]]"), want, "a site of %s", text)
		told := slices.ContainsFunc(left, func(l Leftover) bool { return strings.Contains(l.Text, "the site is left out") })
		testenv.Equal(t, told, !want, "told that there is no site of %s", text)
	}
}

// TestLostBackends: paths that Knot can't pass on get neither files nor another backend.
func TestLostBackends(t *testing.T) {
	for _, pass := range []string{"proxy_pass http://$b;", "uwsgi_pass unix:/b;", "scgi_pass b;", "grpc_pass grpc://b;", "memcached_pass b;"} {
		conf := testenv.Need(Parse("f", []byte("server { root /srv; location / { proxy_pass http://a; } location /z/ { allow all; "+pass+" } }")))(t)
		out, _ := Translate(conf)
		testenv.Contains(t, string(out), "match = \"/z/**\"\naction = \"deny\"\nstatus = 404\n\n[[site.access]]\nmatch = \"/z/**\"\naction = \"allow\"\n", "%s", pass)
		testenv.Contains(t, string(out), "[[site.proxy]]\nexcept = [\"/z/**\"]\nto = [\"http://a:80\"]\n", "%s", pass)
	}
}

// TestTryOtherFiles: where nginx serves only certain files, Knot does not serve those at the paths.
func TestTryOtherFiles(t *testing.T) {
	const refusal = "match = \"/z/**\"\naction = \"deny\"\nstatus = 404\n"
	for try, want := range map[string]bool{
		"try_files /off.html =404;": true, "try_files /none @a;": true, "try_files /$host$uri =404;": true,
		"try_files $uri /off.html;": false, "try_files $uri $uri/ =404;": false, "try_files $document_uri =404;": false,
		"try_files /none @a; proxy_pass http://a;": false,
	} {
		conf := testenv.Need(Parse("f", []byte("server { root /srv; location /z/ { "+try+" } location @a { proxy_pass http://a; } }")))(t)
		out, _ := Translate(conf)
		testenv.Equal(t, strings.Contains(string(out), refusal), want, "%s refuses", try)
	}
	conf := testenv.Need(Parse("f", []byte("server { root /srv; location = /robots.txt { try_files /robots.txt =404; } }")))(t)
	out, _ := Translate(conf)
	testenv.Equal(t, strings.Contains(string(out), "deny"), false, "a location of one file refuses it: %s", out)
}

// TestSlashes: the path of a location without its slash at the end is redirected, if no other location has it.
func TestSlashes(t *testing.T) {
	for text, want := range map[string]string{
		"location /a/ { proxy_pass http://a; }":                                       "path = \"/a\"\nto = \"/a/\"\nstatus = 301\n",
		"location '/a b/' { proxy_pass http://a; }":                                   "path = \"/a b\"\nto = \"/a%20b/\"\nstatus = 301\n",
		"root /srv; location ^~ /a/ { uwsgi_pass a; }":                                "path = \"/a\"\nto = \"/a/\"\nstatus = 301\n",
		"location /a/ { proxy_pass http://a; } location = /a { return 404; }":         "",
		"location /a/ { proxy_pass http://a; } location /a { proxy_pass http://b; }":  "",
		"location / { proxy_pass http://a; } location /a/ { deny all; }":              "",
		"location / { proxy_pass http://a; } location ~ /a/ { proxy_pass http://a; }": "",
	} {
		conf := testenv.Need(Parse("f", []byte("server { "+text+" }")))(t)
		out, _ := Translate(conf)
		testenv.Contains(t, string(out), want, "%s", text)
		testenv.Equal(t, strings.Contains(string(out), "[[site.redirect]]"), want != "", "a redirect of %s", text)
	}
}

// FuzzTranslate: whatever a configuration says, what is made of it is TOML.
func FuzzTranslate(f *testing.F) {
	for _, file := range testenv.Need(filepath.Glob("testdata/*.conf"))(f) {
		f.Add(testenv.Need(os.ReadFile(file))(f))
	}
	f.Add([]byte("server { return; listen; location { } root; alias; expires; if; server_name ''; try_files; error_page; limit_req; fastcgi_pass; proxy_pass; rewrite; add_header; auth_basic; }"))
	f.Add([]byte("limit_req_zone; upstream { server; } server { location / { return 3; } location = { } return x y; gzip on; gzip_types \"a\\nb/c\"; }"))
	f.Add([]byte("server { return '' x; location //a/ { proxy_pass http://a; } location '/\\xff/' { grpc_pass; } }"))
	f.Add([]byte("upstream u { server a weight=x; hash; keepalive; } server { ssl on; listen 1 ssl; location / { proxy_pass http://u/; proxy_set_header; expires; return ''; return '' ''; } }"))
	f.Fuzz(func(t *testing.T, text []byte) {
		conf, err := Parse("f", text)
		if err != nil {
			return
		}
		out, left := Translate(conf)
		var doc map[string]any
		if err := toml.Unmarshal(out, &doc); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, l := range left {
			if l.Line < 1 || strings.ContainsAny(l.Text, "\n\r") {
				t.Errorf("%q", l)
			}
		}
	})
}
