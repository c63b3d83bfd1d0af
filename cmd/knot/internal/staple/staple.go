// Package staple has answers about certificates from files (OCSP, RFC 6960) sent with them in handshakes, as the key ocsp of
// command knot says. It asks the responder that a certificate names in the background, so that no client waits, but those of
// certificates that clients accept only with an answer (Must-Staple, RFC 7633).
package staple

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/capriccio-go/capriccio/task"
)

const (
	// patience is how long a responder may take.
	patience = 10 * time.Second
	// mostBytes is how long an answer may be: those of authorities have some 500 to 2000 bytes.
	mostBytes = 64 << 10
	// lookEvery is how often it is looked which answers are due.
	lookEvery = time.Minute
	// retryAfter is when a responder that gave no answer is asked again.
	retryAfter = 10 * time.Minute
	// undated is for how long an answer counts that does not say when the next one comes.
	undated = time.Hour
)

// Staples are the answers about the certificates that a server shows. Safe from anywhere.
type Staples struct {
	all    bool // about every certificate that names a responder; else about those with Must-Staple
	log    *slog.Logger
	now    func() time.Time
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	under  sync.WaitGroup // what runs in the background

	mu    sync.Mutex
	of    map[*tls.Certificate]*entry // guarded by mu
	ended bool                        // guarded by mu
}

// An entry is what is known of a certificate that an answer is wanted about.
type entry struct {
	cert  *tls.Certificate
	tried chan struct{}          // closed when the responder was asked for the first time
	good  atomic.Pointer[answer] // nil: there is none; atomic
	asked atomic.Bool            // a client has got the certificate since the responder was asked; atomic

	due    time.Time // when the responder is asked again; guarded by Staples.mu
	failed bool      // ... it gave no answer; used by one fetch at a time
}

// An answer is a certificate with what the responder said.
type answer struct {
	cert *tls.Certificate
	ends time.Time
}

// New returns Staples for all certificates that name a responder, or for those with Must-Staple alone. Call Close at the end.
func New(all bool, log *slog.Logger) *Staples {
	tick := time.NewTicker(lookEvery)
	s := newStaples(all, log, time.Now, tick.C)
	context.AfterFunc(s.ctx, tick.Stop)
	return s
}

func newStaples(all bool, log *slog.Logger, now func() time.Time, tick <-chan time.Time) *Staples {
	s := &Staples{all: all, log: log, now: now, of: make(map[*tls.Certificate]*entry)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.under.Go(func() {
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-tick:
				s.look()
			}
		}
	})
	return s
}

// Close ends what runs in the background.
func (s *Staples) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	s.under.Wait()
}

// Before is get, tls.Config.GetCertificate, with answers added to the certificates. It may park.
func (s *Staples) Before(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := get(hello)
		if err != nil || cert.Leaf == nil || len(cert.Leaf.OCSPServer) == 0 {
			return cert, err
		}
		return s.add(cert), nil
	}
}

// add is the certificate with an answer, if there is one.
func (s *Staples) add(cert *tls.Certificate) *tls.Certificate {
	must := mustStaple(cert.Leaf)
	if !s.all && !must {
		return cert
	}
	e := s.entryOf(cert)
	e.asked.Store(true)
	if must {
		select {
		case <-e.tried:
		default:
			task.Offload(func() { <-e.tried })
		}
	}
	if a := e.good.Load(); a != nil && s.now().Before(a.ends) {
		return a.cert
	}
	return cert
}

// entryOf is the entry of a certificate. That of a new one asks the responder.
func (s *Staples) entryOf(cert *tls.Certificate) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.of[cert]
	if e == nil {
		e = &entry{cert: cert, tried: make(chan struct{})}
		s.of[cert] = e
		if s.ended {
			close(e.tried)
			return e
		}
		e.due = s.now().Add(retryAfter)
		s.under.Go(func() {
			defer close(e.tried)
			s.fetch(e)
		})
	}
	return e
}

// look asks about the certificates whose answers are due, one after another, and forgets those that no client has got since: other
// files have taken their place.
func (s *Staples) look() {
	s.mu.Lock()
	var due []*entry
	for cert, e := range s.of {
		switch {
		case s.now().Before(e.due):
		case !e.asked.Swap(false):
			delete(s.of, cert)
		default:
			e.due = s.now().Add(retryAfter)
			due = append(due, e)
		}
	}
	s.mu.Unlock()
	for _, e := range due {
		s.fetch(e)
	}
}

// fetch asks the responder. Its last answer counts as long as it said.
func (s *Staples) fetch(e *entry) {
	leaf := e.cert.Leaf
	said, raw, err := s.ask(e.cert)
	if s.ctx.Err() != nil {
		return
	}
	if err != nil {
		if said != nil && said.Status == ocsp.Revoked {
			e.good.Store(nil)
		}
		if !e.failed {
			s.log.Warn("knot: the state of a certificate is not known (OCSP); clients get it without, once the last answer has expired",
				"certificate", leaf.Subject.CommonName, "responder", leaf.OCSPServer[0], "error", err)
		}
		e.failed = true
		return
	}
	e.failed = false
	stapled := *e.cert
	stapled.OCSPStaple = raw
	now := s.now()
	a := &answer{cert: &stapled, ends: said.NextUpdate}
	if a.ends.IsZero() {
		a.ends = now.Add(undated)
	}
	e.good.Store(a)
	s.mu.Lock()
	e.due = now.Add(max(a.ends.Sub(now)/2, lookEvery))
	s.mu.Unlock()
}

// ask asks the responder of a certificate. An answer that says anything else than good is an error too.
func (s *Staples) ask(cert *tls.Certificate) (said *ocsp.Response, raw []byte, err error) {
	if len(cert.Certificate) < 2 {
		return nil, nil, errors.New("the file has no certificate of its authority behind the first one")
	}
	issuer, err := x509.ParseCertificate(cert.Certificate[1])
	if err != nil {
		return nil, nil, err
	}
	question, err := ocsp.CreateRequest(cert.Leaf, issuer, nil)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", cert.Leaf.OCSPServer[0], bytes.NewReader(question))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/ocsp-request")
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return nil, nil, fmt.Errorf("it has answered with status %d", resp.StatusCode)
	}
	if raw, err = io.ReadAll(io.LimitReader(resp.Body, mostBytes+1)); err != nil {
		return nil, nil, err
	}
	if len(raw) > mostBytes {
		return nil, nil, fmt.Errorf("its answer has more than %d bytes", mostBytes)
	}
	if said, err = ocsp.ParseResponseForCert(raw, cert.Leaf, issuer); err != nil {
		return nil, nil, err
	}
	return said, raw, s.check(said)
}

// check reports why an answer can't be sent to clients.
func (s *Staples) check(said *ocsp.Response) error {
	now := s.now()
	switch {
	case said.Status == ocsp.Revoked:
		return fmt.Errorf("the certificate was revoked at %v", said.RevokedAt)
	case said.Status != ocsp.Good:
		return errors.New("the responder does not know the certificate")
	case said.Certificate != nil && !slices.Contains(said.Certificate.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) && !said.Certificate.IsCA:
		return errors.New("its answer is signed by a certificate that is not for that")
	case !said.NextUpdate.IsZero() && !now.Before(said.NextUpdate):
		return fmt.Errorf("its answer has expired at %v", said.NextUpdate)
	case now.Before(said.ThisUpdate.Add(-undated)): // clocks differ
		return fmt.Errorf("its answer is from %v, which is to come", said.ThisUpdate)
	}
	return nil
}

// features is the extension that has Must-Staple: a list in which number 5 is the extension status_request (RFC 7633, 4.2.3).
var features = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}

// mustStaple reports whether clients refuse the certificate without an answer.
func mustStaple(leaf *x509.Certificate) bool {
	for _, extension := range leaf.Extensions {
		var numbers []int
		if extension.Id.Equal(features) {
			_, err := asn1.Unmarshal(extension.Value, &numbers)
			return err == nil && slices.Contains(numbers, 5)
		}
	}
	return false
}
