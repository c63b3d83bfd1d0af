package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/urgency"
)

// A base answers each try with the next of its statuses, the last one again and again; 0 is an error.
type base struct {
	statuses []int
	lines    map[string]string
	sent     []*http.Request
	bodies   []string
}

func (b *base) RoundTrip(r *http.Request) (*http.Response, error) {
	status := b.statuses[min(len(b.sent), len(b.statuses)-1)]
	b.sent = append(b.sent, r)
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		b.bodies = append(b.bodies, string(body))
	}
	if status == 0 {
		return nil, errors.New("broken")
	}
	h := make(http.Header)
	for name, value := range b.lines {
		h.Set(name, value)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

// TestTries: which requests are sent again, and how often.
func TestTries(t *testing.T) {
	for _, c := range []struct {
		method   string
		statuses []int
		lines    map[string]string
		sent     int
		status   int // 0: an error
	}{
		{"GET", []int{200}, nil, 1, 200},
		{"GET", []int{503, 200}, nil, 2, 200},
		{"PUT", []int{0, 502, 200}, nil, 3, 200},
		{"GET", []int{0}, nil, 3, 0},
		{"GET", []int{504}, nil, 3, 504},
		{"GET", []int{500}, nil, 1, 500},
		{"POST", []int{503, 200}, nil, 1, 503},
		{"GET", []int{503, 200}, map[string]string{"Retry-After": "1"}, 1, 503},
		{"GET", []int{503, 200}, map[string]string{orca.Header: "TEXT application_utilization=1"}, 1, 503},
		{"GET", []int{503, 200}, map[string]string{orca.Header: "TEXT application_utilization=0.9"}, 2, 200},
		{"GET", []int{503, 200}, map[string]string{orca.Header: "TEXT application_utilization=NaN"}, 2, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &base{statuses: c.statuses, lines: c.lines}
			var body io.Reader
			if c.method == "PUT" {
				body = strings.NewReader("content")
			}
			r, err := http.NewRequest(c.method, "http://h/", body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&Transport{Base: b}).RoundTrip(r)
			status := 0
			if err == nil {
				status = resp.StatusCode
			}
			if len(b.sent) != c.sent || status != c.status {
				t.Errorf("%s, %v, %v: %d tries and %d, %v; want %d and %d", c.method, c.statuses, c.lines, len(b.sent), status, err, c.sent, c.status)
			}
			for _, body := range b.bodies {
				if body != "content" {
					t.Errorf("a try has the body %q", body)
				}
			}
		})
	}
}

// dialsLate is a base whose first connection is not made in time.
type dialsLate struct {
	base
	err error
}

func (d *dialsLate) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := d.err; err != nil {
		d.err = nil
		return nil, err
	}
	return d.base.RoundTrip(r)
}

// TestDialTimeout: a request whose connection was not made in time is sent again, unless its own time is over.
func TestDialTimeout(t *testing.T) {
	_, late := net.DialTimeout("tcp", "127.0.0.1:1", time.Nanosecond)
	if !errors.Is(late, context.DeadlineExceeded) {
		t.Fatalf("the error of package net is %v", late)
	}
	for over, want := range map[bool]int{false: 200, true: 0} {
		ctx, cancel := context.WithCancel(t.Context())
		if over {
			cancel()
		}
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://h/", nil)
		status := 0
		if resp, err := (&Transport{Base: &dialsLate{base: base{statuses: []int{200}}, err: late}}).RoundTrip(r); err == nil {
			status = resp.StatusCode
		}
		if status != want {
			t.Errorf("status %d; want %d, as the time of the request is over: %v", status, want, over)
		}
		cancel()
	}
}

// TestBudget: when all fail, further tries are a tenth of the requests, and ten a second.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &base{statuses: []int{503}}
		tr := &Transport{Base: b}
		const requests = 20_000
		began := time.Now()
		for range requests {
			r, _ := http.NewRequest("GET", "http://h/", nil)
			tr.RoundTrip(r)
			time.Sleep(time.Millisecond)
		}
		most := 0.1*requests*1.1 + 10*time.Since(began).Seconds() + 100
		if again := len(b.sent) - requests; float64(again) > most || again < requests/20 {
			t.Errorf("%d further tries for %d requests; want %.0f at most", again, requests, most)
		}
		none := &base{statuses: []int{503}}
		r, _ := http.NewRequest("GET", "http://h/", nil)
		(&Transport{Base: none, RetryShare: -1}).RoundTrip(r)
		if len(none.sent) != 1 {
			t.Errorf("%d tries without a budget", len(none.sent))
		}
	})
}

// TestDeadlines: each try says what is left of the time; without any left nothing is sent, and no try begins that can't end.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://h/", nil)
		b := &base{statuses: []int{503, 200}}
		if resp, err := (&Transport{Base: b}).RoundTrip(r); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		first, _ := strconv.Atoi(b.sent[0].Header.Get(DefaultTimeoutHeader))
		second, _ := strconv.Atoi(b.sent[1].Header.Get(DefaultTimeoutHeader))
		if first != 10_000 || second > first || second < first-50 || r.Header.Get(DefaultTimeoutHeader) != "" {
			t.Errorf("%d and %d ms are left; header of the caller: %v", first, second, r.Header)
		}
		time.Sleep(11 * time.Second)
		body, end := io.Pipe()
		r.Body = body
		if _, err := (&Transport{Base: b}).RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) || len(b.sent) != 2 {
			t.Errorf("after the deadline: %v, %d tries", err, len(b.sent))
		}
		if _, err := end.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("the body of a request that is not sent is open: %v", err)
		}
	})
}

// TestUrgencies: the urgency of the context goes along.
func TestUrgencies(t *testing.T) {
	for _, c := range []struct{ header, name, want string }{{"", "Priority", "u=6"}, {"X-Importance", "X-Importance", "6"}} {
		b := &base{statuses: []int{200}}
		r, _ := http.NewRequestWithContext(WithUrgency(t.Context(), 6), "GET", "http://h/", nil)
		(&Transport{Base: b, UrgencyHeader: c.header}).RoundTrip(r)
		if got := b.sent[0].Header.Get(c.name); got != c.want || len(r.Header) > 0 {
			t.Errorf("%s: %q; want %q; header of the caller: %v", c.name, got, c.want, r.Header)
		}
	}
	for u, want := range map[int]int{-4: 0, 9: 7} {
		if got, _ := urgency.Of(WithUrgency(t.Context(), u)); got != want {
			t.Errorf("%d is %d; want %d", u, got, want)
		}
	}
}
