package nginxconf

import (
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestRefusedNames: what nginx refuses by an expression does not reach a backend.
func TestRefusedNames(t *testing.T) {
	const hidden = `except = ["/.**", "/**/.**"]` + "\n"
	for _, c := range []struct{ location, want string }{
		{`/\.git { deny all; }`, "[[site.access]]\nmatch = \"/**/.git**\"\naction = \"deny\"\n"},
		{`/\.well-known/private { deny all; }`, "match = \"/.well-known/private**\"\naction = \"deny\"\n"},
		{`/\. { return 404; }`, "match = \"/.**\"\naction = \"deny\"\nstatus = 404\n"},
		{`/\.git { return 403 "no"; }`, "match = \"/.git**\"\naction = \"deny\"\nstatus = 403\n"},
		{`/\.(?!well-known).* { deny all; }`, hidden},
	} {
		for _, backend := range []string{"location / { proxy_pass http://a; }", `root /srv; location ~ \.php$ { fastcgi_pass a; }`} {
			conf := testenv.Need(Parse("f", []byte("server { location ~ "+c.location+" "+backend+" }")))(t)
			out, _ := Translate(conf)
			testenv.Contains(t, string(out), c.want, "%s before %s", c.location, backend)
		}
	}
}

// TestPathsBeforeARefusal: an expression does not refuse paths that nginx takes another location for.
func TestPathsBeforeARefusal(t *testing.T) {
	for rule, want := range map[string]string{
		"":                "match = \"/.well-known/**\"\naction = \"allow\"\n\n[[site.access]]\nmatch = \"/.**\"",
		"deny 192.0.2.1;": "match = \"/.well-known/**\"\nfrom = [\"192.0.2.1\"]\naction = \"deny\"\n\n[[site.access]]\nmatch = \"/.well-known/**\"\naction = \"allow\"\n\n[[site.access]]\nmatch = \"/.**\"",
	} {
		conf := testenv.Need(Parse("f", []byte(`server { root /srv; location ~ /\. { deny all; } location ^~ /.well-known/ { } `+rule+" }")))(t)
		out, _ := Translate(conf)
		testenv.Contains(t, string(out), want)
	}
}

// TestResponsesLeftOut: the rules of location / hold for paths for which Knot has another response than nginx.
func TestResponsesLeftOut(t *testing.T) {
	const (
		proxied = "location / { allow 10.0.0.0/8; deny all; proxy_pass http://a; } "
		files   = "location / { root /srv/private; deny all; } "
	)
	for text, opens := range map[string]bool{
		proxied + "location /x/ { }":                                                  true,
		proxied + "location /x/ { root /srv; }":                                       true,
		proxied + "location /x/ { proxy_pass http://b; proxy_redirect default; }":     true,
		proxied + "location = /x { return 301 /y; }":                                  true,
		proxied + "location = /x { return 200 ok; }":                                  false,
		proxied + "location = /x { return 301 /$cookie_a; }":                          false,
		proxied + "location /x/ { if ($arg_a) { return 403; } proxy_pass http://b; }": false,
		proxied + "location /x/ { rewrite ^ /y break; proxy_pass http://b; }":         false,
		proxied + "root /srv; location = /x { stub_status; }":                         false,
		proxied + "location = /x { allow all; return 200 ok; }":                       false,
		proxied + "location = /x { allow all; return 301 /y; }":                       true,
		files + "location /x/ { allow all; root /srv; }":                              false,
		files + "location /x/ { allow all; root /srv/private; }":                      true,
		files + "location /x/ { }":                                                    false,
		files + "root /srv; location /x/ { }":                                         false,
		files + "root /srv/private/; location /x/ { }":                                true,
		files + "location /x/ { root /srv; }":                                         false,
		files + "location /x/ { root /srv; location ~ \\.png$ { } }":                  false,
		files + "location /x/ { root /srv/private; location ~ \\.png$ { } }":          true,
		files + "location /x/ { alias /srv/; }":                                       false,
		files + "location /x/ { alias /srv/private/y/; }":                             true,
		files + "location /x/ { proxy_pass http://b; }":                               true,
		"root /srv; location / { alias /srv/private/; deny all; } location /x/ { }":   false,
	} {
		out, _ := Translate(testenv.Need(Parse("f", []byte("server { "+text+" }")))(t))
		open := slices.ContainsFunc(strings.Split(string(out), "\n\n"), func(table string) bool {
			return strings.Contains(table, "/x") && strings.Contains(table, `action = "allow"`)
		})
		testenv.Equal(t, open, opens, "%s opens paths: %s", text, out)
	}
	out, _ := Translate(testenv.Need(Parse("f", []byte("server { deny all; location / { allow all; proxy_pass http://a; } location /x/ { if ($arg_a) { return 403; } proxy_pass http://b; } }")))(t))
	testenv.Contains(t, string(out), "match = \"/x/**\"\naction = \"deny\"\n")
}

// TestRulesOfTheServer: rules of a less exact location let no client pass that the rules of the server refuse.
func TestRulesOfTheServer(t *testing.T) {
	const (
		allow   = "from = [\"10.0.0.0/8\"]\naction = \"allow\"\n\n[[site.access]]\n"
		scripts = "[[site.access]]\nmatch = \"*.php\"\n" + allow + "match = \"*.php\"\naction = \"deny\"\n"
		private = "[[site.access]]\nmatch = \"/priv/**\"\n" + allow + "match = \"/priv/**\"\naction = \"deny\"\n"
	)
	for text, want := range map[string]string{
		`location ^~ /priv/ { } location ~* \.(js|png)$ { allow all; }`:                                private,
		`location ^~ /priv/ { } location ~ ^/private/ { allow all; } location ~ x { }`:                 "",
		`location /pub/ { allow all; } location ~ \.php$ { fastcgi_pass a; }`:                          scripts,
		`location /pub/ { deny 10.0.0.1; } location ~ \.php$ { fastcgi_pass a; }`:                      scripts,
		`location /pub/ { deny all; } location ~ \.php$ { fastcgi_pass a; }`:                           "",
		`location ~ \.php$ { fastcgi_pass a; } location ~ ^/pub/ { allow all; }`:                       scripts,
		`location ~ ^/pub/ { allow all; } location ~ \.php$ { fastcgi_pass a; }`:                       "",
		`location / { allow all; } location /pub/ { deny all; } location ~ \.php$ { fastcgi_pass a; }`: scripts,
	} {
		out, _ := Translate(testenv.Need(Parse("f", []byte("server { root /srv; allow 10.0.0.0/8; deny all; "+text+" }")))(t))
		first, _, _ := strings.Cut(string(out[max(0, strings.Index(string(out), "[[site.access]]")):]), "\n\n[[site.proxy]]")
		testenv.Contains(t, first, want, "%s", text)
		if want == "" {
			testenv.Equal(t, strings.Contains(first, "*.php") || strings.Contains(first, "/priv/"), false, "%s: %s", text, out)
		} else {
			testenv.Equal(t, strings.HasPrefix(first, want), true, "rules of the server first for %s: %s", text, out)
		}
	}
}

// TestRulesBehindAnExpression: the rules of the server hold for the paths of an expression that patterns can't express.
func TestRulesBehindAnExpression(t *testing.T) {
	for text, kept := range map[string]bool{
		`deny all; location / { allow all; } location ~ ^/[0-9]+/ { }`:                      false,
		`deny all; location /a/ { allow all; location ~ ^/a/[0-9]+/ { } } location /b/ { }`: true,
		`deny all; location / { } location ~ ^/[0-9]+/ { }`:                                 true,
		`location / { allow all; } location ~ ^/[0-9]+/ { }`:                                true,
	} {
		out, _ := Translate(testenv.Need(Parse("f", []byte("server { root /srv; "+text+" }")))(t))
		testenv.Equal(t, strings.Contains(string(out), "[[site]]"), kept, "%s makes a site: %s", text, out)
	}
}
