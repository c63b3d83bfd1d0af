package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	// askPatience is how long the URL of -acme-ask may take to answer.
	askPatience = 5 * time.Second
	// demandPatience is how long a handshake waits for a certificate.
	demandPatience = time.Minute
	// mostDemands is how many names may be asked for and got at a time: each keeps a thread.
	mostDemands = 16
	// refusedFor is how long a name that got no certificate gets none without a question.
	refusedFor = time.Minute
	// mostRefused limits the names that are remembered for that. When there are more, all are forgotten.
	mostRefused = 10_000
)

// A demand gets certificates for names that clients ask for. Safe from anywhere.
type demand struct {
	url    *url.URL
	client *http.Client
	slots  chan struct{}
	now    func() time.Time

	mu      sync.Mutex
	refused map[string]time.Time // until when; guarded by mu
}

// newDemand makes a demand with a URL that has been checked.
func newDemand(ask string) *demand {
	u, _ := url.Parse(ask)
	client := &http.Client{Timeout: askPatience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &demand{url: u, client: client, slots: make(chan struct{}, mostDemands), now: time.Now, refused: make(map[string]time.Time)}
}

// ask reports whether name may have a certificate: the answer is 200 then.
func (d *demand) ask(ctx context.Context, name string) error {
	u := *d.url
	query := u.Query()
	query.Set("domain", name)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return fmt.Errorf("-acme-ask does not answer for %q: %w", name, errors.Unwrap(err)) // without the URL, which may have a token
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("-acme-ask answers %d for %q; 200 would allow it", resp.StatusCode, name)
	}
	return nil
}

// get is obtain within the limits.
func (d *demand) get(ctx context.Context, name string, obtain func(context.Context) (*tls.Certificate, error)) (*tls.Certificate, error) {
	if d.wasRefused(name) {
		return nil, fmt.Errorf("%q got no certificate less than %v ago", name, refusedFor)
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return nil, fmt.Errorf("certificates for %d names are being got; none is for %q", mostDemands, name)
	}
	ctx, cancel := context.WithTimeout(ctx, demandPatience)
	defer cancel()
	cert, err := obtain(ctx)
	if err != nil {
		d.refuse(name)
	}
	return cert, err
}

func (d *demand) wasRefused(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now().Before(d.refused[name])
}

func (d *demand) refuse(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.refused) >= mostRefused {
		clear(d.refused)
	}
	d.refused[name] = d.now().Add(refusedFor)
}
