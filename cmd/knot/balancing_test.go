package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestBalancing: what a file says of the choice among backends is done.
func TestBalancing(t *testing.T) {
	seen := make(chan string, 100)
	behind := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name == "copies" {
				seen <- r.URL.Path
			}
			io.WriteString(w, name)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	p := start(t, "-config", configFile(t, `
[[site]]
[[site.proxy]]
match = "/hash/**"
to = [%q, %q]
balance = "hash path"
[[site.proxy]]
to = [%[1]q, %[2]q]
weights = [1, 0]
slow-start = "30s"
[site.proxy.sticky]
cookie = "to"
[site.proxy.canary]
to = [%[3]q]
header = "X-Canary: yes"
[site.proxy.mirror]
to = [%[4]q]
`, behind("first"), behind("second"), behind("canary"), behind("copies")))
	one, other := 0, 0
	for i := range 40 {
		_, first := p.ask("h", fmt.Sprint("/hash/", i))
		if _, again := p.ask("h", fmt.Sprint("/hash/", i)); again != first {
			t.Errorf("/hash/%d comes to %s and %s", i, first, again)
		}
		if first == "first" {
			one++
		} else {
			other++
		}
	}
	testenv.True(t, one > 0 && other > 0, "%d and %d of the keys", one, other)
	for range 4 {
		resp, body := p.ask("h", "/x")
		if body != "first" || len(resp.Cookies()) != 1 || resp.Cookies()[0].Name != "to" {
			t.Errorf("%s, %v", body, resp.Cookies())
		}
		testenv.Equal(t, <-seen, "/x", "a copy")
	}
	p.end()
}
