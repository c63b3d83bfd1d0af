package requestid

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestPrepare: the id of a trusted proxy is taken if it is of a form that logs take, and of no client else; every other request
// has a new one. Malformed lines of trace context do not get to handlers.
func TestPrepare(t *testing.T) {
	ids := testenv.Need(New("X-Request-Id"))(t)
	backend := ids.Backend(func(*knot.Ctx) []knot.Header { return []knot.Header{{Name: "X-Own", Value: "1"}} })
	handler := func(x *knot.Ctx) error {
		ids.Prepare(x)
		id := ownctx.Of(x).(inner).RequestID()
		ids.Prepare(x)
		lines := backend(x)
		if len(lines) != 2 || lines[1] != (knot.Header{Name: "X-Request-Id", Value: id}) {
			t.Errorf("backends get %v, and the id is %q", lines, id)
		}
		return x.SendString(200, "", x.Header("traceparent")+" "+x.Header("tracestate"))
	}
	trusting := knottest.Serve(t, &knot.Server{Handler: handler, Trust: testenv.Need(knot.ParseTrust("127.0.0.1"))(t)})
	open := knottest.Serve(t, &knot.Server{Handler: handler})
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	ask := func(url string, lines ...string) (id, trace string) {
		t.Helper()
		r := testenv.Need(http.NewRequest("GET", url, nil))(t)
		for i := 0; i < len(lines); i += 2 {
			r.Header.Add(lines[i], lines[i+1])
		}
		resp, text := do(t, client, r)
		testenv.Equal(t, len(resp.Header["X-Request-Id"]), 1, "lines of %v", lines)
		return resp.Header.Get("X-Request-Id"), strings.TrimSpace(text)
	}
	own := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := make(map[string]bool)
	for _, c := range []struct {
		url   string
		given []string
		taken bool
	}{
		{trusting, []string{"0af7651916cd43dd8448eb211c80319c"}, true},
		{trusting, []string{"Root=1-67891233-abcdef012345678912345678"}, true},
		{trusting, []string{strings.Repeat("a", maxLength)}, true},
		{trusting, []string{strings.Repeat("a", maxLength+1)}, false},
		{trusting, []string{"a", "b"}, false},
		{trusting, []string{`a"b`}, false},
		{trusting, []string{"a b"}, false},
		{trusting, []string{"\xc3\xa9"}, false},
		{trusting, []string{""}, false},
		{trusting, nil, false},
		{open, []string{"0af7651916cd43dd8448eb211c80319c"}, false},
		{open, nil, false},
	} {
		var lines []string
		for _, given := range c.given {
			lines = append(lines, "X-Request-Id", given)
		}
		id, _ := ask(c.url, lines...)
		if c.taken {
			testenv.Equal(t, id, c.given[0])
			continue
		}
		testenv.True(t, own.MatchString(id) && !seen[id], "%q: the id is %q", c.given, id)
		seen[id] = true
	}
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"traceparent", parent, "tracestate", "a=1"}, parent + " a=1"},
		{[]string{"traceparent", strings.Replace(parent, "00", "cc", 1) + "-more"}, strings.Replace(parent, "00", "cc", 1) + "-more"},
		{[]string{"traceparent", parent, "traceparent", parent, "tracestate", "a=1"}, ""},
		{[]string{"traceparent", "junk", "tracestate", "a=1"}, ""},
		{[]string{"tracestate", "a=1"}, ""},
		{nil, ""},
	} {
		_, trace := ask(open, c.lines...)
		testenv.Equal(t, trace, c.want, "%v", c.lines)
	}
}

func do(t *testing.T, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp := testenv.Need(client.Do(r))(t)
	defer resp.Body.Close()
	text := make([]byte, 1000)
	n, _ := resp.Body.Read(text)
	return resp, string(text[:n])
}

// TestValidParent: cases of W3C Trace Context, 3.2.
func TestValidParent(t *testing.T) {
	for text, want := range map[string]bool{
		parent:                               true,
		parent[:53] + "ff":                   true,
		"ff" + parent[2:]:                    false,
		"01" + parent[2:]:                    true,
		"01" + parent[2:] + "-x":             true,
		"01" + parent[2:] + "x":              false,
		parent + "-x":                        false,
		parent[:54]:                          false,
		strings.ToUpper(parent):              false,
		strings.Replace(parent, "-", "_", 1): false,
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": false,
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": false,
		"": false,
	} {
		testenv.Equal(t, validParent([]byte(text)), want, "%q", text)
	}
}

// TestFaults: names of lines that are about something else.
func TestFaults(t *testing.T) {
	for name, says := range map[string]string{
		"X Request": "not a token", "Host": "Host", "X_Request": "another one", "Connection": "connection", "X-Forwarded-For": "Forwarded", "cookie": "something else",
		"Traceparent": "something else", "Content-Length": "Content-Length", "Date": "Date", "true\n": "not a token",
	} {
		_, err := New(name)
		testenv.ErrorSays(t, err, says, "%q", name)
	}
}

func BenchmarkNewID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newID()
	}
}
