package h1

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestEveryStatusLineHasAPhrase(t *testing.T) {
	for code := FirstStatus; code <= WidestStatus; code++ {
		line := StatusLine(code)
		if _, phrase, _ := strings.Cut(line[len("HTTP/1.1 "):], " "); len(strings.TrimSpace(phrase)) == 0 {
			t.Errorf("%d: %q", code, line)
		}
	}
}

func TestFieldsAreTrimmed(t *testing.T) {
	testenv.Equal(t, string(AppendField(nil, "A", " \tb\rc \r\n")), "A: b c\r\n")
}

func TestLinesOfAHeader(t *testing.T) {
	lines, others := "A: 1\r\nServer: s\r\na: 2\r\n", []byte("server: t\r\nB: 3\r\n")
	testenv.Equal(t, HasLine([]byte(lines), []byte("SERVER")), true, "has a line called SERVER")
	testenv.Equal(t, HasLine([]byte(lines), []byte("serve")), false, "has a line called serve")
	testenv.Equal(t, string(WithoutLines([]byte(lines), others)), "A: 1\r\na: 2\r\n")
	for head, keeps := range map[string]bool{"HTTP/1.1 200 OK\r\nA: 1\r\n": false, "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nA: 1\r\n": true} {
		got := SayClose([]byte("before\n"+head), len("before\n"), keeps)
		testenv.Equal(t, string(got), "before\nHTTP/1.1 200 OK\r\nConnection: close\r\nA: 1\r\n", head)
	}
}

// Requests that name two things of one kind have the route in common, and nothing else.
func TestKindOfRequest(t *testing.T) {
	of := func(method, path string) (route, detail uint32) {
		return Kind(methodOf([]byte(method)), []byte(path), nil)
	}
	route, detail := of("GET", "/users/17/posts")
	for _, c := range []struct {
		method, path string
		route, whole bool
	}{
		{"GET", "/users/17/posts", true, true},
		{"GET", "/users/4711/posts", true, false},
		{"GET", "/users/x1/posts", true, false},
		{"GET", "/users/me/posts", false, false},
		{"GET", "/users/17/likes", false, false},
		{"HEAD", "/users/17/posts", false, false},
	} {
		r, d := of(c.method, c.path)
		testenv.Equal(t, r == route, c.route, "%s %s: the same route", c.method, c.path)
		testenv.Equal(t, d == detail, c.whole, "%s %s: the same detail", c.method, c.path)
	}
}

// A chunk is extended within the capacity of its buffer or not at all, however many digits its size gets.
func TestChunksAreExtendedInPlace(t *testing.T) {
	for _, more := range []int{1, 14, 15, 254, 255, 4095, 4096} {
		for room := range 8 {
			out := append(make([]byte, 0, len("1\r\na\r\n")+more+room), "1\r\na\r\n"...)
			p := bytes.Repeat([]byte("b"), more)
			whole := append(append(append(AppendChunkHead(nil, 1+more), 'a'), p...), "\r\n"...)
			got, ok := ExtendChunk(out, 1, p)
			testenv.Equal(t, ok, len(whole) <= cap(out), "%d more bytes with room for %d: it is extended", more, room)
			if testenv.Equal(t, cap(got), cap(out), "%d more bytes with room for %d: the capacity", more, room); ok {
				testenv.Equal(t, string(got), string(whole), "%d more bytes with room for %d", more, room)
			}
		}
	}
}
