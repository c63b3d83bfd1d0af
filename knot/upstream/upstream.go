// Package upstream has an http.RoundTripper for the clients of a fleet of servers: it passes deadlines on, and sends requests again
// without making an overload worse.
package upstream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/orca"
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

// maxDrained is how much of a response is read that another try takes the place of, in bytes, so that its connection can be used again.
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

	once     sync.Once
	budget   *balance.Budget // set by once
	began    time.Time       // set by once
	requests atomic.Uint64   // requests, and questions to the budget; atomic
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
	base, tries := t.Base, t.Tries
	if base == nil {
		base = http.DefaultTransport
	}
	if tries == 0 {
		tries = DefaultTries
	}
	if !repeatable(r) || t.RetryShare < 0 {
		tries = 1
	}
	for try := 1; ; try++ {
		sent, err := t.prepare(r, try)
		if err != nil {
			if r.Body != nil && try == 1 {
				r.Body.Close() // Base, which would close it, does not get it
			}
			return nil, err
		}
		resp, err := base.RoundTrip(sent)
		if try >= tries || !failed(resp, err) || r.Context().Err() != nil {
			return resp, err
		}
		if !t.budget.Take(int64(time.Since(t.began)), t.requests.Add(1)) || !pause(r.Context(), try) {
			return resp, err
		}
		if resp != nil {
			io.CopyN(io.Discard, resp.Body, maxDrained)
			resp.Body.Close()
		}
	}
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
	deadline, limited := r.Context().Deadline()
	if try == 1 && !limited {
		return r, nil
	}
	sent := r.Clone(r.Context())
	if limited {
		left := time.Until(deadline).Milliseconds()
		if left <= 0 {
			return nil, context.DeadlineExceeded
		}
		name := t.TimeoutHeader
		if name == "" {
			name = DefaultTimeoutHeader
		}
		sent.Header.Set(name, strconv.FormatInt(left, 10))
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

// failed reports whether another try may mend it.
func failed(resp *http.Response, err error) bool {
	if err != nil {
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
