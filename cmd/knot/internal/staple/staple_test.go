package staple

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An authority answers about the certificates that it has made, as its fields say.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	url  string

	mu     sync.Mutex
	answer func(w http.ResponseWriter, about *big.Int) // nil: good; guarded by mu
	asked  atomic.Int64
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(1000 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.cert = a.sign(template, template, a.key)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.asked.Add(1)
		question := testenv.Need(ocsp.ParseRequest(testenv.Need(io.ReadAll(r.Body))(t)))(t)
		a.mu.Lock()
		answer := a.answer
		a.mu.Unlock()
		if answer == nil {
			answer = func(w http.ResponseWriter, about *big.Int) { w.Write(a.says(ocsp.Response{SerialNumber: about})) }
		}
		answer(w, question.SerialNumber)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// start is the time at the start of tests.
var start = time.Now().Truncate(time.Second)

func (a *authority) sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	der := testenv.Need(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, a.key))(a.t)
	return testenv.Need(x509.ParseCertificate(der))(a.t)
}

// issue makes a certificate whose chain ends with the authority's.
func (a *authority) issue(serial int64, must bool) *tls.Certificate {
	key := testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "knot.test"}, DNSNames: []string{"knot.test"}, NotBefore: start.Add(-time.Hour), NotAfter: start.Add(1000 * time.Hour), OCSPServer: []string{a.url}}
	if must {
		template.ExtraExtensions = []pkix.Extension{{Id: features, Value: []byte{0x30, 3, 2, 1, 5}}}
	}
	leaf := a.sign(template, a.cert, key)
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, a.cert.Raw}, PrivateKey: key, Leaf: leaf}
}

// says is an answer, good for two hours unless it says otherwise.
func (a *authority) says(r ocsp.Response) []byte {
	if r.ThisUpdate.IsZero() {
		r.ThisUpdate = start
	}
	if r.NextUpdate.IsZero() {
		r.NextUpdate = start.Add(2 * time.Hour)
	}
	return testenv.Need(ocsp.CreateResponse(a.cert, a.cert, r, crypto.Signer(a.key)))(a.t)
}

func (a *authority) set(answer func(w http.ResponseWriter, about *big.Int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// A bench has Staples with a clock that tests move.
type bench struct {
	*Staples
	log   testenv.Buffer
	clock atomic.Int64
	tick  chan time.Time
}

func newBench(t *testing.T, all bool) *bench {
	b := &bench{tick: make(chan time.Time)}
	b.clock.Store(start.UnixNano())
	b.Staples = newStaples(all, slog.New(slog.NewTextHandler(&b.log, nil)), func() time.Time { return time.Unix(0, b.clock.Load()) }, b.tick)
	t.Cleanup(b.Close)
	return b
}

// later moves the clock and has it looked for what is due; when it returns, all of that is done.
func (b *bench) later(d time.Duration) {
	b.clock.Add(int64(d))
	b.tick <- time.Time{}
	b.tick <- time.Time{} // is taken once the first look is over
}

// staple is what a client gets with a certificate after a handshake.
func (b *bench) staple(t *testing.T, cert *tls.Certificate) []byte {
	t.Helper()
	got, err := b.Before(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil })(nil)
	testenv.Must(t, err)
	return got.OCSPStaple
}

// settle has the first question about a certificate answered.
func (b *bench) settle(t *testing.T, cert *tls.Certificate) {
	b.staple(t, cert)
	<-b.entryOf(cert).tried
}

// TestStaple: the first client does not wait, later ones get the answer, which is asked for anew at half its time, and once it has
// expired none is sent.
func TestStaple(t *testing.T) {
	a, b := newAuthority(t), newBench(t, true)
	cert := a.issue(7, false)
	b.settle(t, cert)
	said := testenv.Need(ocsp.ParseResponseForCert(b.staple(t, cert), cert.Leaf, a.cert))(t)
	testenv.Equal(t, said.Status, ocsp.Good)
	testenv.Equal(t, len(cert.OCSPStaple), 0, "the certificate itself is not changed")
	b.later(59 * time.Minute)
	testenv.Equal(t, a.asked.Load(), 1, "questions before the answer is due")
	a.set(func(w http.ResponseWriter, _ *big.Int) { w.WriteHeader(503) })
	for range 3 {
		b.later(20 * time.Minute)
		testenv.True(t, b.staple(t, cert) != nil, "an old answer counts until it ends")
	}
	testenv.Equal(t, a.asked.Load(), 4, "questions after failures")
	b.later(2 * time.Minute)
	testenv.True(t, b.staple(t, cert) == nil, "an answer that has expired is sent")
	testenv.Equal(t, strings.Count(b.log.String(), "status 503"), 1, b.log.String())
	a.set(func(w http.ResponseWriter, about *big.Int) {
		w.Write(a.says(ocsp.Response{SerialNumber: about, NextUpdate: start.Add(100 * time.Hour)}))
	})
	b.later(10 * time.Minute)
	testenv.True(t, b.staple(t, cert) != nil, "no answer when the responder is back")
	b.later(60 * time.Hour) // a client has asked
	asked := a.asked.Load()
	b.later(60 * time.Hour) // none has
	b.mu.Lock()
	testenv.Equal(t, len(b.of), 0, "certificates that no client gets any more")
	b.mu.Unlock()
	testenv.Equal(t, a.asked.Load(), asked, "questions about them")
}

// TestMustStaple: clients wait for the first answer about such a certificate, with the key ocsp or without; about no other is asked
// then.
func TestMustStaple(t *testing.T) {
	a, b := newAuthority(t), newBench(t, false)
	testenv.True(t, b.staple(t, a.issue(8, true)) != nil, "the first client has got no answer")
	testenv.True(t, b.staple(t, a.issue(9, false)) == nil, "an answer that is not wanted")
	plain := a.issue(10, true)
	plain.Leaf.OCSPServer = nil
	testenv.True(t, b.staple(t, plain) == nil, "an answer from nowhere")
	testenv.Equal(t, a.asked.Load(), 1)
	b.Close()
	testenv.True(t, b.staple(t, a.issue(11, true)) == nil, "an answer after the end")
}

// TestNoStaple: answers that clients would not take are not sent, and the log says why, once.
func TestNoStaple(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	fails := func(answer func(w http.ResponseWriter, about *big.Int), says string, cert *tls.Certificate) {
		t.Helper()
		b := newBench(t, true)
		a.set(answer)
		b.settle(t, cert)
		testenv.True(t, b.staple(t, cert) == nil, "%s: it is sent", says)
		testenv.Equal(t, strings.Count(b.log.String(), "\n"), 1, b.log.String())
		testenv.Contains(t, b.log.String(), says)
	}
	say := func(r ocsp.Response) func(http.ResponseWriter, *big.Int) {
		return func(w http.ResponseWriter, about *big.Int) {
			if r.SerialNumber == nil {
				r.SerialNumber = about
			}
			w.Write(a.says(r))
		}
	}
	cert := a.issue(7, false)
	for says, answer := range map[string]func(http.ResponseWriter, *big.Int){
		"was revoked at":       say(ocsp.Response{Status: ocsp.Revoked, RevokedAt: start}),
		"does not know":        say(ocsp.Response{Status: ocsp.Unknown}),
		"has expired at":       say(ocsp.Response{NextUpdate: start.Add(-time.Minute), ThisUpdate: start.Add(-time.Hour)}),
		"which is to come":     say(ocsp.Response{ThisUpdate: start.Add(90 * time.Minute)}),
		"no response matching": say(ocsp.Response{SerialNumber: big.NewInt(99)}),
		"status 404":           func(w http.ResponseWriter, _ *big.Int) { w.WriteHeader(404) },
		"more than 65536":      func(w http.ResponseWriter, _ *big.Int) { w.Write(make([]byte, mostBytes+1)) },
		"error from server":    func(w http.ResponseWriter, _ *big.Int) { w.Write(ocsp.TryLaterErrorResponse) },
		"asn1":                 func(w http.ResponseWriter, _ *big.Int) { io.WriteString(w, "<html>") },
		"bad OCSP signature": func(w http.ResponseWriter, about *big.Int) {
			w.Write(other.says(ocsp.Response{SerialNumber: about}))
		},
	} {
		fails(answer, says, cert)
	}
	alone := *cert
	alone.Certificate = alone.Certificate[:1]
	fails(nil, "no certificate of its authority", &alone)
}

// TestRevokedLater: the last good answer is not sent any more.
func TestRevokedLater(t *testing.T) {
	a, b := newAuthority(t), newBench(t, true)
	cert := a.issue(7, false)
	b.settle(t, cert)
	testenv.True(t, b.staple(t, cert) != nil, "no answer")
	a.set(func(w http.ResponseWriter, about *big.Int) {
		w.Write(a.says(ocsp.Response{SerialNumber: about, Status: ocsp.Revoked, RevokedAt: start}))
	})
	b.later(time.Hour)
	testenv.True(t, b.staple(t, cert) == nil, "the old answer is sent")
}
