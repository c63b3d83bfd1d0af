package limit

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// TestBuckets: one fills with time, and the one that was used least recently makes room for another.
func TestBuckets(t *testing.T) {
	now := time.Unix(1, 0)
	b := newBuckets(2, 3, 4)
	b.now = func() time.Time { return now }
	numbered := func(i int) (k key) {
		binary.BigEndian.PutUint32(k[:], uint32(i))
		return k
	}
	take := func(i int, left float64, wait time.Duration) {
		t.Helper()
		l, w := b.take(numbered(i))
		testenv.Equal(t, l, left, "left")
		testenv.Equal(t, w, wait, "wait")
	}
	take(1, 2, 0)
	take(1, 1, 0)
	take(1, 0, 0)
	take(1, 0, time.Second/2)
	take(2, 2, 0)
	now = now.Add(time.Second / 4)
	take(1, 0.5, time.Second/4)
	now = now.Add(time.Second / 4)
	take(1, 0, 0)
	take(1, 0, time.Second/2)
	now = now.Add(time.Hour)
	take(1, 2, 0)
	for i := range 100 {
		b.take(numbered(10 + i))
		testenv.MustEqual(t, b.recent.Len(), len(b.of), "keys in the list")
		testenv.AtMost(t, len(b.of), 4, "keys")
	}
	b.take(numbered(107)) // the oldest of 4
	b.take(numbered(200)) // takes the place of another
	take(107, 0, 0)
	testenv.Equal(t, b.refused, 3, "refused")
}

// TestSeldom: a rate of less than a request in 292 years, the longest Duration, is a limit too.
func TestSeldom(t *testing.T) {
	b := newBuckets(1e-12, 1, 4)
	_, wait := b.take(key{})
	testenv.Equal(t, wait, 0, "the first one")
	_, wait = b.take(key{})
	testenv.Equal(t, wait, math.MaxInt64, "the second one")
}

func TestClientNetworks(t *testing.T) {
	rs, wrong := New([]Config{{Rate: "1/h"}, {Rate: "1/h", IPv4Prefix: 24, IPv6Prefix: 48}})
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	for _, c := range []struct {
		a, b       string
		same, wide bool
	}{
		{"192.0.2.1", "::ffff:192.0.2.1", true, true},
		{"192.0.2.1", "192.0.2.2", false, true},
		{"192.0.2.1", "192.0.3.1", false, false},
		{"2001:db8::1", "2001:db8::ffff:0:1", true, true},
		{"2001:db8::1", "2001:db8:0:1::1", false, true},
		{"2001:db8::1", "2001:db8:1::1", false, false},
	} {
		a, b := netip.MustParseAddr(c.a), netip.MustParseAddr(c.b)
		testenv.Equal(t, rs[0].network(a) == rs[0].network(b), c.same, "%s and %s", c.a, c.b)
		testenv.Equal(t, rs[1].network(a) == rs[1].network(b), c.wide, "%s and %s, by wider networks", c.a, c.b)
	}
}

// TestKeys: which requests have a limit in common. Each case is asked after the one before it, on a server of its own, with
// one request for each key.
func TestKeys(t *testing.T) {
	type request struct {
		line   string // method, path and lines of the header, separated by bars
		status int
	}
	for _, c := range []struct {
		key      string
		requests []request
	}{
		{"", []request{{"GET /", 200}, {"GET /other", 429}, {"GET /|X-Forwarded-For: 192.0.2.9", 200}}},
		{"path", []request{{"GET /a", 200}, {"GET /b", 200}, {"GET //%61?q", 429}, {"GET /a|X-Forwarded-For: 192.0.2.9", 429}}},
		{"header:X-Key", []request{
			{"GET /|X-Key: a", 200}, {"GET /|x-kEY: a|X-Forwarded-For: 192.0.2.9", 429}, {"GET /|X-Key: b", 200},
			{"GET /", 200}, {"GET /|X-Key:", 429}, {"GET /|X-Key: c|X-Key: a", 429}, // without one the client counts
			{"GET /|X-Forwarded-For: 192.0.2.9", 200},
		}},
		{"cookie:sid", []request{
			{"GET /|Cookie: a=b; sid=1", 200}, {"GET /|Cookie: sid=1 ;a=b", 429}, {`GET /|Cookie: sid="1"`, 429}, {"GET /|Cookie: sid=2", 200},
			{"GET /|Cookie: xsid=1", 200}, {"GET /|Cookie: sid=3; sid=1", 429}, {"GET /|Cookie: sid=3|Cookie: sid=1", 429}, {"GET /|Cookie: SID=9", 429},
		}},
		{"header:X-Key path", []request{
			{"GET /b|X-Key: a", 200}, {"GET /b|X-Key: a", 429}, {"GET /c|X-Key: a", 200}, {"GET /|X-Key: a/b", 200}, {"GET /b", 200}, {"GET /b", 429},
		}},
		{"client path", []request{{"GET /a", 200}, {"GET /a", 429}, {"GET /b", 200}, {"GET /a|X-Forwarded-For: 192.0.2.9", 200}}},
	} {
		rs, wrong := New([]Config{{Rate: "1/h", Key: strings.Fields(c.key)}})
		testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
		url := serve(t, rs)
		for i, r := range c.requests {
			testenv.Equal(t, testenv.Ask(t, url, r.line).StatusCode, r.status, "key %q, request %d: %s", c.key, i, r.line)
		}
	}
}

// TestWhatCounts: by path and method, with several tables, and what clients are told.
func TestWhatCounts(t *testing.T) {
	rs, wrong := New([]Config{
		{Match: "/login", Methods: []string{"POST"}, Rate: "2/m", Name: "logins"},
		{Match: "/x/*/y", Rate: "1/h"},
		{Rate: "0.5/s", Burst: 5},
	})
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	var passed atomic.Int64 // seconds
	for _, r := range rs {
		r.buckets.now = func() time.Time { return time.Unix(passed.Load(), 0) }
	}
	url := serve(t, rs)
	said := func(line string, status int, retry string, limits ...string) {
		t.Helper()
		r := testenv.Ask(t, url, line)
		testenv.Equal(t, r.StatusCode, status, line)
		testenv.Equal(t, r.Header.Get("Retry-After"), retry, "%s: Retry-After", line)
		testenv.Equal(t, strings.Join(r.Header.Values("RateLimit"), ", "), strings.Join(limits, ", "), "%s: RateLimit", line)
		testenv.Equal(t, len(r.Header.Values("RateLimit-Policy")), len(limits), "%s: RateLimit-Policy", line)
	}
	testenv.Equal(t, strings.Join(testenv.Ask(t, url, "POST /login").Header.Values("RateLimit-Policy"), ", "), `"logins";q=2;w=60, "limit-3";q=5;w=10`, "RateLimit-Policy")
	said("GET /login", 200, "", `"limit-3";r=3;t=4`)
	said("POST /login", 200, "", `"logins";r=0;t=60`, `"limit-3";r=2;t=6`)
	said("POST /login", 429, "30", `"logins";r=0;t=30`) // what one refuses does not count for the next
	said("GET /x%2Fa/y", 200, "", `"limit-2";r=0;t=3600`, `"limit-3";r=1;t=8`)
	said("GET /x/a%2Fb/y", 429, "3600", `"limit-2";r=0;t=3600`) // a backend may see it as one of /x/*/y
	said("GET /", 200, "", `"limit-3";r=0;t=10`)
	said("GET /", 429, "2", `"limit-3";r=0;t=2`)
	passed.Add(30)
	said("POST /login", 200, "", `"logins";r=0;t=60`, `"limit-3";r=4;t=2`)
	testenv.Equal(t, rs[0].Refused()+rs[1].Refused()+rs[2].Refused(), 3, "refused")
}

// TestPerClient: requests-per-second says nothing to clients that it lets pass.
func TestPerClient(t *testing.T) {
	r := testenv.Need(PerClient(0.1, 2, 0))(t)
	url := serve(t, Rules{r})
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} { // each has its own limit
		line := "GET /|X-Forwarded-For: " + client
		for range 2 {
			a := testenv.Ask(t, url, line)
			testenv.Equal(t, a.StatusCode, 200, "status")
			testenv.Equal(t, a.Header.Get("RateLimit"), "", "RateLimit")
		}
		a := testenv.Ask(t, url, line)
		testenv.Equal(t, a.StatusCode, 429, "status")
		testenv.Equal(t, a.Header.Get("Retry-After"), "10", "Retry-After")
	}
	for _, bad := range [][3]float64{{0, 1, 1}, {-1, 1, 1}, {1, -1, 1}, {1, 1, -1}, {1, 1, mostKeys + 1}} {
		testenv.Fails(t, testenv.Err(PerClient(bad[0], bad[1], int(bad[2]))), "%v is taken", bad)
	}
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		says string
		Config
	}{
		{"rate: say how often", Config{}},
		{`rate: "5" is not a rate; want one like "20/s"`, Config{Rate: "5"}},
		{"rate: ", Config{Rate: "-1/s"}},
		{"rate: ", Config{Rate: "NaN/s"}},
		{"rate: ", Config{Rate: "1/d"}},
		{"rate: ", Config{Rate: "2e9/s"}},
		{"match: pattern", Config{Rate: "1/s", Match: "a/b"}},
		{`methods: "get" is not a method; want one like GET`, Config{Rate: "1/s", Methods: []string{"get"}}},
		{`key: "ip" is no part of a key; want client, path,`, Config{Rate: "1/s", Key: []string{"ip"}}},
		{"key: ", Config{Rate: "1/s", Key: []string{"header:a b"}}},
		{"key: ", Config{Rate: "1/s", Key: []string{"cookie:"}}},
		{"burst: -1; want 1 to", Config{Rate: "1/s", Burst: -1}},
		{"max-keys: 10000001; want 1 to 10000000", Config{Rate: "1/s", MaxKeys: mostKeys + 1}},
		{"ipv4-prefix: 33; want 1 to 32", Config{Rate: "1/s", IPv4Prefix: 33}},
		{"ipv6-prefix: 129; want 1 to 128", Config{Rate: "1/s", IPv6Prefix: 129}},
		{"name: ", Config{Rate: "1/s", Name: "a\"b"}},
		{`name: another limit is called "limit-1" too`, Config{Rate: "1/s", Name: "limit-1"}},
	} {
		_, wrong := New([]Config{{Rate: "1/s"}, c.Config})
		testenv.MustEqual(t, len(wrong[1]), 1, "%s: %v", c.says, wrong)
		testenv.Contains(t, fmt.Sprintf("%s: %v", wrong[1][0].Key, wrong[1][0].Err), c.says)
	}
	_, wrong := New(make([]Config, Most+1))
	testenv.Equal(t, len(wrong[Most]), 1, "too many tables")
}

func serve(t *testing.T, rs Rules) (url string) {
	return knottest.Serve(t, &knot.Server{Trust: testenv.Need(knot.ParseTrust("127.0.0.1"))(t), Handler: func(x *knot.Ctx) error {
		if answered, err := rs.Handle(x); answered {
			return err
		}
		return x.Send(200, "", nil)
	}})
}

// TestSharedBuckets: what was used is told once, and what other servers leave is taken over, less what was used meanwhile.
func TestSharedBuckets(t *testing.T) {
	rs, _ := New([]Config{{Rate: "1/s", Burst: 10}})
	now := time.Unix(1, 0)
	b := rs[0].buckets
	b.now = func() time.Time { return now }
	calls := 0
	rs[0].Share(func() { calls++ })
	for range 3 {
		b.take(key{1})
	}
	b.take(key{2})
	testenv.Equal(t, calls, 1, "calls of onUse")
	var lists [][]Use
	for uses := range rs[0].Uses(1) {
		lists = append(lists, uses)
	}
	testenv.Equal(t, fmt.Sprint(lists), fmt.Sprint([][]Use{{{key{1}, 3}}, {{key{2}, 1}}}), "what was used")
	b.take(key{1})
	testenv.Equal(t, calls, 2, "calls of onUse")
	rs[0].Settle([]Use{{key{1}, 3}, {key{9}, 1}}, []float64{1.5, 0})
	left, wait := b.take(key{1})
	testenv.Equal(t, wait, time.Second/2, "the wait with %v left", left)
	rs[0].Settle([]Use{{key{1}, 1}}, []float64{-3}) // the servers together have let in too many
	now = now.Add(time.Second)
	_, wait = b.take(key{1})
	testenv.Equal(t, wait, 4*time.Second, "the wait of a key that owes three, and one that was let in meanwhile")
	for uses := range rs[0].Uses(9) {
		testenv.Equal(t, fmt.Sprint(uses), fmt.Sprint([]Use{{key{1}, 1}}), "what was used meanwhile")
	}
}
