package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// TestAccess: the first table that is for a request counts.
func TestAccess(t *testing.T) {
	url := serve(t, &site.Site{}, []Config{
		{Match: "/admin/**", NotFrom: []string{"10.0.0.0/8", "2001:db8::/32"}, Action: "deny"},
		{Match: "/api/*/secret", Action: "deny", Status: 404},
		{Match: "/read/**", Methods: []string{"GET", "HEAD"}, Action: "allow"},
		{Match: "/read/**", Action: "deny", Status: 405},
		{Match: "/key/**", Headers: map[string]string{"X-Key": "one"}, Action: "allow"},
		{Match: "/key/**", Action: "deny"},
		{Match: "/bots/**", Headers: map[string]string{"X-Agent": "~(?i)bot"}, Action: "deny"},
		{Match: "/none/**", Headers: map[string]string{"X-Key": ""}, Action: "deny"},
		{Match: "/beta/**", Cookies: map[string]string{"beta": "~^[12]$"}, Action: "allow"},
		{Match: "/beta/**", Action: "deny"},
		{From: []string{"192.0.2.66"}, Action: "deny", Status: 410},
		{From: []string{"unix:"}, Action: "deny"},
	})
	for _, c := range []struct {
		line   string // method, path, and lines of the header, separated by bars
		status int
	}{
		{"GET /", 200},
		{"GET /|X-Forwarded-For: 192.0.2.66", 410},
		{"GET /|X-Forwarded-For: 192.0.2.66, 192.0.2.67", 200}, // that is what the client says
		{"GET /|X-Forwarded-For: ::ffff:192.0.2.66", 410},
		{"GET /admin/x", 403}, {"GET /admin/x|X-Forwarded-For: 10.1.2.3", 200}, {"GET /admin/x|X-Forwarded-For: 2001:db8::9", 200},
		{"GET /%61dmin/x", 403}, {"GET //admin//x", 403}, {"GET /x/../admin/x", 403}, {"GET /admin%2Fx", 403}, {"GET /a/..%2Fadmin/x", 403},
		{"GET /api/a/secret", 404}, {"GET /api/a/b/secret", 200}, {"GET /api/a%2Fb/secret", 404}, {"GET /api//secret", 404},
		{"GET /read/x", 200}, {"HEAD /read/x", 200}, {"POST /read/x", 405}, {"BREW /read/x", 405},
		{"GET /key/", 403}, {"GET /key/|x-kEY: one", 200}, {"GET /key/|X-Key: One", 403}, {"GET /key/|X-Key: one|X-Key: two", 403}, {"GET /key/|X_Key: one", 403},
		{"GET /bots/|X-Agent: a", 200}, {"GET /bots/|X-Agent: Googlebot", 403}, {"GET /bots/|X-Agent: a|X-Agent: Robot", 403},
		{"GET /none/", 403}, {"GET /none/|X-Key:", 403}, {"GET /none/|X-Key: a", 200},
		{"GET /beta/", 403}, {"GET /beta/|Cookie: a=b; beta=1", 200}, {"GET /beta/|Cookie: beta=12", 403}, {"GET /beta/|Cookie: beta=3; beta=1", 403},
		{"GET /beta/|Cookie: Beta=1", 403},
	} {
		testenv.Equal(t, testenv.Ask(t, url, c.line).StatusCode, c.status, c.line)
	}
}

// TestSatisfy: access and passwords, of which all have to let a request pass, or any.
func TestSatisfy(t *testing.T) {
	users := testenv.Need(site.ReadUsers(strings.NewReader("alice:$2a$04$3NIZ7z58ltdXyquueprG9eIW5j2qYhsdMpO6mb52h5f/XPFhBWgO2")))(t)
	realms := site.Realms{{Match: testenv.Need(site.NewPattern("/in/**"))(t), Users: users}}
	tables := []Config{{Match: "/**", From: []string{"10.0.0.0/8"}, Action: "allow"}, {Match: "/in/**", Action: "deny"}, {Match: "/no/**", Action: "deny"}}
	const alice, wrong, inside = "|Authorization: Basic YWxpY2U6cA==", "|Authorization: Basic YWxpY2U6eA==", "|X-Forwarded-For: 10.0.0.1"
	for _, any := range []bool{false, true} {
		for _, order := range []string{"access first", "passwords first"} {
			s := &site.Site{AnyGuard: any}
			if order != "access first" {
				s.Guards = append(s.Guards, realms)
			}
			url := serve(t, s, tables, realms)
			for _, c := range []struct {
				line     string
				all, any int
			}{
				{"GET /", 200, 200}, {"GET /in/", 0, 401}, {"GET /in/" + inside, 401, 200}, {"GET /in/" + alice, 403, 200}, {"GET /in/" + wrong, 0, 401},
				{"GET /in/" + alice + inside, 200, 200}, {"GET /in/" + wrong + inside, 401, 200}, {"GET /no/" + alice, 403, 403}, {"GET /no/" + inside, 200, 200},
				{"GET /x%2F..%2Fin/", 0, 401},
			} {
				want := c.all
				if any {
					want = c.any
				}
				if want == 0 { // the first one says no
					want = map[bool]int{true: 403, false: 401}[order == "access first"]
				}
				a := testenv.Ask(t, url, c.line)
				testenv.Equal(t, a.StatusCode, want, "any %v, %s: %s", any, order, c.line)
				testenv.Equal(t, a.Header.Get("WWW-Authenticate") != "", want == 401, "any %v, %s: %s: WWW-Authenticate", any, order, c.line)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		says string
		Config
	}{
		{"action: say allow or deny", Config{}},
		{`action: "refuse"; want allow or deny`, Config{Action: "refuse"}},
		{"match: pattern", Config{Action: "deny", Match: "a/b"}},
		{`from: "10.0.0.0/33" is neither unix: nor an address`, Config{Action: "deny", From: []string{"10.0.0.0/33"}}},
		{"from: the list is empty", Config{Action: "deny", From: []string{}}},
		{"not-from: ", Config{Action: "deny", NotFrom: []string{"x"}}},
		{`methods: "get" is not a method`, Config{Action: "deny", Methods: []string{"get"}}},
		{"headers: ", Config{Action: "deny", Headers: map[string]string{"a b": ""}}},
		{"headers.A: error parsing regexp", Config{Action: "deny", Headers: map[string]string{"A": "~("}}},
		{"cookies.a: it has 1001 bytes", Config{Action: "deny", Cookies: map[string]string{"a": "~" + strings.Repeat("a", 1001)}}},
		{"status: 200; want 400 to 498", Config{Action: "deny", Status: 200}},
		{"status: it is for requests that are denied", Config{Action: "allow", Status: 404}},
	} {
		_, wrong := New([]Config{{Action: "deny"}, c.Config})
		testenv.MustEqual(t, len(wrong[1]), 1, "%s: %v", c.says, wrong)
		testenv.Contains(t, fmt.Sprintf("%s: %v", wrong[1][0].Key, wrong[1][0].Err), c.says)
	}
	_, wrong := New(make([]Config, Most+1))
	testenv.Equal(t, len(wrong[Most]), 1, "too many tables")
}

// serve serves a site whose requests all get 200 that its guards, the tables and last let pass.
func serve(t *testing.T, s *site.Site, tables []Config, last ...site.Guard) (url string) {
	t.Helper()
	rs, wrong := New(tables)
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	s.Guards = append(append(s.Guards, rs), last...)
	s.Routes = []site.Route{{Match: testenv.Need(site.OptionalPattern(""))(t), Handler: func(x *knot.Ctx) error { return x.Send(200, "", nil) }}}
	return knottest.Serve(t, &knot.Server{Handler: s.Handle, Trust: testenv.Need(knot.ParseTrust("127.0.0.1"))(t)})
}
