// Package upstream has an http.RoundTripper for the clients of a fleet of servers: it passes deadlines and urgencies on, and sends
// requests again without making an overload worse.
package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/timeleft"
	"github.com/capriccio-go/capriccio/internal/urgency"
)

// Defaults of Transport.
const (
	DefaultRetryShare    = 0.1
	DefaultTries         = 3
	DefaultTimeoutHeader = "X-Request-Timeout"
)

// pauseUnit is the longest pause before the second try; each further one may be twice as long. A pause is a random part of that,
// so that clients whose requests failed together do not come back together.
const pauseUnit = 50 * time.Millisecond

// maxDrained is how much is read of a response that is not used, in bytes, so that its connection can be used again.
const maxDrained = 4 << 10

// A Transport sends requests by Base. It tells the server how long the client will wait, and sends a request again that failed, if its
// method may be repeated (RFC 9110, 9.2.2) and its body can be read again (http.Request.GetBody). The zero value is ready to use. Fields
// must not be changed once it is used; RoundTrip may be called from any goroutine.
type Transport struct {
	Base http.RoundTripper // nil: http.DefaultTransport
	// RetryShare bounds further tries to this part of the requests, from 0 to 1, and ten a second. 0: a tenth; below 0: there are none.
	RetryShare float64
	// Tries is how often a request is sent at most. 0: three times.
	Tries int
	// TimeoutHeader gets what is left until the deadline of the request's context, in milliseconds. "": X-Request-Timeout.
	TimeoutHeader string
	// UrgencyHeader gets the urgency that the request's context carries, see WithUrgency. "": Priority (RFC 9218).
	UrgencyHeader string
	// Hedge, from 0 to 1, has a request that may be repeated sent once more while the server has not answered, once it has taken
	// longer than this part of the last requests to that host: 0.95 is for the slowest twentieth. The first good answer counts,
	// and the other request is cancelled. It is one of the further tries. 0: off.
	Hedge float64

	once     sync.Once
	budget   *balance.Budget // set by once
	began    time.Time       // set by once
	requests atomic.Uint64   // requests, and questions to the budget; atomic
	took     tookByHost
}

// WithUrgency returns a context whose requests have this urgency: from 0, the most important, to 7; others have 3. A request to a server
// of package knot brings its own along in its context.
func WithUrgency(ctx context.Context, u int) context.Context {
	return urgency.With(ctx, min(max(u, 0), urgency.Least))
}

// RoundTrip implements http.RoundTripper. A response with status 502, 503 or 504 is a failure, unless it says that the server does not
// want the request again: by Retry-After, or by a load report of 1. It may park.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(func() {
		share := t.RetryShare
		if share == 0 {
			share = DefaultRetryShare
		}
		t.budget, t.began = balance.NewBudget(max(share, 0)), time.Now()
	})
	t.requests.Add(1)
	tries := t.Tries
	if tries == 0 {
		tries = DefaultTries
	}
	if !repeatable(r) || t.RetryShare < 0 {
		tries = 1
	}
	for try := 1; ; try++ {
		var resp *http.Response
		var err error
		if t.Hedge > 0 && try < tries {
			var sent int
			resp, sent, err = t.hedge(r, try)
			try += sent - 1
		} else {
			resp, err = t.send(r, try)
		}
		if try >= tries || !failed(resp, err) || r.Context().Err() != nil {
			return resp, err
		}
		if !t.mayTry() || !pause(r.Context(), try) {
			return resp, err
		}
		if resp != nil {
			discard(resp)
		}
	}
}

// send sends r by Base, for that try.
func (t *Transport) send(r *http.Request, try int) (*http.Response, error) {
	sent, err := t.prepare(r, try)
	if err != nil {
		if r.Body != nil && try == 1 {
			r.Body.Close() // Base, which would close it, does not get it
		}
		return nil, err
	}
	if t.Base == nil {
		return http.DefaultTransport.RoundTrip(sent)
	}
	return t.Base.RoundTrip(sent)
}

// mayTry takes a further try from the budget.
func (t *Transport) mayTry() bool {
	return t.budget.Take(int64(time.Since(t.began)), t.requests.Add(1))
}

// discard reads a little of a response that is not used, and closes it.
func discard(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, maxDrained)
	resp.Body.Close()
}

// repeatable reports whether r may be sent again.
func repeatable(r *http.Request) bool {
	switch r.Method {
	case "", "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE":
		return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
	}
	return false
}

// prepare returns the request for a try.
func (t *Transport) prepare(r *http.Request, try int) (*http.Request, error) {
	ctx := r.Context()
	deadline, limited := ctx.Deadline()
	u, urgent := urgency.Of(ctx)
	if try == 1 && !limited && !urgent {
		return r, nil
	}
	sent := r.Clone(ctx)
	if limited {
		left := time.Until(deadline)
		if left < time.Millisecond {
			return nil, context.DeadlineExceeded
		}
		sent.Header.Set(orElse(t.TimeoutHeader, DefaultTimeoutHeader), timeleft.FormatMilliseconds(left))
	}
	if urgent {
		name := orElse(t.UrgencyHeader, urgency.Header)
		sent.Header.Set(name, urgency.Format(name, u))
	}
	if try > 1 && r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		sent.Body = body
	}
	return sent, nil
}

func orElse(name, standard string) string {
	if name == "" {
		return standard
	}
	return name
}

// failed reports whether another try may mend it.
func failed(resp *http.Response, err error) bool {
	if err != nil {
		var of *net.OpError
		if errors.As(err, &of) && of.Op == "dial" {
			return true // a connection has a time of its own to be made, whose end is context.DeadlineExceeded to package net
		}
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	}
	switch resp.StatusCode {
	case 502, 503, 504:
		return resp.Header.Get("Retry-After") == "" && !full(resp.Header)
	}
	return false
}

// full reports whether a server says that it can do no more.
func full(h http.Header) bool {
	value, binary := h.Get(orca.Header), false
	if value == "" {
		value, binary = h.Get(orca.BinaryHeader), true
	}
	r, err := orca.Parse(value, binary)
	return err == nil && r.Application >= 1
}

// pause waits before the next try, and reports whether there is time for that.
func pause(ctx context.Context, try int) bool {
	d := time.Duration(rand.Int64N(int64(pauseUnit) << min(try-1, 6)))
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
