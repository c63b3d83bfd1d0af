package nginxconf

import (
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestPatterns: expressions as patterns of Knot's, which match the same paths.
func TestPatterns(t *testing.T) {
	paths := []string{"/", "/a", "/a.php", "/a/b.php", "/x.php/y", "/a.phps", "/.php", "/img/a.png", "/img/a.jpg", "/.ht", "/a/.htaccess", "/a.ht", "/apix", "/api/", "/api/v1/x", "/x/api/v1", "/ab", "/a/b/c", "/A.PHP", "/img/K.PNG", "/\u212a.png", "/Admin", "/admin", "/aDMIN", "/a.PhP"}
	for _, c := range []struct{ expression, want string }{
		{`\.php$`, "*.php"},
		{`\.(png|jpe?g)$`, "*.png *.jpeg *.jpg"},
		{`^/api/`, "/api/**"},
		{`^/(api|img)/.*$`, "/api/** /img/**"},
		{`^/api/v1/(.+)$`, "/api/v1/?** /api/v1//**"},
		{`/\.ht`, "/.ht** /**/.ht**"},
		{`[^/]\.php(/|$)`, "/**?.php/** /**?.php"},
		{`^/a/([^/]+)/?$`, "/a/?*/ /a/?*"},
		{`^/[ab]$`, "/a /b"},
		{`/api`, "/api** /**/api**"},
		{`^.*\.php$`, "/**.php"},
		{`^/$`, "/"},
		{`(?i)\.php$`, "(?i)*.php"},
		{`(?i)^/IMG/[a-c]\.(png|PNG)$`, "(?i)/img/a.png (?i)/img/b.png (?i)/img/c.png"},
		{`(?i)[k]\.png$`, "(?i)*k.png"},
		{`^/[Aa]dmin`, "/Admin** /admin**"},
		{`\.[Pp][Hh][Pp]$`, "*.PHP *.PHp *.PhP *.Php *.pHP *.pHp *.phP *.php"},
		{`(?i)^/[Aa]dmin`, "(?i)/admin**"},
		{`[Aa][Bb][Cc][Dd][Ee][Ff][Gg]`, ""},
		{`\.(?i:php)$`, ""},
		{`(?si)\.php$`, ""},
		{`(?i)\.(?-i:php)$`, ""},
		{`^/(?i)api`, ""},
		{strings.Repeat("a", mostExpression+1), ""},
		{`^/[0-9]+$`, ""},
		{`^/(?!x)`, ""},
		{`^/a\*$`, ""},
		{`^a`, ""},
		{`\bx`, ""},
		{`(a|b|c|d|e)(a|b|c|d|e)(a|b|c|d|e)`, ""},
	} {
		got, err := patternsOf(c.expression, false, "")
		testenv.Equal(t, strings.Join(got, " "), c.want, "%s: %v", c.expression, err)
		l := &location{kind: expression, text: c.expression}
		for _, path := range paths {
			matched := slices.ContainsFunc(got, func(p string) bool { return testenv.Need(site.NewPattern(p))(t).Match(path) })
			if err == nil && matched != l.matches(path) {
				t.Errorf("%s: %q matches %s: %v", c.expression, got, path, matched)
			}
		}
	}
}

// TestPatternsWithinALocation: an expression in a location is for paths of that location alone.
func TestPatternsWithinALocation(t *testing.T) {
	paths := []string{"/", "/a", "/a/", "/ab", "/a/x.php", "/a/b/x.php", "/a/x.PHP", "/A/x.php", "/b/x.php", "/x.php", "/a.php", "/a/.ht", "/a/b/.ht", "/b/.ht", "/a/.hta/b", "/ab/c", "/a/a/c", "/a/b", "/a/b/c", "/b/a/c"}
	for _, c := range []struct{ folder, expression, want string }{
		{"/a/", `\.php$`, "/a/**.php"},
		{"/a", `a\.php$`, "/a**a.php /a.php"},
		{"/a", `\.php$`, "/a**.php"},
		{"/", `\.php$`, "*.php"},
		{"/a/", `/\.ht`, "/a/**/.ht** /a/.ht**"},
		{"/a/", `^/a/b`, "/a/b**"},
		{"/a/", `^/b`, ""},
		{"/a/", `^/[^/]+/.`, "/a/?** /a//**"},
		{"/a/", `/a/`, "/a/** /a/**/a/** /a/a/**"},
		{"/a/", `^/.*c$`, "/a/**c"},
		{"/a/", `^/./[^/]*$`, "/a/*"},
		{"/a/", `(?i)\.[p]h[p]$`, "/a/**.PHP /a/**.PHp /a/**.PhP /a/**.Php /a/**.pHP /a/**.pHp /a/**.phP /a/**.php"},
		{"/a/", `(?i)\.settings$`, ""},
	} {
		got, err := patternsOf(c.expression, false, (&location{parent: &location{text: c.folder}}).folder())
		testenv.Equal(t, strings.Join(got, " "), c.want, "%s in %s: %v", c.expression, c.folder, err)
		l := &location{parent: &location{text: c.folder}, kind: expression, text: c.expression}
		for _, path := range paths {
			matched := slices.ContainsFunc(got, func(p string) bool { return testenv.Need(site.NewPattern(p))(t).Match(path) })
			if err == nil && matched != l.matches(path) {
				t.Errorf("%s in %s: %q matches %s: %v", c.expression, c.folder, got, path, matched)
			}
		}
	}
}

// TestRestrictedPatternsThatIgnoreCase: a pattern that ignores case has paths of folders alone that it matches.
func TestRestrictedPatternsThatIgnoreCase(t *testing.T) {
	for pattern, want := range map[string]string{"(?i)*.js": "(?i)/up/**.js", "(?i)/up/x**": "(?i)/up/x**", "(?i)/down/**": ""} {
		testenv.Equal(t, strings.Join(restrictTo("/Up/", []string{pattern}), " "), want, "%s", pattern)
	}
}
