package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/engine"
)

// Defaults of a Mirror.
const (
	DefaultMirrorBody     = 64 << 10
	DefaultMirrorInFlight = 64
)

// A Mirror is a group of backends that get copies of requests, whose answers are dropped. Copied are requests that may be
// repeated (GET, HEAD, OPTIONS, PUT, DELETE) and ask for no upgrade. No copy is made while requests wait for admission.
type Mirror struct {
	Backends []string // addresses, as Config.Backends
	// Discover is as Config.Discover. While it has found no backend, copies are dropped.
	Discover func(ctx context.Context, set func(backends []string, weights []int) error)
	Share    float64 // of the requests that can be copied, above 0, up to 1; 0: all
	MaxBody  int     // bytes; requests with longer bodies, of unknown length, or with a trailer, are not copied; 0: 64 KB; below 0: none with a body is
	// MaxInFlight is how many copies may be under way; no more are made then. 0: 64.
	MaxInFlight int
}

// mirror makes copies of requests.
type mirror struct {
	Mirror
	to       *Proxy        // whose backends get them
	turn     atomic.Uint32 // requests that could be copied
	inFlight atomic.Int64
}

// maxMirrorAnswer is how much of an answer is read, for the next copy to have the connection.
const maxMirrorAnswer = 256 << 10

func newMirror(c Config) (*mirror, []error) {
	m := &mirror{Mirror: *c.Mirror}
	var errs []error
	if !(m.Share >= 0 && m.Share <= 1) {
		errs = append(errs, &FieldError{"Mirror.Share", fmt.Errorf("%v is not from 0 to 1", m.Share)})
	}
	if m.MaxInFlight < 0 {
		errs = append(errs, &FieldError{"Mirror.MaxInFlight", fmt.Errorf("%d is negative", m.MaxInFlight)})
	}
	if c.FastCGI != nil {
		errs = append(errs, &FieldError{"Mirror", errors.New("copies are made of requests in HTTP, and not for FastCGI")})
		return m, errs
	}
	if m.Share == 0 {
		m.Share = 1
	}
	setDefault(&m.MaxBody, DefaultMirrorBody)
	setDefault(&m.MaxInFlight, DefaultMirrorInFlight)
	c.Backends, c.Weights, c.Discover, c.Balance, c.Bound = m.Backends, nil, m.Discover, "", 0
	c.Sticky, c.Canary, c.Mirror, c.RetryShare, c.Hedge = nil, nil, nil, 0, 0
	c.Zone, c.Zones, c.PanicThreshold = "", nil, 0
	to, err := newProxy(c, true)
	if err != nil {
		errs = append(errs, &FieldError{"Mirror", err})
	}
	m.to = to
	return m, errs
}

// copy sends a copy of the request, if it may. The client waits for no more than its own body. An error is the client's.
func (m *mirror) copy(e *exchange) error {
	x := e.x
	size := x.ContentLength()
	if e.ready {
		size = int64(len(e.content))
	}
	if !e.repeatable || size < 0 || size > int64(m.MaxBody) || x.HeaderBytes("Upgrade") != nil ||
		!e.ready && x.HeaderBytes("Trailer") != nil || balance.Spread(m.turn.Add(1)) >= m.Share {
		return nil
	}
	if loop := engine.CurrentLoop(); loop != nil && loop.AnyWaitsToEnter() {
		m.to.dropped.Add(1)
		return nil
	}
	b := m.to.among(&m.to.stable, m.to.stable.next(), 0, false, e)
	if b == nil || m.inFlight.Add(1) > int64(m.MaxInFlight) {
		if b != nil {
			m.inFlight.Add(-1)
		}
		m.to.dropped.Add(1)
		return nil
	}
	b.outstanding.Add(1)
	leave := func() {
		b.exit()
		m.inFlight.Add(-1)
	}
	if !e.ready { // the backend would wait for it as well
		content := make([]byte, size)
		if _, err := io.ReadFull(x.Body(), content); err != nil {
			leave()
			return err
		}
		e.content, e.ready = content, true
	}
	ctx, cancel := context.WithTimeout(m.to.ctx, m.to.longest())
	own := e.p
	e.p, e.b = m.to, b
	r, _, err := e.http2Request(ctx, nil)
	if e.p, e.b = own, nil; err != nil {
		cancel()
		leave()
		return nil // the request itself will tell
	}
	b.counts.mirrored.Add(1)
	go func() {
		defer cancel()
		defer leave()
		b.take(r)
	}()
	return nil
}

// longest is how long a copy may take.
func (p *Proxy) longest() time.Duration {
	if p.TotalTimeout > 0 {
		return p.TotalTimeout
	}
	if limit := p.ConnectTimeout + p.ResponseTimeout; limit > 0 {
		return limit
	}
	return DefaultConnectTimeout + DefaultResponseTimeout
}

// take sends a copy and drops what is answered.
func (b *backend) take(r *http.Request) {
	asked := elapsed()
	resp, err := b.http2.RoundTrip(r)
	switch {
	case b.p.ctx.Err() != nil:
		return // Close has ended it
	case err != nil:
		cause := causeBroken
		if errors.As(err, new(dialError)) {
			cause = causeConnect
		} else if r.Context().Err() != nil {
			cause = causeTimeout
		}
		b.counts.failures[cause].Add(1)
		b.failed(0)
		return
	}
	defer resp.Body.Close()
	b.noteAnswer()
	b.measured(time.Duration(elapsed()-asked), isServerError(resp), false)
	if class := resp.StatusCode / 100; class < len(b.counts.status) {
		b.counts.status[class].Add(1)
	}
	io.CopyN(io.Discard, resp.Body, maxMirrorAnswer)
}
