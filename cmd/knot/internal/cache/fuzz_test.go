package cache

import (
	"net/url"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
)

// FuzzURL: two URLs have the same key only if a backend takes them for the same, a key is its own key, and nothing of a key ends a
// request line.
func FuzzURL(f *testing.F) {
	for _, seed := range [][2]string{
		{"/a/%2e%2E/b?x=1", "/a/../b"}, {"/%61", "/a"}, {"/a%2fb", "/a/b"}, {"/a?utm_x=1&b", "/a?b"}, {"/a?&&", "/a?"}, {"/a;x/b", "/a;x/%62"}, {"/%zz", "/%"}, {"/a b\r\nX: y", "/a?b\r\n"},
	} {
		f.Add(seed[0], seed[1])
	}
	c := &Cache{ignore: []string{"utm_*"}}
	key := func(t *testing.T, target string) (string, bool) {
		path, query, _ := strings.Cut(target, "?")
		b, ok := c.appendURL(nil, path, query)
		if !ok {
			return "", false
		}
		text := string(b)
		path, query, _ = strings.Cut(text, "?")
		if again, ok := c.appendURL(nil, path, query); !ok || string(again) != text {
			t.Errorf("%q has the key %q, which has %q", target, text, again)
		}
		return text, true
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		a, ok := key(t, one)
		b, same := key(t, other)
		if !ok || !same || a != b {
			return
		}
		decode := func(target string) string {
			path, query, _ := strings.Cut(target, "?")
			clean, err := url.PathUnescape(path)
			if err != nil {
				t.Errorf("%q has a key", target)
			}
			var kept []string
			for parameter := range strings.SplitSeq(query, "&") {
				if query != "" && !strings.HasPrefix(parameter, "utm_") {
					kept = append(kept, parameter)
				}
			}
			return clean + "?" + strings.Join(kept, "&")
		}
		if decode(one) != decode(other) {
			t.Errorf("%q and %q have the key %q", one, other, a)
		}
	})
}

// FuzzRange: a range is within the body, and is one that was asked for.
func FuzzRange(f *testing.F) {
	for _, seed := range []string{"bytes=0-1", "bytes=-1", "bytes=5-", "bytes=99999999999999999999-", "bytes=-0", "bytes=1-0", "bytes=0-0,2-3", " bytes = 1-2 "} {
		f.Add(seed, int64(10))
	}
	f.Fuzz(func(t *testing.T, value string, size int64) {
		size = max(size, 0)
		from, to, ok := rfc.Range(value, size)
		if !ok && from+to != 0 || from < 0 || to < from || to > size {
			t.Errorf("%q of %d bytes: %d to %d, %v", value, size, from, to, ok)
		}
	})
}
