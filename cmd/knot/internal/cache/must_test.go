package cache

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// TestMusts has the requirements of RFC 9111 that show only on the wire; those on what is stored and used are in package rfc.
// The sections are its own.
func TestMusts(t *testing.T) {
	down := func(r *rig) { r.says(func(*knot.Ctx) error { return knot.Status(502) }) }
	for section, try := range map[string]func(t *testing.T, r *rig){
		"3.1: unknown lines are kept": func(t *testing.T, r *rig) {
			r.sends(200, fresh, "X-Unknown: 1", "X-Unknown: 2", "", "x")
			r.get("/")
			testenv.EqualSlices(t, r.get("/").header.Values("X-Unknown"), []string{"1", "2"})
		},
		"3.3: what is not whole is no answer": func(t *testing.T, r *rig) {
			r.says(func(x *knot.Ctx) error {
				x.AddHeader("Cache-Control", "max-age=60")
				x.WriteString("half")
				x.Flush()
				return errors.New("broken off")
			})
			nc := testenv.Dial(t, r.addr)
			fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n")
			for buf := make([]byte, 100); ; {
				if _, err := nc.Read(buf); err != nil {
					break
				}
			}
			nc.Close()
			r.sends(200, fresh, "", "whole")
			testenv.Equal(t, r.get("/").body, "whole")
		},
		"3.4: a part that the backend sends unasked is not kept": func(t *testing.T, r *rig) {
			r.sends(206, fresh, "Content-Range: bytes 0-0/9", "", "x")
			r.get("/")
			testenv.Equal(t, r.cache.Stats().Entries, 0)
		},
		"4: Age of a response that is kept, from the beginning": func(t *testing.T, r *rig) {
			r.sends(200, fresh, "", "x")
			testenv.Equal(t, r.get("/").header.Get("Age"), "", "of one that comes from the backend")
			testenv.Equal(t, r.get("/").header.Get("Age"), "0")
			testenv.Equal(t, r.ask("HEAD", "/").header.Get("Age"), "0")
			r.pass(3 * time.Second)
			testenv.EqualSlices(t, r.get("/").header.Values("Age"), []string{"3"})
		},
		"4: of several that match the most recent": func(t *testing.T, r *rig) {
			date := func(after time.Duration) string { return "Date: " + epoch.Add(after).Format(http.TimeFormat) }
			r.sends(200, fresh, "Vary: Accept", date(0), "", "newer")
			r.get("/", "Accept: a")
			r.sends(200, fresh, "Vary: X", date(-5*time.Second), "", "older")
			testenv.Equal(t, r.get("/", "Accept: b").body, "older")
			testenv.Equal(t, r.get("/", "Accept: a").body, "newer")
		},
		"4: unsafe methods are written through": func(t *testing.T, r *rig) {
			r.sends(200, fresh, "", "x")
			r.get("/")
			for i, method := range []string{"POST", "PUT", "DELETE", "PATCH", "UNHEARD-OF"} {
				r.ask(method, "/", "Content-Length: 0")
				testenv.Equal(t, r.asked.Load(), int64(i+2), method)
			}
		},
		"4: another method is no answer": func(t *testing.T, r *rig) {
			r.sends(200, fresh, "", "x")
			r.ask("POST", "/", "Content-Length: 0")
			r.ask("OPTIONS", "/")
			r.want("fwd=miss; stored", 3)
		},
		"4.2.4: no stale answer that is not allowed": func(t *testing.T, r *rig) {
			r.sends(200, fresh, `ETag: "a"`, "", "x")
			r.get("/")
			r.pass(time.Hour)
			down(r)
			testenv.Equal(t, r.get("/").status, 502)
			testenv.Equal(t, r.get("/", "Cache-Control: max-stale").body, "x")
		},
		"4.3.1: the backend is asked with all validators": func(t *testing.T, r *rig) {
			modified := epoch.Add(-time.Hour).Format(http.TimeFormat)
			r.sends(200, fresh, `ETag: W/"a"`, "Last-Modified: "+modified, "", "x")
			r.get("/")
			r.pass(time.Hour)
			r.sends(304, `ETag: W/"a"`)
			testenv.Equal(t, r.get("/", `If-None-Match: "other"`).body, "x")
			testenv.Contains(t, r.request(), "if-none-match: W/\"a\"\nif-modified-since: "+modified+"\n")
		},
		"4.3.2: conditions that are for the backend alone": func(t *testing.T, r *rig) {
			r.sends(200, fresh, `ETag: "a"`, "", "x")
			r.get("/")
			r.get("/", `If-Match: "b"`)
			testenv.Contains(t, r.request(), "if-match: \"b\"\n")
			r.get("/", "If-Unmodified-Since: "+epoch.Format(http.TimeFormat))
			testenv.Equal(t, r.asked.Load(), 3)
		},
		"4.3.2: If-None-Match goes before If-Modified-Since": func(t *testing.T, r *rig) {
			r.sends(200, fresh, `ETag: "a"`, "Last-Modified: "+epoch.Add(-time.Hour).Format(http.TimeFormat), "", "x")
			r.get("/")
			testenv.Equal(t, r.get("/", `If-None-Match: "b"`, "If-Modified-Since: "+epoch.Format(http.TimeFormat)).status, 200)
		},
		"4.3.3: a whole response takes the place of the old one": func(t *testing.T, r *rig) {
			r.sends(200, fresh, `ETag: "a"`, "", "old")
			r.get("/")
			r.pass(time.Hour)
			r.sends(200, fresh, `ETag: "a"`, "", "new")
			testenv.Equal(t, r.get("/").body, "new")
			testenv.Equal(t, r.want("hit", 2).body, "new")
		},
		"4.3.4: a strong validator that none has": func(t *testing.T, r *rig) {
			r.sends(200, fresh, `ETag: W/"a"`, "", "old")
			r.get("/")
			r.pass(time.Hour)
			r.says(func(x *knot.Ctx) error {
				x.AddHeader("ETag", `"a"`)
				if x.Header("If-None-Match") != "" {
					return x.Send(304, "", nil)
				}
				return x.SendString(200, "", "new")
			})
			testenv.Equal(t, r.get("/").body, "new")
			testenv.Equal(t, r.asked.Load(), 3)
		},
		"4.4: a change drops what is kept for its URL, and for no other": func(t *testing.T, r *rig) {
			r.sends(200, fresh, "Location: http://other.test/", "Content-Location: /b", "", "x")
			r.get("/")
			r.get("/", "Host: other.test")
			r.ask("DELETE", "/")
			testenv.Equal(t, r.cache.Stats().Entries, 1)
			testenv.Equal(t, r.get("/", "Host: other.test").how(), "hit")
		},
		"5.2: directives are passed through": func(t *testing.T, r *rig) {
			r.sends(200, "Cache-Control: max-age=60, x-own=1", "", "x")
			a := r.get("/", "Cache-Control: no-cache, x-of-client=2")
			testenv.Contains(t, r.request(), "cache-control: no-cache, x-of-client=2\n")
			testenv.Equal(t, a.header.Get("Cache-Control"), "max-age=60, x-own=1")
			testenv.Equal(t, r.get("/").header.Get("Cache-Control"), "max-age=60, x-own=1")
		},
		"5.2.2.2: must-revalidate, and the backend is down": func(t *testing.T, r *rig) {
			r.sends(200, "Cache-Control: max-age=60, must-revalidate, stale-if-error=600", `ETag: "a"`, "", "x")
			r.get("/")
			r.pass(time.Hour)
			down(r)
			testenv.Equal(t, r.get("/", "Cache-Control: max-stale, stale-if-error=600").status, 502)
		},
		"5.2.2.4: no-cache, and the backend is down": func(t *testing.T, r *rig) {
			r.sends(200, "Cache-Control: no-cache", `ETag: "a"`, "", "x")
			r.get("/")
			down(r)
			testenv.Equal(t, r.get("/").status, 502)
		},
	} {
		t.Run(section, func(t *testing.T) { try(t, newRig(t, Config{Revalidate: "0s"})) })
	}
}

// TestRangeStorm: clients that ask for a part of the same response at once are one request at the backend, which is for all of it.
func TestRangeStorm(t *testing.T) {
	r := newRig(t, Config{})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", "0123456789")
	})
	parts, whole := r.goGet(50, "/", "Range: bytes=2-4"), r.goGet(50, "/")
	r.waiting(100)
	release.Close()
	for range 50 {
		a := <-parts
		testenv.Equal(t, fmt.Sprint(a.status, a.header.Get("Content-Range"), a.body), "206bytes 2-4/10234")
		testenv.Equal(t, (<-whole).body, "0123456789")
	}
	testenv.Equal(t, r.asked.Load(), 1)
}

// TestRangeOfWhatIsNotKept: the backend gets the request for the range; for a while no request for the whole response goes there.
func TestRangeOfWhatIsNotKept(t *testing.T) {
	for about, lines := range map[string][]string{"too large": {fresh, "Content-Length: 1000"}, "too large, without a length": {fresh}, "private": {"Cache-Control: private"}} {
		r := newRig(t, Config{MaxEntry: "100"})
		r.says(func(x *knot.Ctx) error {
			if x.Header("Range") != "" {
				innerOf(x).CopyHeader([]byte("Content-Range"), []byte("bytes 2-4/1000"))
				return x.SendString(206, "", "234")
			}
			for _, l := range lines {
				name, value, _ := strings.Cut(l, ": ")
				innerOf(x).CopyHeader([]byte(name), []byte(value))
			}
			for range 10 {
				if _, err := x.Write(make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		})
		for i := range 3 {
			a := r.get("/", "Range: bytes=2-4")
			testenv.Equal(t, fmt.Sprint(a.status, a.body), "206234", about)
			testenv.Equal(t, r.asked.Load(), int64(i+2), about)
		}
	}
}

// TestDefaultsAfterCookies: the lifetimes of the configuration count again with the first request without cookies.
func TestDefaultsAfterCookies(t *testing.T) {
	for _, c := range []Config{{Lifetimes: map[string]string{"200": "10m"}}, {Heuristic: "10m"}, {}} {
		r := newRig(t, c)
		r.says(func(x *knot.Ctx) error {
			innerOf(x).CopyHeader([]byte("ETag"), []byte(`"a"`))
			innerOf(x).CopyHeader([]byte("Last-Modified"), []byte(epoch.Add(-time.Hour).Format(http.TimeFormat)))
			if x.Header("If-None-Match") != "" {
				x.SetStatus(304)
				return nil
			}
			return x.SendString(200, "", "x")
		})
		const valid = "hit; fwd=stale; fwd-status=304"
		r.want("fwd=miss; stored", 1, "Cookie: a=b")
		r.want(valid, 2, "Cookie: a=b")
		if c.Heuristic == "" && c.Lifetimes == nil {
			r.want(valid, 3)
			r.want(valid, 4)
			continue
		}
		r.want("fwd=stale; stored", 3)
		r.want("hit", 3)
		r.want("hit", 3, "Cookie: a=b")
	}
}

// TestOwnCookies: a cookie that a proxy of the site sets for the client that has asked is no reason not to keep the response,
// and no other client gets it.
func TestOwnCookies(t *testing.T) {
	r := newRig(t, Config{Cookies: []string{"to"}})
	r.sends(200, fresh, "Set-Cookie: to=1; Path=/", "", "x")
	testenv.Equal(t, r.want("fwd=miss; stored", 1).header.Get("Set-Cookie"), "to=1; Path=/")
	testenv.Equal(t, r.want("hit", 1).header.Get("Set-Cookie"), "")
	r = newRig(t, Config{Cookies: []string{"to"}})
	r.sends(200, fresh, "Set-Cookie: to=1; Path=/", "Set-Cookie: session=2", "", "x")
	r.want("fwd=miss", 1)
	r.want("fwd=miss", 2)
}

// TestLinesOfOneClient: cookies, and lines that a response says are not to be stored, reach the client that has asked, also after a
// 304 of the backend and for a range, and no other client.
func TestLinesOfOneClient(t *testing.T) {
	const named, valid = `Cache-Control: public, max-age=60, no-cache="x-own"`, "hit; fwd=stale; fwd-status=304"
	expect := func(a answer, own string) {
		t.Helper()
		testenv.Equal(t, strings.Join(append(a.header.Values("Set-Cookie"), a.header.Values("X-Own")...), " "), own, a.how())
	}
	r := newRig(t, Config{})
	r.sends(200, `ETag: "a"`, "X-Own: 0", "", "0123")
	r.want("fwd=miss; stored", 1, "Cookie: s=1")
	r.sends(304, `ETag: "a"`, named, "Set-Cookie: s=2", "X-Own: 2")
	expect(r.want(valid, 2), "s=2 2")
	expect(r.want("hit", 2), "")
	r.pass(time.Hour)
	a := r.want(valid, 3, `If-None-Match: "a"`)
	testenv.Equal(t, a.status, 304)
	expect(a, "s=2 2")

	r = newRig(t, Config{})
	r.sends(200, named, "Set-Cookie: s=3", "X-Own: 3", "", "0123")
	a = r.want("fwd=miss; stored", 1, "Range: bytes=1-2")
	testenv.Equal(t, fmt.Sprint(a.status, a.body), "20612")
	expect(a, "s=3 3")
	expect(r.want("hit", 1), "")
}
