package testenv

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
)

// A CA signs certificates of servers and clients. They are good for an hour.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	last int64 // serial number
}

// NewCA makes a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{pool: x509.NewCertPool(), key: Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)}
	template := ca.template("test authority")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der := Need(x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key))(t)
	ca.cert = Need(x509.ParseCertificate(der))(t)
	ca.pool.AddCert(ca.cert)
	return ca
}

func (ca *CA) template(name string) *x509.Certificate {
	ca.last++
	return &x509.Certificate{
		SerialNumber: big.NewInt(ca.last), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// PEM makes a certificate for names, and its key.
func (ca *CA) PEM(t testing.TB, names ...string) (cert, key []byte) {
	t.Helper()
	private := Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := ca.template(names[0])
	template.DNSNames, template.IPAddresses = names, []net.IP{{127, 0, 0, 1}}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der := Need(x509.CreateCertificate(rand.Reader, template, ca.cert, &private.PublicKey, ca.key))(t)
	keyDER := Need(x509.MarshalPKCS8PrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// Files writes a certificate for names and its key.
func (ca *CA) Files(t testing.TB, dir string, names ...string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, names[0]+".crt"), filepath.Join(dir, names[0]+".key")
	certPEM, keyPEM := ca.PEM(t, names...)
	Must(t, os.WriteFile(cert, certPEM, 0o600))
	Must(t, os.WriteFile(key, keyPEM, 0o600))
	return cert, key
}

// Authority is the certificate of the CA itself.
func (ca *CA) Authority() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
}

// Server is for a server called knot.test.
func (ca *CA) Server(t testing.TB) *tls.Config {
	t.Helper()
	return &tls.Config{Certificates: []tls.Certificate{Need(tls.X509KeyPair(ca.PEM(t, "knot.test")))(t)}}
}

// Client is for clients of Server.
func (ca *CA) Client() *tls.Config { return &tls.Config{RootCAs: ca.pool, ServerName: "knot.test"} }
