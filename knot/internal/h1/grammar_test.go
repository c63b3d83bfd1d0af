package h1

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// extensionForm is the grammar of RFC 9112, 7.1.1, and RFC 9110, 5.6.
var extensionForm = func() *regexp.Regexp {
	const (
		blank  = "[ \t]*"
		token  = "[-!#$%&'*+.^_`|~0-9A-Za-z]+"
		quoted = `"([\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"`
	)
	return regexp.MustCompile("^(" + blank + ";" + blank + token + "(" + blank + "=" + blank + "(" + token + "|" + quoted + "))?)*$")
}()

// latin is b with each byte as a character of its own, as the expressions want it.
func latin(b []byte) string {
	runes := make([]rune, len(b))
	for i, ch := range b {
		runes[i] = rune(ch)
	}
	return string(runes)
}

func FuzzChunkExtensions(f *testing.F) {
	for _, seed := range []string{"", ";", ";a", "; a = b", `;a="b\"";c`, ";a =", ";a ;b\t", `;a="`, `;a="\` + "\x00" + `"`, ";a=\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := chunkExtensions(b), extensionForm.MatchString(latin(b)); got != want {
			t.Fatalf("%q: %v, the grammar says %v", b, got, want)
		}
	})
}

// authorityForm is the grammar of RFC 3986, 3.2.2 and 3.2.3, but for what is in brackets.
var authorityForm = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+(%25([-._~!$&'()*+,;=0-9A-Za-z]|%[0-9A-Fa-f]{2})+)?\]|([-._~!$&'()*+,;=0-9A-Za-z]|%[0-9A-Fa-f]{2})+)(:[0-9]*)?$`)

func FuzzAuthority(f *testing.F) {
	for _, seed := range []string{"", "a", "a:", "a:80", "a:65536", ":80", "[::1]:1", "[::1", "[fe80::1%25a%c3]", "a%41:0", "%", "a%4", "[v1.a]", "a@b", "a:b:c", "127.0.0.1:8080"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := string(b)
		got := validAuthority(b)
		if got && !authorityForm.MatchString(latin(b)) {
			t.Fatalf("%q is taken, against the grammar", text)
		}
		u, err := url.Parse("http://" + text)
		switch {
		case got && err != nil && !strings.Contains(text, "%"): // net/url takes few escapes
			t.Fatalf("%q is taken, package net/url says %v", text, err)
		case !got && err == nil && u.Host == text && authorityForm.MatchString(latin(b)) && validPort([]byte(u.Port())) && text[0] != '[':
			t.Fatalf("%q is refused, against the grammar", text)
		}
	})
}
