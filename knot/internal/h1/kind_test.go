package h1

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

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
