package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
)

// hedgeHosts is how many hosts there are times of; requests to others are not hedged.
const hedgeHosts = 256

// tookByHost is how long the last requests to each host took. Safe from anywhere. The zero value has none.
type tookByHost struct {
	mu  sync.Mutex
	all map[string]*balance.Times // guarded by mu
}

// of returns the times of a host; nil: there is no room for them.
func (h *tookByHost) of(host string) *balance.Times {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = make(map[string]*balance.Times)
	}
	if h.all[host] == nil && len(h.all) < hedgeHosts {
		h.all[host] = new(balance.Times)
	}
	return h.all[host]
}

// A sentCopy is a request that was sent.
type sentCopy struct {
	began  time.Time
	cancel context.CancelFunc
}

// An answer is what has become of a copy.
type answer struct {
	of   *sentCopy
	resp *http.Response
	err  error
}

// hedge sends r, and once more if the answer takes long, and returns the first good answer. sent is how often it was sent.
func (t *Transport) hedge(r *http.Request, try int) (resp *http.Response, sent int, err error) {
	times := t.took.of(r.URL.Host)
	if times == nil || r.Header.Get("Upgrade") != "" { // its connection could not be told from a body
		resp, err = t.send(r, try)
		return resp, 1, err
	}
	wait, known := times.Quantile(t.Hedge)
	if !known {
		began := time.Now()
		if resp, err = t.send(r, try); err == nil {
			times.Add(time.Since(began))
		}
		return resp, 1, err
	}
	answers := make(chan answer, 2)
	first := t.start(r, try, answers)
	sent = 1
	// Also if the other answer is taken: without the slowest times the next requests would be hedged sooner and sooner. Failures
	// that come at once would have the same effect; a deadline that has passed shows that the answer is slow.
	defer func() {
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			times.Add(time.Since(first.began))
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for second, underWay := (*sentCopy)(nil), 1; ; {
		var a answer
		select {
		case <-timer.C:
			if t.mayTry() {
				second = t.start(r, try+1, answers)
				sent, underWay = 2, 2
			}
			continue
		case a = <-answers:
		}
		underWay--
		if underWay > 0 && failed(a.resp, a.err) {
			a.drop()
			continue
		}
		if other := first; underWay > 0 {
			if a.of == first {
				other = second
			}
			other.cancel()
			go func() {
				late := <-answers
				late.drop()
			}()
		}
		if a.resp == nil {
			a.of.cancel()
			return nil, sent, a.err
		}
		a.resp.Body = &cancelling{a.resp.Body, a.of.cancel}
		return a.resp, sent, nil
	}
}

// start sends a copy of r on a goroutine.
func (t *Transport) start(r *http.Request, try int, answers chan<- answer) *sentCopy {
	ctx, cancel := context.WithCancel(r.Context())
	c := &sentCopy{time.Now(), cancel}
	go func() {
		resp, err := t.send(r.WithContext(ctx), try)
		answers <- answer{c, resp, err}
	}()
	return c
}

// drop ends a copy whose answer is not used.
func (a answer) drop() {
	if a.resp != nil {
		a.resp.Body.Close()
	}
	a.of.cancel()
}

// A cancelling is the body of a response, whose request is over when it is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (c *cancelling) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}
