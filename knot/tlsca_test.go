package knot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/certs"
)

// A testCA signs certificates.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	next int64
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testenv.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := testenv.Need(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	ca := &testCA{key: key, pool: x509.NewCertPool(), next: 2}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.pool.AddCert(ca.cert)
	return ca
}

// pem makes a certificate for names, and its key.
func (ca *testCA) pem(t *testing.T, names ...string) (cert, key []byte) {
	t.Helper()
	private := testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	ca.next++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ca.next), Subject: pkix.Name{CommonName: names[0]},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: names, IPAddresses: []net.IP{{127, 0, 0, 1}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := testenv.Need(x509.CreateCertificate(rand.Reader, template, ca.cert, &private.PublicKey, ca.key))(t)
	keyDER := testenv.Need(x509.MarshalPKCS8PrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// files writes a certificate and its key.
func (ca *testCA) files(t *testing.T, dir string, names ...string) certs.Pair {
	t.Helper()
	p := certs.Pair{Cert: filepath.Join(dir, names[0]+".crt"), Key: filepath.Join(dir, names[0]+".key")}
	cert, key := ca.pem(t, names...)
	for name, content := range map[string][]byte{p.Cert: cert, p.Key: key} {
		testenv.Must(t, os.WriteFile(name, content, 0o600))
	}
	return p
}

func (ca *testCA) config(t *testing.T) *tls.Config {
	k := testenv.Need(certs.Load(certs.Files{Pairs: []certs.Pair{ca.files(t, t.TempDir(), "knot.test")}}))(t)
	return k.Config()
}

func (ca *testCA) client() *tls.Config { return &tls.Config{RootCAs: ca.pool, ServerName: "knot.test"} }

func pemOf(ca *testCA) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}
