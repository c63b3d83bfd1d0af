package certs

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func pair(t *testing.T, ca *testenv.CA, dir string, names ...string) (p Pair) {
	p.Cert, p.Key = ca.Files(t, dir, names...)
	return p
}

// shake does a handshake and returns what client and server see of each other. What either refuses is an error.
func shake(server, client *tls.Config) (seen, served tls.ConnectionState, err error) {
	near, far := net.Pipe()
	defer near.Close()
	there := make(chan tls.ConnectionState, 1)
	go func() {
		defer far.Close()
		nc := tls.Server(far, server)
		nc.Write([]byte("x")) // the ticket comes before
		there <- nc.ConnectionState()
	}()
	nc := tls.Client(near, client)
	if _, err := io.ReadFull(nc, make([]byte, 1)); err != nil {
		return seen, served, err
	}
	return nc.ConnectionState(), <-there, nil
}

// TestCertificatesByName: exact names go before those for all below a domain, and the first
// certificate stands in for the rest.
func TestCertificatesByName(t *testing.T) {
	ca, dir := testenv.NewCA(t), t.TempDir()
	k := testenv.Need(Load(Files{Pairs: []Pair{
		pair(t, ca, dir, "first.test"), pair(t, ca, dir, "star", "*.a.test"), pair(t, ca, dir, "x.a.test"),
	}}))(t)
	for name, want := range map[string]string{
		"first.test": "first.test", "X.a.test": "x.a.test", "y.a.test": "star", "a.test": "first.test", "z.y.a.test": "first.test", "": "first.test",
	} {
		seen, _, err := shake(k.Config(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
		testenv.Must(t, err)
		testenv.Equal(t, seen.PeerCertificates[0].Subject.CommonName, want, "%q: the certificate of", name)
	}
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
	ca, dir := testenv.NewCA(t), t.TempDir()
	pair := pair(t, ca, dir, "knot.test")
	k := testenv.Need(Load(Files{Pairs: []Pair{pair}}))(t)
	server, tickets := k.Config(), ca.Client()
	tickets.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	serial := func(config *tls.Config) (string, bool) {
		state, _, err := shake(server, config)
		testenv.Must(t, err)
		return state.PeerCertificates[0].SerialNumber.String(), state.DidResume
	}
	serial(tickets)
	before, _ := serial(ca.Client())
	testenv.Got(k.Reload())(t, false, "nothing has changed")
	cert, key := ca.PEM(t, "knot.test")
	os.WriteFile(pair.Cert, cert, 0o600)
	testenv.ErrorSays(t, testenv.Err(k.Reload()), pair.Cert, "a certificate with the key of another")
	if got, _ := serial(ca.Client()); got != before {
		t.Error("half of a change is served")
	}
	os.WriteFile(pair.Key, key, 0o600)
	testenv.Got(k.Reload())(t, true, "changed")
	if got, _ := serial(ca.Client()); got == before {
		t.Error("the old certificate is served")
	}
	if _, resumed := serial(tickets); !resumed {
		t.Error("a ticket from before was not taken")
	}
	os.Remove(pair.Key)
	testenv.ErrorSays(t, testenv.Err(k.Reload()), pair.Key, "without the key")
	os.WriteFile(pair.Cert, []byte("no PEM"), 0o600)
	testenv.Fails(t, testenv.Err(Load(Files{Pairs: []Pair{pair}})), "loaded garbage")
	testenv.Fails(t, testenv.Err(Load(Files{})), "loaded nothing")
}

// TestCertificateIsAFIFO: nobody writes to it, and nobody waits for that.
func TestCertificateIsAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	testenv.Must(t, unix.Mkfifo(fifo, 0o600))
	for _, files := range []Files{
		{Pairs: []Pair{{Cert: fifo, Key: fifo}}},
		{Pairs: []Pair{{Cert: t.TempDir(), Key: fifo}}},
	} {
		testenv.ErrorSays(t, testenv.Err(Load(files)), "is not a regular file")
	}
}

// TestCertificatesWatch: a change is found, an error told once.
func TestCertificatesWatch(t *testing.T) {
	ca, dir := testenv.NewCA(t), t.TempDir()
	pair := pair(t, ca, dir, "knot.test")
	k := testenv.Need(Load(Files{Pairs: []Pair{pair}}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan error)
	ended := make(chan bool)
	go func() {
		k.Watch(ctx, time.Millisecond, func(err error) { told <- err })
		close(ended)
	}()
	cert, key := ca.PEM(t, "knot.test")
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
	ca, other, dir := testenv.NewCA(t), testenv.NewCA(t), t.TempDir()
	pair := pair(t, ca, dir, "knot.test")
	authority := filepath.Join(dir, "ca.pem")
	os.WriteFile(authority, ca.Authority(), 0o600)
	certOf := func(ca *testenv.CA) tls.Certificate {
		return testenv.Need(tls.X509KeyPair(ca.PEM(t, "client")))(t)
	}
	for _, optional := range []bool{false, true} {
		k := testenv.Need(Load(Files{Pairs: []Pair{pair}, ClientCA: authority, ClientOptional: optional}))(t)
		server := k.Config()
		ask := func(certs ...tls.Certificate) string {
			config := ca.Client()
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(certs) == 0 {
					return new(tls.Certificate), nil
				}
				return &certs[0], nil
			}
			_, seen, err := shake(server, config)
			switch {
			case err != nil:
				return "refused"
			case len(seen.PeerCertificates) == 0:
				return "nobody"
			}
			return seen.PeerCertificates[0].Subject.CommonName
		}
		without := "refused"
		if optional {
			without = "nobody"
		}
		testenv.Equal(t, ask(), without, "optional %v, without", optional)
		testenv.Equal(t, ask(certOf(ca)), "client", "optional %v, ours", optional)
		testenv.Equal(t, ask(certOf(other)), "refused", "optional %v, of another authority", optional)
		if !optional {
			os.WriteFile(authority, other.Authority(), 0o600)
			testenv.Got(k.Reload())(t, true, "changed")
			testenv.Equal(t, ask(certOf(other)), "client", "after a reload")
			os.WriteFile(authority, ca.Authority(), 0o600)
		}
	}
	os.WriteFile(authority, nil, 0o600)
	testenv.ErrorSays(t, testenv.Err(Load(Files{Pairs: []Pair{pair}, ClientCA: authority})), authority, "an empty file of authorities")
}
