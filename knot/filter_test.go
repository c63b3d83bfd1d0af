package knot_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// An edit is a Filter.
type edit struct {
	head func(x *knot.Ctx, h knot.ResponseHead)
}

func (e *edit) FilterHead(x *knot.Ctx, h knot.ResponseHead) { e.head(x, h) }

// loud is an Encoder.
type loud struct {
	out   io.Writer
	ended *strings.Builder
}

func (l loud) Write(p []byte) (int, error) { return l.out.Write(bytes.ToUpper(p)) }
func (l loud) Flush() error                { return nil }
func (l loud) Release()                    { l.ended.WriteString("released ") }
func (l loud) Close() error {
	_, err := io.WriteString(l.out, "!")
	l.ended.WriteString("closed ")
	return err
}

// TestFilter: what filters do to responses.
func TestFilter(t *testing.T) {
	var order, ended strings.Builder
	note := func(name string) *edit {
		return &edit{func(_ *knot.Ctx, h knot.ResponseHead) {
			order.WriteString(name)
			h.Add("X-By", name)
		}}
	}
	first, second := note("1"), note("2")
	change := &edit{func(x *knot.Ctx, h knot.ResponseHead) {
		h.Del("x-gone")
		h.Set("Server", "mine")
		h.Set("content-type", "text/x; of="+h.Get("Content-Type"))
		h.Set("X-Many", "one of "+h.Get("x-many"))
		h.Set("X-Was", http.StatusText(x.Status()))
	}}
	hide := &edit{func(_ *knot.Ctx, h knot.ResponseHead) { h.Del("Server"); h.Del("Content-Type"); h.Del("Date") }}
	encode := &edit{func(_ *knot.Ctx, h knot.ResponseHead) {
		h.Encode(func(out io.Writer) knot.Encoder { return loud{out, &ended} })
		if h.Encode(func(io.Writer) knot.Encoder { t.Error("coded twice"); return nil }) {
			t.Error("a body may be coded twice")
		}
	}}
	known := &edit{func(_ *knot.Ctx, h knot.ResponseHead) { h.NotModified() }}
	for _, c := range []struct {
		name, method string
		h            knot.Handler
		want         string // status, then lines and body, with / between
	}{
		{"order", "GET", func(x *knot.Ctx) error {
			x.Filter(first)
			x.Filter(second)
			x.Filter(first)
			return x.Send(200, "text/plain", nil)
		}, "200/Server: knot/X-By: 2,1/"},
		{"lines", "GET", func(x *knot.Ctx) error {
			x.Filter(change)
			x.AddHeader("X-Many", "a")
			x.AddHeader("X-Gone", "a")
			x.AddHeader("x-many", "b")
			return x.SendString(201, "text/plain", "body")
		}, "201/Content-Type: text/x; of=text/plain/Server: mine/X-Many: one of a, b/X-Was: Created/body"},
		{"hidden", "GET", func(x *knot.Ctx) error { x.Filter(hide); return x.SendString(200, "text/plain", "") }, "200/"},
		{"error", "GET", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(second); return knot.Status(404) }, "404/X-By: 2/<!"},
		{"panic", "GET", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(second); panic("!") }, "500/X-By: 2/<!"},
		{"net/http", "GET", knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(interface{ Filter(knot.Filter) }).Filter(hide)
			w.Header()["Content-Type"] = nil
			io.WriteString(w, "body")
		})), "200/body"},
		{"coded", "GET", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(encode); return x.SendString(200, "", "body") }, "200/BODY!"},
		{"coded error", "GET", func(x *knot.Ctx) error {
			x.Filter(hide)
			x.Filter(encode)
			x.WriteString("body")
			return knot.Status(404)
		}, "404/<!DOCTYPE"},
		{"coded HEAD", "HEAD", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(encode); return x.SendString(200, "", "body") }, "200/"},
		{"coded 204", "GET", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(encode); return knot.Status(204) }, "204/"},
		{"coded 206", "GET", func(x *knot.Ctx) error {
			x.Filter(hide)
			x.Filter(&edit{func(_ *knot.Ctx, h knot.ResponseHead) {
				testenv.True(t, !h.Encode(func(io.Writer) knot.Encoder { return nil }), "a part is coded")
			}})
			return x.SendString(206, "", "body")
		}, "206/body"},
		{"not coded after all", "GET", func(x *knot.Ctx) error {
			x.Filter(hide)
			x.Filter(&edit{func(_ *knot.Ctx, h knot.ResponseHead) {
				testenv.True(t, !h.Encode(func(io.Writer) knot.Encoder { return nil }), "coded by nothing")
			}})
			return x.SendString(200, "", "body")
		}, "200/body"},
		{"known", "GET", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(known); return x.SendString(200, "a/b", "body") }, "304/"},
		{"known, written", "GET", func(x *knot.Ctx) error {
			x.Filter(hide)
			x.Filter(known)
			for range 5000 {
				if _, err := x.WriteString("long body"); err != nil {
					return err
				}
			}
			return x.Flush()
		}, "304/"},
		{"known, net/http", "GET", knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(interface{ Filter(knot.Filter) }).Filter(hide)
			w.(interface{ Filter(knot.Filter) }).Filter(known)
			for range 5000 {
				_, err := io.WriteString(w, "long body")
				testenv.Check(t, err)
			}
		})), "304/"},
		{"known, POST", "POST", func(x *knot.Ctx) error { x.Filter(hide); x.Filter(known); return x.SendString(200, "", "body") }, "200/body"},
	} {
		h := c.h
		resp := knottest.Do(t, func(x *knot.Ctx) error {
			if c.name == "order" {
				x.AddHeader("Server", "knot")
			}
			return h(x)
		}, httptest.NewRequest(c.method, "/", nil))
		parts := []string{resp.Status[:3]}
		for _, name := range []string{"Content-Type", "Server", "X-Gone", "X-Many", "X-Was", "X-By"} {
			if lines := resp.Header[name]; len(lines) > 0 && (c.name != "order" || name != "Content-Type") {
				parts = append(parts, name+": "+strings.Join(lines, ","))
			}
		}
		body := string(testenv.Need(io.ReadAll(resp.Body))(t))
		got := strings.Join(append(parts, body), "/")
		if strings.Contains(c.want, "/<!") {
			got = got[:min(len(got), len(c.want))]
		}
		testenv.Equal(t, strings.ToLower(got), strings.ToLower(c.want), c.name)
		if len(resp.Header["Date"]) != 1 {
			t.Errorf("%s: Date %q", c.name, resp.Header["Date"])
		}
	}
	testenv.Equal(t, order.String(), "2122", "the order of filters")
	testenv.Equal(t, ended.String(), "closed released closed released ", "what was told to the encoders")
}
