package redirect

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// FuzzTarget: whatever a client asks for, it is sent to a host that the file names, and the line of the header ends there.
func FuzzTarget(f *testing.F) {
	for _, path := range []string{"/", "/go//evil.test", "/go/\\evil.test", "/go/a\r\nSet-Cookie: b", "/go/@evil.test", "/x/../..//evil.test", "/go?#", "/go/%2f%2fevil.test", "/n/évil", "/n//evil.test", "/n/%2F/evil.test", "/n/%5Cevil.test", `/n/\evil.test`, "//evil.test"} {
		f.Add(path, "q=1")
	}
	rs, wrong := New([]Config{
		{Pattern: `(?s)^/go(.*)$`, To: "/$1"},
		{Pattern: `(?s)^/q(.*)$`, To: "/p?a=$1&b=${1}#$1"},
		{Prefix: "/n", To: "/"},
		{Prefix: "/", To: "https://site.test"},
	}, nil, true)
	if len(wrong) > 0 {
		f.Fatal(wrong)
	}
	hosts := []string{"", "", "", "site.test"} // of the targets
	slashes := regexp.MustCompile("/+")
	f.Fuzz(func(t *testing.T, path, query string) {
		if strings.ContainsFunc(query, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) || path == "" || path[0] != '/' {
			return // the server refuses such a query
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			decoded = path
		}
		for _, c := range []struct{ path, raw string }{{path, ""}, {slashes.ReplaceAllString(decoded, "/"), path}} {
			i, groups := rs.Find("any.test", c.path)
			to, host := rs.all[i].Target(c.path, c.raw, groups, query), hosts[i]
			u, err := url.Parse(to)
			before, _, _ := strings.Cut(to, "?") // browsers take a backslash there for a slash, and not behind it
			if strings.ContainsFunc(to, func(c rune) bool { return c <= ' ' || c >= 0x7f }) || strings.Contains(before, `\`) {
				t.Errorf("%q has characters that a URL has not", to)
			}
			if err == nil && u.Host != host || strings.HasPrefix(to, "//") || host == "" && !strings.HasPrefix(to, "/") {
				t.Errorf("%q leads to another host than %q", to, host)
			}
		}
	})
}
