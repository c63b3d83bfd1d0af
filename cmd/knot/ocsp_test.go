package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestStaplesAnswers: with -ocsp clients get the answer of the responder with the certificate, also where they have to show one of
// their own, and without it only with a certificate that is good for nothing else.
func TestStaplesAnswers(t *testing.T) {
	dir := t.TempDir()
	key := testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := func(serial int64, name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(60 * 24 * time.Hour)}
	}
	root := template(1, "authority")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	authority := testenv.Need(x509.ParseCertificate(testenv.Need(x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key))(t)))(t)
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		about := testenv.Need(ocsp.ParseRequest(testenv.Need(io.ReadAll(r.Body))(t)))(t)
		w.Write(testenv.Need(ocsp.CreateResponse(authority, authority, ocsp.Response{SerialNumber: about.SerialNumber, ThisUpdate: time.Now(), NextUpdate: time.Now().Add(time.Hour)}, key))(t))
	}))
	defer responder.Close()
	issue := func(serial int64, name string, must bool) {
		leaf := template(serial, name)
		leaf.DNSNames, leaf.OCSPServer = []string{name}, []string{responder.URL}
		if must {
			leaf.ExtraExtensions = []pkix.Extension{{Id: []int{1, 3, 6, 1, 5, 5, 7, 1, 24}, Value: []byte{0x30, 3, 2, 1, 5}}}
		}
		der := testenv.Need(x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, key))(t)
		block := func(kind string, der []byte) string {
			return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
		}
		write(t, filepath.Join(dir, name+".crt"), block("CERTIFICATE", der)+block("CERTIFICATE", authority.Raw))
		write(t, filepath.Join(dir, name+".key"), block("EC PRIVATE KEY", testenv.Need(x509.MarshalECPrivateKey(key))(t)))
	}
	issue(2, "plain.test", false)
	issue(3, "must.test", true)
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	stapled := func(p *program, name string) bool {
		nc := testenv.Need(tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{RootCAs: pool, ServerName: name}))(t)
		defer nc.Close()
		return len(nc.OCSPResponse()) > 0
	}
	args := []string{"-root", sampleSite, "-tls-cert", dir + "/plain.test.crt," + dir + "/must.test.crt", "-tls-key", dir + "/plain.test.key," + dir + "/must.test.key"}
	for _, more := range [][]string{nil, {"-ocsp"}, {"-ocsp", "-tls-client-ca", dir + "/plain.test.crt", "-tls-client-optional"}} {
		p := start(t, append(more, args...)...)
		testenv.True(t, stapled(p, "must.test"), "%v: no answer about a certificate with Must-Staple", more)
		if more == nil {
			testenv.True(t, !stapled(p, "plain.test"), "an answer that is not wanted")
		} else {
			testenv.Until(t, "an answer", func() bool { return stapled(p, "plain.test") })
		}
		p.end()
	}
	http.DefaultClient.CloseIdleConnections()
}
