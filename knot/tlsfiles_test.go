package knot

import (
	"context"
	"crypto/tls"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/certs"
)

// TestCertificatesByName: exact names go before those for all below a domain, and the first
// certificate stands in for the rest.
func TestCertificatesByName(t *testing.T) {
	ca, dir := newTestCA(t), t.TempDir()
	k, err := certs.Load(certs.Files{Pairs: []certs.Pair{
		ca.files(t, dir, "first.test"), ca.files(t, dir, "star", "*.a.test"), ca.files(t, dir, "x.a.test"),
	}})
	testenv.Must(t, err)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: k.Config(), Handler: echoHandler})
		for name, want := range map[string]string{
			"first.test": "first.test", "X.a.test": "x.a.test", "y.a.test": "star", "a.test": "first.test", "z.y.a.test": "first.test", "": "first.test",
		} {
			nc, _ := sv.dialTLS(&tls.Config{InsecureSkipVerify: true, ServerName: name})
			testenv.Equal(t, nc.ConnectionState().PeerCertificates[0].Subject.CommonName, want, "%q: the certificate of", name)
			nc.Close()
		}
	})
	if !k.Knows("x.a.test") || !k.Knows("q.a.test") || k.Knows("other.test") {
		t.Error("Knows")
	}
	if left := time.Until(k.Expires()); left < 30*time.Minute || left > time.Hour {
		t.Errorf("expires in %v", left)
	}
}

// TestCertificatesReload: new files are served to new clients, those that do not fit are not, and
// tickets go on to be good.
func TestCertificatesReload(t *testing.T) {
	ca, dir := newTestCA(t), t.TempDir()
	pair := ca.files(t, dir, "knot.test")
	k := testenv.Need(certs.Load(certs.Files{Pairs: []certs.Pair{pair}}))(t)
	sv := startServer(t, &Server{TLS: k.Config(), Handler: echoHandler}, 1)
	tickets := ca.client()
	tickets.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	serial := func(config *tls.Config) (string, bool) {
		nc, r := sv.dialTLS(config)
		defer nc.Close()
		io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, r, "GET /a? h") // the ticket comes before
		state := nc.ConnectionState()
		return state.PeerCertificates[0].SerialNumber.String(), state.DidResume
	}
	serial(tickets)
	before, _ := serial(ca.client())
	if changed, err := k.Reload(); changed || err != nil {
		t.Errorf("nothing has changed: %v, %v", changed, err)
	}
	cert, key := ca.pem(t, "knot.test")
	os.WriteFile(pair.Cert, cert, 0o600)
	testenv.ErrorSays(t, testenv.Err(k.Reload()), pair.Cert, "a certificate with the key of another")
	if got, _ := serial(ca.client()); got != before {
		t.Error("half of a change is served")
	}
	os.WriteFile(pair.Key, key, 0o600)
	if changed, err := k.Reload(); !changed || err != nil {
		t.Errorf("%v, %v", changed, err)
	}
	if got, _ := serial(ca.client()); got == before {
		t.Error("the old certificate is served")
	}
	if _, resumed := serial(tickets); !resumed {
		t.Error("a ticket from before was not taken")
	}
	os.Remove(pair.Key)
	testenv.ErrorSays(t, testenv.Err(k.Reload()), pair.Key, "without the key")
	os.WriteFile(pair.Cert, []byte("no PEM"), 0o600)
	testenv.Fails(t, testenv.Err(certs.Load(certs.Files{Pairs: []certs.Pair{pair}})), "loaded garbage")
	testenv.Fails(t, testenv.Err(certs.Load(certs.Files{})), "loaded nothing")
}

// TestCertificateIsAFIFO: nobody writes to it, and nobody waits for that.
func TestCertificateIsAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	testenv.Must(t, unix.Mkfifo(fifo, 0o600))
	for _, files := range []certs.Files{
		{Pairs: []certs.Pair{{Cert: fifo, Key: fifo}}},
		{Pairs: []certs.Pair{{Cert: t.TempDir(), Key: fifo}}},
	} {
		testenv.ErrorSays(t, testenv.Err(certs.Load(files)), "is not a regular file")
	}
}

// TestCertificatesWatch: a change is found, an error told once.
func TestCertificatesWatch(t *testing.T) {
	ca, dir := newTestCA(t), t.TempDir()
	pair := ca.files(t, dir, "knot.test")
	k := testenv.Need(certs.Load(certs.Files{Pairs: []certs.Pair{pair}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error)
	ended := make(chan bool)
	go func() {
		k.Watch(ctx, time.Millisecond, func(err error) { told <- err })
		close(ended)
	}()
	cert, key := ca.pem(t, "knot.test")
	os.WriteFile(pair.Cert, []byte("no PEM"), 0o600)
	for err := <-told; err == nil || !strings.Contains(err.Error(), pair.Cert); err = <-told {
	}
	aside := filepath.Join(dir, "aside")
	os.WriteFile(pair.Key, key, 0o600)
	os.WriteFile(aside, cert, 0o600)
	os.Rename(aside, pair.Cert)
	for err := <-told; err != nil; err = <-told {
	}
	cancel()
	<-ended
}

// TestClientCertificates: required, or welcome.
func TestClientCertificates(t *testing.T) {
	ca, other, dir := newTestCA(t), newTestCA(t), t.TempDir()
	pair := ca.files(t, dir, "knot.test")
	authority := filepath.Join(dir, "ca.pem")
	os.WriteFile(authority, pemOf(ca), 0o600)
	certOf := func(ca *testCA) tls.Certificate {
		cert, key := ca.pem(t, "client")
		c := testenv.Need(tls.X509KeyPair(cert, key))(t)
		return c
	}
	for _, optional := range []bool{false, true} {
		k := testenv.Need(certs.Load(certs.Files{Pairs: []certs.Pair{pair}, ClientCA: authority, ClientOptional: optional}))(t)
		sv := startServer(t, &Server{TLS: k.Config(), Handler: func(x *Ctx) error {
			name := "nobody"
			if certs := x.TLS().PeerCertificates; len(certs) > 0 {
				name = certs[0].Subject.CommonName
			}
			return x.SendString(200, "text/plain", name)
		}}, 1)
		ask := func(certs ...tls.Certificate) string {
			config := ca.client()
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(certs) == 0 {
					return new(tls.Certificate), nil
				}
				return &certs[0], nil
			}
			nc, err := tls.Dial("tcp", sv.addr, config)
			if err != nil {
				return "refused"
			}
			defer nc.Close()
			io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			all, err := io.ReadAll(nc)
			if err != nil {
				return "refused"
			}
			return string(all[strings.LastIndex(string(all), "\n")+1:])
		}
		without := "refused"
		if optional {
			without = "nobody"
		}
		testenv.Equal(t, ask(), without, "optional %v, without", optional)
		testenv.Equal(t, ask(certOf(ca)), "client", "optional %v, ours", optional)
		testenv.Equal(t, ask(certOf(other)), "refused", "optional %v, of another authority", optional)
		if !optional {
			os.WriteFile(authority, pemOf(other), 0o600)
			if changed, err := k.Reload(); !changed || err != nil {
				t.Error(changed, err)
			}
			testenv.Equal(t, ask(certOf(other)), "client", "after a reload")
			os.WriteFile(authority, pemOf(ca), 0o600)
		}
	}
	os.WriteFile(authority, nil, 0o600)
	if _, err := certs.Load(certs.Files{Pairs: []certs.Pair{pair}, ClientCA: authority}); err == nil || !strings.Contains(err.Error(), authority) {
		t.Errorf("an empty file of authorities: %v", err)
	}
}
