package upstream

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A slowBase answers each try after a time that takes says; below 0 it fails at once.
type slowBase struct {
	takes func(n int) time.Duration

	mu                 sync.Mutex
	tries, ended, open int // open: bodies
	bodies             []string
}

func (b *slowBase) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	d := b.takes(b.tries)
	b.tries++
	b.mu.Unlock()
	if r.Body != nil {
		body, _ := io.ReadAll(r.Body)
		b.mu.Lock()
		b.bodies = append(b.bodies, string(body))
		b.mu.Unlock()
	}
	if d < 0 {
		return nil, errors.New("broken")
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		b.mu.Lock()
		b.ended++
		b.mu.Unlock()
		return nil, r.Context().Err()
	}
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
	return &http.Response{StatusCode: 200, Header: make(http.Header), Body: &countedBody{strings.NewReader("x"), b}}, nil
}

type countedBody struct {
	io.Reader
	b *slowBase
}

func (c *countedBody) Close() error {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.open--
	return nil
}

// TestHedging: one request in twenty is slow; with hedging hardly any is, for a twentieth more requests. Without the budget there
// is none, and with slow servers no more than it allows.
func TestHedging(t *testing.T) {
	const requests = 4000
	run := func(tr *Transport, method string, slowShare float64) (slow int, b *slowBase) {
		rnd := rand.New(rand.NewPCG(1, 2))
		b = &slowBase{takes: func(int) time.Duration {
			if rnd.Float64() < slowShare {
				return time.Second
			}
			return 5*time.Millisecond + time.Duration(rnd.IntN(int(5*time.Millisecond)))
		}}
		tr.Base = b
		for range requests {
			r, _ := http.NewRequest(method, "http://h/", strings.NewReader("content"))
			began := time.Now()
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(resp.Body); string(text) != "x" || err != nil {
				t.Fatalf("%q, %v", text, err)
			}
			resp.Body.Close()
			if time.Since(began) > 100*time.Millisecond {
				slow++
			}
		}
		synctest.Wait()
		if b.open != 0 {
			t.Errorf("%d bodies are open", b.open)
		}
		for _, body := range b.bodies {
			if body != "content" {
				t.Fatalf("a try has the body %q", body)
			}
		}
		return slow, b
	}
	synctest.Test(t, func(t *testing.T) {
		if slow, b := run(new(Transport), "PUT", 0.04); slow < requests/50 || b.tries != requests {
			t.Errorf("without hedging %d of %d are slow, after %d tries", slow, requests, b.tries)
		}
		slow, b := run(&Transport{Hedge: 0.95}, "PUT", 0.04)
		if slow > requests/100 || b.tries > requests+requests/10 {
			t.Errorf("%d of %d are slow, after %d tries", slow, requests, b.tries)
		}
		if b.ended == 0 {
			t.Error("no request was cancelled")
		}
		if slow, b := run(&Transport{Hedge: 0.95}, "POST", 0.04); slow < requests/50 || b.tries != requests {
			t.Errorf("POST: %d are slow, after %d tries", slow, b.tries)
		}
		if _, b := run(&Transport{Hedge: 0.95, RetryShare: -1}, "PUT", 0.04); b.tries != requests {
			t.Errorf("without a budget: %d tries", b.tries)
		}
		began := time.Now()
		_, b = run(&Transport{Hedge: 0.5, RetryShare: 0.02}, "PUT", 0)
		if most := 0.02*requests*1.1 + 10*time.Since(began).Seconds() + 100; float64(b.tries-requests) > most {
			t.Errorf("%d further tries; want %.0f at most", b.tries-requests, most)
		}
	})
}

// TestHedgedFailures: a copy that fails does not end the other; when both fail the request is sent again.
func TestHedgedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Hedge: 0.9}
		ask := func(takes ...time.Duration) (time.Duration, int, error) {
			b := &slowBase{takes: func(n int) time.Duration { return takes[n] }}
			tr.Base = b
			r, _ := http.NewRequest("GET", "http://h/", nil)
			began := time.Now()
			resp, err := tr.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			return time.Since(began), b.tries, err
		}
		for range 64 {
			ask(10 * time.Millisecond)
		}
		if d, tries, err := ask(200*time.Millisecond, -1); err != nil || tries != 2 || d != 200*time.Millisecond {
			t.Errorf("a hedge that fails: %v, %v after %d tries", err, d, tries)
		}
		if d, tries, err := ask(time.Second, 20*time.Millisecond); err != nil || tries != 2 || d != 30*time.Millisecond {
			t.Errorf("a hedge that is faster: %v, %v after %d tries", err, d, tries)
		}
		if _, tries, err := ask(-1, 1); err != nil || tries != 2 {
			t.Errorf("a failure before the hedge: %v after %d tries", err, tries)
		}
		if _, tries, err := ask(-1, -1, -1, -1); err == nil || tries != 3 {
			t.Errorf("failures only: %v after %d tries", err, tries)
		}
		tr = &Transport{Hedge: 0.9, RetryShare: 1}
		for range 64 {
			ask(10 * time.Millisecond)
		}
		for range 256 {
			ask(-1, -1, -1)
		}
		if _, tries, err := ask(5*time.Millisecond, 5*time.Millisecond); err != nil || tries != 1 {
			t.Errorf("after many failures: %v after %d tries", err, tries)
		}
	})
}

// TestHedgedHosts: there is a limit to how many hosts times are kept of.
func TestHedgedHosts(t *testing.T) {
	tr := &Transport{Hedge: 0.9, Base: &slowBase{takes: func(int) time.Duration { return 0 }}}
	for i := range 2 * hedgeHosts {
		r, _ := http.NewRequest("GET", "http://h"+strings.Repeat("x", i)+"/", nil)
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if len(tr.took.all) != hedgeHosts {
		t.Errorf("times of %d hosts are kept; want %d", len(tr.took.all), hedgeHosts)
	}
}
