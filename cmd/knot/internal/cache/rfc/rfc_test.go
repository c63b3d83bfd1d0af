package rfc

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// at is a date as header lines have it, so long after epoch.
func at(after time.Duration) string { return epoch.Add(after).Format(http.TimeFormat) }

// lines reads header lines separated by "|". @10 in them is the date 10 s after epoch.
func lines(text string) (h Header) {
	for l := range strings.SplitSeq(text, "|") {
		if name, value, ok := strings.Cut(l, ": "); ok {
			if after, err := time.ParseDuration(strings.TrimPrefix(value, "@") + "s"); err == nil && value[0] == '@' {
				value = at(after)
			}
			h = append(h, Field{name, value})
		}
	}
	return h
}

// store stores a response that came at epoch, after a second.
func store(req string, status int, res string, rules *Rules) (*Stored, string) {
	h := lines(res)
	if !h.Has("Date") {
		h = append(h, Field{"Date", at(0)})
	}
	return Store(Request{"GET", lines(req), controlOf(lines(req)).NoStore}, Response{status, h, epoch.Add(-time.Second), epoch}, rules)
}

// TestStore has a case for each requirement of RFC 9111 on what may be stored: the sections are its own.
func TestStore(t *testing.T) {
	rules := &Rules{Lifetimes: map[int]time.Duration{404: time.Minute, 500: time.Second}, Cookies: []string{"own"}}
	for _, c := range []struct {
		section, req string
		status       int
		res, why     string
	}{
		{"3: explicit lifetime", "", 200, "Cache-Control: max-age=9", ""},
		{"3: s-maxage", "", 200, "Cache-Control: s-maxage=9", ""},
		{"3: Expires", "", 200, "Expires: @9", ""},
		{"3: public, with a validator", "", 200, `Cache-Control: public|ETag: "a"`, ""},
		{"3: heuristic status, with a validator", "", 200, `ETag: "a"`, ""},
		{"3: no lifetime, no heuristic status", "", 302, `ETag: "a"`, "no lifetime"},
		{"3: lifetime with any final status", "", 302, "Cache-Control: max-age=9", ""},
		{"3: lifetime with an unknown status", "", 299, "Cache-Control: max-age=9", ""},
		{"3: interim status", "", 103, "Cache-Control: max-age=9", "status"},
		{"3: 206 is not understood", "", 206, "Cache-Control: max-age=9", "status"},
		{"3: 304 is not a response to store", "", 304, "Cache-Control: max-age=9", "status"},
		{"3: without any use", "", 200, "", "stale"},
		{"3.1: of no use", "", 200, "Cache-Control: max-age=0", "stale"},
		{"3.5: credentials", "Authorization: x", 200, "Cache-Control: max-age=9", "authorization"},
		{"3.5: ... and public", "Authorization: x", 200, "Cache-Control: max-age=9, public", ""},
		{"3.5: ... and must-revalidate", "Authorization: x", 200, "Cache-Control: max-age=9, must-revalidate", ""},
		{"3.5: ... and s-maxage", "Authorization: x", 200, "Cache-Control: s-maxage=9", ""},
		{"3.5: ... and no more than proxy-revalidate", "Authorization: x", 200, "Cache-Control: max-age=9, proxy-revalidate", "authorization"},
		{"4.1: Vary: *", "", 200, "Cache-Control: max-age=9|Vary: accept, *", "vary"},
		{"5.2.1.5: no-store of a request", "Cache-Control: no-store", 200, "Cache-Control: max-age=9", "no-store"},
		{"5.2.2.3: must-understand, understood", "", 200, "Cache-Control: max-age=9, must-understand, no-store", ""},
		{"5.2.2.3: must-understand, not understood", "", 299, "Cache-Control: max-age=9, must-understand", "must-understand"},
		{"5.2.2.5: no-store", "", 200, "Cache-Control: max-age=9, NO-STORE", "no-store"},
		{"5.2.2.5: no-store in a second line", "", 200, "Cache-Control: max-age=9|cache-control: no-store", "no-store"},
		{"5.2.2.7: private", "", 200, "Cache-Control: max-age=9, private", "private"},
		{"5.2.2.7: private with names", "", 200, `Cache-Control: max-age=9, private="x-own"`, ""},
		{"7.3: cookies of a response", "", 200, "Cache-Control: max-age=9|Set-Cookie: a=b", "set-cookie"},
		{"7.3: ... and public", "", 200, "Cache-Control: max-age=9, public|Set-Cookie: a=b", ""},
		{"7.3: ... and named by no-cache", "", 200, `Cache-Control: max-age=9, no-cache="set-cookie"|Set-Cookie: a=b`, ""},
		{"7.3: ... that the server sets itself", "", 200, "Cache-Control: max-age=9|Set-Cookie: own=b; Path=/", ""},
		{"7.3: ... and another one", "", 200, "Cache-Control: max-age=9|Set-Cookie: own=b|Set-Cookie: owned=b", "set-cookie"},
		{"lifetime of the operator", "", 404, "", ""},
		{"... for a status that is not heuristic", "", 500, "", ""},
		{"... not for cookies", "Cookie: a=b", 404, "", "stale"},
		{"... not for credentials", "Authorization: x", 404, "", "authorization"},
		{"... not in place of the response's", "", 404, "Cache-Control: max-age=0", "stale"},
		{"5861: stale from the beginning", "", 200, "Cache-Control: max-age=0, stale-while-revalidate=9", ""},
	} {
		_, why := store(c.req, c.status, c.res, rules)
		testenv.Equal(t, why, c.why, c.section)
	}
	_, why := Store(Request{Method: "POST"}, Response{200, lines("Cache-Control: max-age=9"), epoch, epoch}, rules)
	testenv.Equal(t, why, "method", "3: the method")
}

// TestStoredLines: lines that must not be stored are not (RFC 9111, 3.1; 5.2.2.4; 5.2.2.7).
func TestStoredLines(t *testing.T) {
	s, why := store("", 200, `Cache-Control: public, max-age=9, no-cache="x-a, x-b", private=x-c|X-A: 1|x-b: 1|X-C: 1|X-D: 1|Connection: close, x-e|X-E: 1|`+
		`Keep-Alive: 1|Transfer-Encoding: chunked|Upgrade: x|TE: x|Proxy-Authenticate: x|Proxy-Authentication-Info: x|Proxy-Authorization: x|Set-Cookie: a=b`, &Rules{})
	testenv.MustEqual(t, why, "")
	var names []string
	for _, f := range s.Header {
		names = append(names, f.Name)
	}
	testenv.EqualSlices(t, names, []string{"Cache-Control", "X-D", "Date"})
}

// TestUse has a case for each requirement of RFC 9111 on what a stored response may be used for.
func TestUse(t *testing.T) {
	some := &Rules{Lifetimes: map[int]time.Duration{404: 10 * time.Second}, Heuristic: time.Minute, Revalidate: 5 * time.Second}
	for _, c := range []struct {
		section string
		res     string
		rules   *Rules
		req     string
		age     int // seconds after epoch; it has one at epoch
		want    Use
	}{
		{"4.2: fresh", "Cache-Control: max-age=10", nil, "", 8, Fresh},
		{"4.2: no longer", "Cache-Control: max-age=10", nil, "", 9, Validate},
		{"4.2.1: s-maxage before max-age", "Cache-Control: s-maxage=20, max-age=10", nil, "", 18, Fresh},
		{"4.2.1: ... even a shorter one", "Cache-Control: s-maxage=5, max-age=10", nil, "", 5, Validate},
		{"4.2.1: max-age before Expires", "Cache-Control: max-age=10|Expires: @100", nil, "", 20, Validate},
		{"4.2.1: Expires counts from Date", "Expires: @10|Date: @-5", nil, "", 9, Fresh},
		{"4.2.1: the shortest of two", "Cache-Control: max-age=100, max-age=10|ETag: \"a\"", nil, "", 50, Validate},
		{"4.2.1: a number that is none", "Cache-Control: max-age=1x0|ETag: \"a\"", nil, "", 0, Validate},
		{"1.2.2: a number too large", "Cache-Control: max-age=99999999999999999999", nil, "", 1 << 30, Fresh},
		{"5.2: a number in quotes", `Cache-Control: max-age="10"`, nil, "", 5, Fresh},
		{"5.3: Expires that is no date", `Expires: 0|ETag: "a"`, nil, "", 0, Validate},
		{"5.3: two of them", `Expires: @10|Expires: @20|ETag: "a"`, nil, "", 0, Validate},
		{"4.2.2: heuristics are off", "Last-Modified: @-1000", nil, "", 0, Validate},
		{"4.2.2: a tenth", "Last-Modified: @-100", some, "", 8, Fresh},
		{"4.2.2: ... and no more", "Last-Modified: @-100", some, "", 30, Validate},
		{"4.2.2: bounded", "Last-Modified: @-10000", some, "", 90, Validate},
		{"4.2.2: not with an explicit time", "Last-Modified: @-10000|Cache-Control: max-age=1", some, "", 50, Validate},
		{"4.2.3: Age counts", "Cache-Control: max-age=10|Age: 7", nil, "", 3, Validate},
		{"4.2.3: Age and the delay", "Cache-Control: max-age=10|Age: 7", nil, "", 1, Fresh},
		{"4.2.3: Date counts", "Cache-Control: max-age=10|Date: @-8", nil, "", 3, Validate},
		{"4.2.4: must-revalidate", "Cache-Control: max-age=1, must-revalidate", some, "Cache-Control: max-stale", 3, Validate},
		{"4.2.4: proxy-revalidate", "Cache-Control: max-age=1, proxy-revalidate", some, "", 3, Validate},
		{"4.2.4: s-maxage", "Cache-Control: s-maxage=1, stale-while-revalidate=9", some, "", 3, Validate},
		{"4.2.4: no-cache", `Cache-Control: no-cache, max-age=9|ETag: "a"`, some, "Cache-Control: max-stale", 0, Validate},
		{"5.2.1.1: max-age of a request", "Cache-Control: max-age=10", nil, "Cache-Control: max-age=5", 6, Validate},
		{"5.2.1.1: ... is met", "Cache-Control: max-age=10", nil, "Cache-Control: max-age=5", 3, Fresh},
		{"5.2.1.2: max-stale", "Cache-Control: max-age=1", nil, "Cache-Control: max-stale=5", 5, Stale},
		{"5.2.1.2: ... exceeded", "Cache-Control: max-age=1", nil, "Cache-Control: max-stale=5", 6, Validate},
		{"5.2.1.2: ... of any age", "Cache-Control: max-age=1", nil, "Cache-Control: max-stale", 6000, Stale},
		{"5.2.1.2: ... of what was never fresh", `ETag: "a"`, nil, "Cache-Control: max-stale", 1, Validate},
		{"5.2.1.3: min-fresh", "Cache-Control: max-age=10", nil, "Cache-Control: min-fresh=5", 5, Validate},
		{"5.2.1.3: ... is met", "Cache-Control: max-age=10", nil, "Cache-Control: min-fresh=5", 4, Fresh},
		{"5.2.1.4: no-cache of a request", "Cache-Control: max-age=10", nil, "Cache-Control: no-cache", 0, Validate},
		{"5.2.2.4: no-cache with names only", `Cache-Control: no-cache="x", max-age=9`, nil, "", 3, Fresh},
		{"5.2.3: unknown directives", `Cache-Control: x="a, no-store", max-age=10, y=z`, nil, "", 3, Fresh},
		{"8246: immutable", "Cache-Control: max-age=10, immutable", nil, "Cache-Control: max-age=0", 3, Fresh},
		{"5861, 3", "Cache-Control: max-age=1, stale-while-revalidate=5", nil, "", 4, Refresh},
		{"5861, 3: over", "Cache-Control: max-age=1, stale-while-revalidate=5", nil, "", 5, Validate},
		{"5861, 3: of the operator", "Cache-Control: max-age=1", some, "", 4, Refresh},
		{"5861, 3: the response's own", "Cache-Control: max-age=1, stale-while-revalidate=1", some, "", 4, Validate},
	} {
		rules := c.rules
		if rules == nil {
			rules = &Rules{}
		}
		s, why := store("", 200, c.res, rules)
		if s == nil { // of no use to a cache, but to be decided on
			s = Restore(Response{200, append(lines(c.res), Field{"Date", at(0)}), epoch.Add(-time.Second), epoch}, nil, true, rules)
			testenv.Equal(t, why, "stale", c.section)
		}
		req, _ := lines(c.req).Get("Cache-Control")
		control := ParseControl(req)
		testenv.Equal(t, s.Use(&control, epoch.Add(time.Duration(c.age)*time.Second)), c.want, c.section)
	}
}

// TestIfError: which stale responses stand in for an error (RFC 5861, 4; RFC 9111, 4.2.4).
func TestIfError(t *testing.T) {
	for _, c := range []struct {
		res   string
		rules Rules
		req   string
		want  bool
	}{
		{"Cache-Control: max-age=1", Rules{}, "", false},
		{"Cache-Control: max-age=1, stale-if-error=9", Rules{}, "", true},
		{"Cache-Control: max-age=1, stale-if-error=2", Rules{}, "", false},
		{"Cache-Control: max-age=1", Rules{IfError: time.Minute}, "", true},
		{"Cache-Control: max-age=1, stale-if-error=99", Rules{StaleMax: 2 * time.Second}, "", false},
		{"Cache-Control: max-age=1", Rules{}, "stale-if-error=9", true},
		{`ETag: "a"`, Rules{IfError: time.Minute}, "stale-if-error=9", false},
		{"Cache-Control: max-age=0", Rules{}, "stale-if-error=9", false},
		{"Cache-Control: max-age=0, stale-if-error=9", Rules{}, "", true},
		{"Cache-Control: max-age=1, must-revalidate, stale-if-error=9", Rules{IfError: time.Minute}, "stale-if-error=9", false},
	} {
		s := Restore(Response{200, append(lines(c.res), Field{"Date", at(0)}), epoch, epoch}, nil, true, &c.rules)
		control := ParseControl(c.req)
		testenv.Equal(t, s.IfError(&control, epoch.Add(5*time.Second)), c.want, "%+v", c)
	}
	for status, want := range map[int]bool{500: true, 502: true, 503: true, 504: true, 501: false, 404: false, 200: false} {
		testenv.Equal(t, IsError(status), want, "%d", status)
	}
}

// TestVary: a stored response answers requests whose lines are those of its own (RFC 9111, 4.1).
func TestVary(t *testing.T) {
	for _, c := range []struct {
		vary, stored, asked string
		want                bool
	}{
		{"", "Accept: a", "Accept: b", true},
		{"Accept", "Accept: a", "Accept: a", true},
		{"accept", "Accept: a", "ACCEPT: b", false},
		{"accept", "Accept: a", "", false},
		{"accept", "", "Accept: a", false},
		{"accept", "", "", true},
		{"accept, foo", "Accept: a|Foo: 1", "Accept: a|Foo: 2", false},
		{"accept", "Accept: a,  b", "Accept: a|Accept: b", true},
		{"accept", "Accept: a, b", "Accept: b, a", false},
	} {
		s, why := store(c.stored, 200, "Cache-Control: max-age=9|Vary: "+c.vary, &Rules{})
		testenv.MustEqual(t, why, "")
		asked := lines(c.asked)
		testenv.Equal(t, s.Matches(func(name string) string { v, _ := asked.Get(name); return v }), c.want, "%+v", c)
	}
}

// TestFreshen: what a 304 changes (RFC 9111, 3.2 and 4.3.4).
func TestFreshen(t *testing.T) {
	for _, c := range []struct{ stored, update, want string }{
		{`ETag: "a"|X: 1|Cache-Control: max-age=1|Age: 5`, `ETag: "a"|X: 2|Cache-Control: max-age=50|Date: @60`, `ETag: "a"|X: 2|Cache-Control: max-age=50|Date: @60`},
		{`ETag: "a"|Content-Type: t|Content-Encoding: e`, `ETag: "a"|Content-Type: u|Content-Encoding: f|Content-Length: 3|Date: @60`, `Content-Type: t|Content-Encoding: e|ETag: "a"|Date: @60`},
		{`ETag: "a"`, `ETag: "b"|Date: @60`, "none"},
		{`ETag: "a"`, `ETag: W/"a"|Date: @60`, `ETag: W/"a"|Date: @60`},
		{`ETag: W/"a"`, `ETag: W/"a"|Date: @60`, `ETag: W/"a"|Date: @60`},
		{`ETag: W/"a"`, `ETag: "a"|Date: @60`, "none"}, // 4.3.4: of the stored ones none has that strong validator
		{`Last-Modified: @-9`, `Last-Modified: @-8|Date: @60`, "none"},
		{`Last-Modified: @-9`, `Date: @60`, "Last-Modified: @-9|Date: @60"},
		{`Last-Modified: @-9`, `ETag: "b"|Date: @60`, "none"},
		{`ETag: "a"`, `ETag: "a"|Cache-Control: no-store|Date: @60`, "none"},
		{`ETag: "a"|X: 1`, `ETag: "a"|Cache-Control: no-cache="x"|X: 2|Date: @60`, `ETag: "a"|Cache-Control: no-cache="x"|Date: @60`},
		{`ETag: "a"`, `ETag: "a"|Set-Cookie: a=b|Connection: x|X: 1|Date: @60`, `ETag: "a"|Date: @60`},
	} {
		s := Restore(Response{200, append(lines(c.stored), Field{"Date", at(0)}), epoch, epoch}, nil, true, &Rules{})
		fresh := s.Freshen(Response{304, lines(c.update), epoch.Add(time.Minute), epoch.Add(time.Minute)}, &Rules{})
		if c.want == "none" {
			testenv.Equal(t, fresh == nil, true, "%+v", c)
			continue
		}
		if fresh == nil {
			t.Errorf("%+v: not used", c)
			continue
		}
		want := lines(c.want)
		same := len(want) == len(fresh.Header)
		for _, f := range want {
			same = same && slices.Contains(fresh.Header, f)
		}
		testenv.True(t, same, "%+v: %v", c, fresh.Header)
		testenv.Equal(t, fresh.Age(epoch.Add(time.Minute)), 0, "%+v: age", c)
	}
}

// TestConditions: what clients have already (RFC 9111, 4.3.2), and what the backend is asked (4.3.1).
func TestConditions(t *testing.T) {
	for _, c := range []struct {
		status              int
		res                 string
		match, since, valid string
		want                bool
	}{
		{200, `ETag: "a"`, `"a"`, "", `If-None-Match: "a"`, true},
		{200, `ETag: "a"`, `"b", W/"a"`, "", `If-None-Match: "a"`, true},
		{200, `ETag: "a,b"`, `"x,y", "a,b"`, "", `If-None-Match: "a,b"`, true},
		{200, `ETag: "a"`, `"a,b"`, "", `If-None-Match: "a"`, false},
		{200, `ETag: "a"`, `*`, "", `If-None-Match: "a"`, true},
		{200, `ETag: "a"|Last-Modified: @-9`, `"b"`, at(0), `If-None-Match: "a"|If-Modified-Since: @-9`, false},
		{200, `Last-Modified: @-9`, "", at(-9 * time.Second), `If-Modified-Since: @-9`, true},
		{200, `Last-Modified: @-9`, "", at(-10 * time.Second), `If-Modified-Since: @-9`, false},
		{200, `Last-Modified: @-9`, "", "yesterday", `If-Modified-Since: @-9`, false},
		{200, ``, "", at(0), ``, true}, // by Date
		{200, ``, `"a"`, "", ``, false},
		{404, `ETag: "a"`, `"a"`, "", `If-None-Match: "a"`, false},
	} {
		s := Restore(Response{c.status, append(lines(c.res), Field{"Date", at(0)}), epoch, epoch}, nil, true, &Rules{})
		testenv.Equal(t, s.NotModified(c.match, c.since), c.want, "%+v", c)
		testenv.EqualSlices(t, s.Validators(), lines(c.valid), "%+v", c)
	}
}

// TestRanges (RFC 9110, 14.1.2 and 13.1.5).
func TestRanges(t *testing.T) {
	for _, c := range []struct {
		value          string
		size, from, to int64
		ok             bool
	}{
		{"bytes=0-0", 10, 0, 1, true}, {"bytes=2-", 10, 2, 10, true}, {"bytes=-3", 10, 7, 10, true}, {"bytes=-30", 10, 0, 10, true},
		{"bytes=2-99999999999999999999", 10, 2, 10, true}, {"BYTES=2-3", 10, 2, 4, true}, {"bytes=9-9", 10, 9, 10, true},
		{"bytes=10-", 10, 0, 0, true}, {"bytes=-0", 10, 0, 0, true}, {"bytes=99999999999999999999-", 10, 0, 0, true}, {"bytes=0-", 0, 0, 0, true},
		{"bytes=3-2", 10, 0, 0, false}, {"bytes=1-2,4-5", 10, 0, 0, false}, {"items=0-1", 10, 0, 0, false}, {"bytes", 10, 0, 0, false},
		{"bytes=", 10, 0, 0, false}, {"bytes=-", 10, 0, 0, false}, {"bytes=a-b", 10, 0, 0, false}, {"bytes=+1-2", 10, 0, 0, false}, {"bytes=1--2", 10, 0, 0, false},
	} {
		from, to, ok := Range(c.value, c.size)
		testenv.Equal(t, from == c.from && to == c.to && ok == c.ok, true, "%+v: %d, %d, %v", c, from, to, ok)
	}
	s := Restore(Response{200, lines(`ETag: "a"|Last-Modified: @-9|Date: @0`), epoch, epoch}, nil, true, &Rules{})
	weak := Restore(Response{200, lines(`ETag: W/"a"|Last-Modified: @0|Date: @0`), epoch, epoch}, nil, true, &Rules{})
	for value, want := range map[string]bool{"": true, `"a"`: true, `"b"`: false, `W/"a"`: false, at(-9 * time.Second): true, at(0): false} {
		testenv.Equal(t, s.RangeApplies(value), want, "If-Range: %s", value)
		testenv.Equal(t, weak.RangeApplies(value), value == "", "If-Range: %s, weak", value)
	}
}

// TestInvalidates (RFC 9111, 4.4).
func TestInvalidates(t *testing.T) {
	for _, c := range []struct {
		method string
		status int
		want   bool
	}{
		{"POST", 200, true}, {"PUT", 204, true}, {"DELETE", 303, true}, {"PATCH", 200, true}, {"PURGE", 200, true}, {"POST", 404, false}, {"POST", 500, false},
		{"GET", 200, false}, {"HEAD", 200, false}, {"OPTIONS", 200, false}, {"TRACE", 200, false},
	} {
		testenv.Equal(t, Invalidates(c.method, c.status), c.want, "%+v", c)
	}
}

// FuzzControl: whatever it says, times are none or not negative, and a directive more never makes a response storable that was not.
func FuzzControl(f *testing.F) {
	for _, seed := range []string{"max-age=1", `no-cache="a, b", private`, `x="\"`, "max-age=9999999999999999999999", ",,=,\"", "s-maxage=", `a="b`, "no-store,no-store=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := ParseControl(text)
		for _, d := range []time.Duration{c.MaxAge, c.SMaxAge, c.MaxStale, c.MinFresh, c.IfError, c.Revalidate} {
			if d != Absent && (d < 0 || d > longest) {
				t.Errorf("%q: %v", text, d)
			}
		}
		if !ParseControl("no-store, "+text).NoStore || !ParseControl("private, "+text).Private {
			t.Errorf("%q hides what stands before it", text)
		}
	})
}
