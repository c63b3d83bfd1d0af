package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestDemands: the edge decides how important requests are, a server behind it goes by that, and backends of both are told that, and
// how long the client still waits. What is too late is refused, and counted.
func TestDemands(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s", r.Header.Get("X-Importance"), r.Header.Get("X-Request-Timeout"))
	}))
	defer backend.Close()
	inner := start(t, "-config", configFile(t, `
trust = ["127.0.0.1"]
timeout-header = "X-Request-Timeout"
urgency-header = "X-Importance"
[[site]]
load-report = "always"
[[site.proxy]]
to = [%q]
`, backend.URL))
	edgeFile := func(urgency int) string {
		return fmt.Sprintf(`
trust = ["10.0.0.1"]
timeout-header = "X-Request-Timeout"
urgency-header = "X-Importance"
[[importance]]
hosts = ["shop.example.org"]
match = "/pay/**"
urgency = %d
[[importance]]
hosts = ["*.example.org"]
match = "/prefetch"
urgency = 7
[[site]]
[[site.proxy]]
to = [%q]
`, urgency, inner.url)
	}
	file := configFile(t, "%s", edgeFile(1))
	edge := start(t, "-config", file)
	for _, c := range []struct{ host, path, want string }{
		{"shop.example.org", "/pay/now", "1"}, {"shop.example.org:80", "/prefetch", "7"}, {"shop.example.org", "/", ""}, {"other.org", "/pay/now", ""},
	} {
		_, body := edge.ask(c.host, c.path, "X-Importance: 0", "X-Request-Timeout: 5") // of a client that is not trusted
		testenv.Equal(t, body, c.want+"|", "%s%s", c.host, c.path)
	}
	_, body := inner.ask("h", "/", "X-Importance: 5", "X-Request-Timeout: 600000")
	left, err := strconv.Atoi(body[2:])
	testenv.True(t, body[:2] == "5|" && err == nil && left > 300_000 && left <= 600_000, "a trusted client: %s", body)
	resp, body := inner.ask("h", "/", "X-Request-Timeout: 0")
	report, err := orca.Parse(resp.Header.Get(orca.Header), false)
	testenv.True(t, resp.StatusCode == 503 && err == nil && report.Application == 1, "%d %s: %+v, %v; want a report of 1", resp.StatusCode, body, report, err)
	edge.end()
	inner.end()
}

func TestMistakesInDemands(t *testing.T) {
	const site = "\n[[site]]\nroot = '" + sampleSite + "'\n"
	for text, want := range map[string]string{
		"timeout-header = 'X-T'\n":                                              "1: -timeout-header: no peer is trusted; want -trust with the addresses of the proxies or servers that send it",
		"trust = '10.0.0.1'\ntimeout-header = 'Host'\n":                         "2: -timeout-header: header Host is",
		"urgency-header = 'X Y'\n":                                              "1: -urgency-header: header name \"X Y\" is not a token",
		"[[importance]]\nurgency = 3\n":                                         "2: importance 1: urgency: it needs urgency-header",
		"urgency-header = 'Priority'\n[[importance]]\n":                         "2: importance 1: urgency: say how important",
		"urgency-header = 'Priority'\n[[importance]]\nurgency=8":                "3: importance 1: urgency: 8 is not from 0",
		"urgency-header = 'Priority'\n[[importance]]\nhosts=['a/b']\nurgency=1": "3: importance 1: hosts: \"a/b\" is not the name of a host",
		"urgency-header = 'Priority'\n[[importance]]\nmatch='a/b'\nurgency=1":   "3: importance 1: match: pattern \"a/b\" has a slash",
	} {
		file := configFile(t, "%s", text+site)
		var out testenv.Buffer
		testenv.Equal(t, checkCommand([]string{file}, nil, &out, &out), exitFailed, text)
		testenv.Contains(t, out.String(), file+":"+want)
	}
}
