package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/quic-go/quic-go/http3"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// selfSigned makes a certificate for name, and its key, in PEM.
func selfSigned(t *testing.T, name string, serial int64) (cert, key string) {
	return selfSignedFor(t, name, serial, 80*24*time.Hour)
}

// selfSignedFor makes one of whose life, 90 days, the given time is left.
func selfSignedFor(t *testing.T, name string, serial int64, left time.Duration) (cert, key string) {
	t.Helper()
	private := testenv.Need(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, IPAddresses: []net.IP{{127, 0, 0, 1}},
		NotBefore: time.Now().Add(left - 90*24*time.Hour), NotAfter: time.Now().Add(left),
	}
	der := testenv.Need(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	keyDER := testenv.Need(x509.MarshalECPrivateKey(private))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}

// pair writes a certificate for name, and its key.
func pair(t *testing.T, dir, name string, serial int64) (crt, key string) {
	t.Helper()
	crt, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	certText, keyText := selfSigned(t, name, serial)
	write(t, key, keyText)
	write(t, crt, certText)
	return crt, key
}

// serial is the number of the certificate that a server shows to clients that ask for name, after
// a request that it has answered.
func serial(t *testing.T, url, name string) int64 {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, ServerName: name}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: time.Minute}
	resp, body := testenv.Get(t, client, url+"/notes.txt")
	if !strings.Contains(body, "Bowline") {
		t.Fatalf("%q", body)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// TestSharedTickets: a session that began at one server goes on at another one with the same -tls-tickets, over TCP and over QUIC.
func TestSharedTickets(t *testing.T) {
	folder := t.TempDir()
	crt, key := pair(t, t.TempDir(), "a.example", 1)
	var urls []string
	for range 2 {
		addr := freePort(t)
		text := "tls-cert = %q\ntls-key = %q\ntls-tickets = %q\n[[site]]\nroot = %q\n[[listen]]\naddr = %q\nhttp3 = true\n"
		p := quicRun(t, configFile(t, text, crt, key, folder, sampleSite, addr))
		defer p.end()
		urls = append(urls, "https://"+addr)
	}
	for name, transport := range map[string]func(*tls.Config) http.RoundTripper{
		"TCP": func(c *tls.Config) http.RoundTripper {
			return &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}
		},
		"QUIC": func(c *tls.Config) http.RoundTripper { return &http3.Transport{TLSClientConfig: c} },
	} {
		testenv.Until(t, "a session goes on over "+name, func() bool { // once both have read the keys
			cache := tls.NewLRUClientSessionCache(0)
			var resumed []bool
			for _, url := range urls {
				via := transport(&tls.Config{InsecureSkipVerify: true, ServerName: "a.example", ClientSessionCache: cache})
				resp, _ := testenv.Get(t, &http.Client{Transport: via, Timeout: time.Minute}, url+"/notes.txt")
				resumed = append(resumed, resp.TLS.DidResume)
				if c, ok := via.(io.Closer); ok {
					c.Close()
				}
			}
			testenv.Equal(t, resumed[0], false, "the first connection goes on")
			return resumed[1]
		})
	}
}

// TestServesHTTPS with two certificates, which are read again on SIGHUP and when they change.
func TestServesHTTPS(t *testing.T) {
	for _, how := range []string{"hangup", "watch"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			crtA, keyA := pair(t, dir, "a.test", 1)
			crtB, keyB := pair(t, dir, "b.test", 2)
			reload := "0"
			if how == "watch" {
				reload = "5ms"
			}
			p := start(t, "-root", sampleSite, "-tls-reload", reload, "-tls-cert", crtA, "-tls-key", keyA+","+keyB, "-tls-cert", crtB)
			testenv.Equal(t, serial(t, p.url, "a.test"), 1, "certificate of a")
			testenv.Equal(t, serial(t, p.url, "b.test"), 2, "certificate of b")
			pair(t, dir, "b.test", 3)
			if how == "hangup" {
				hangUp()
			}
			p.stderr.await(t, "the certificates have changed")
			testenv.Equal(t, serial(t, p.url, "a.test"), 1, "certificate of a after a reload")
			testenv.Equal(t, serial(t, p.url, "b.test"), 3, "certificate of b after a reload")
			write(t, crtA, "no PEM")
			if how == "hangup" {
				hangUp()
			}
			p.stderr.await(t, "the old ones stay in use", "a.test.crt")
			testenv.Equal(t, serial(t, p.url, "a.test"), 1, "certificate of a after a reload that failed")
			p.end()
		})
	}
}

// givesNone expects no certificate for name.
func (p *program) givesNone(name string) {
	p.t.Helper()
	nc, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true, ServerName: name})
	testenv.Fails(p.t, err, "a certificate for "+name)
	if err == nil {
		nc.Close()
	}
}

// awayDirectory is the directory of an authority that is away.
const awayDirectory = "https://127.0.0.1:1/"

// keep puts a certificate for name where one from that authority is kept, with its key.
func keep(t *testing.T, dir, name, cert, key string) {
	t.Helper()
	keys := certmagic.StorageKeys
	for at, text := range map[string]string{keys.SiteCert(awayIssuer, name): cert, keys.SitePrivateKey(awayIssuer, name): key, keys.SiteMeta(awayIssuer, name): fmt.Sprintf(`{"sans":[%q]}`, name)} {
		at = filepath.Join(dir, filepath.FromSlash(at))
		testenv.Must(t, os.MkdirAll(filepath.Dir(at), 0o700))
		write(t, at, text)
	}
}

// awayIssuer is what certmagic calls the authority of awayDirectory.
const awayIssuer = "127.0.0.1:1"

// What the authority does not give is in the error log, once for many clients.
func TestACMEErrorsAreLogged(t *testing.T) {
	p := start(t, "-root", sampleSite, "-acme", "acme.test", "-acme-cache", t.TempDir(), "-acme-directory", awayDirectory)
	p.stderr.await(t, "knot: ACME: will retry", "acme.test", "127.0.0.1:1")
	before := p.stderr.String()
	for range 3 {
		p.givesNone("acme.test")
	}
	p.stop()
	p.code()
	if lines := strings.Count(strings.TrimPrefix(p.stderr.String(), before), "ACME"); lines > 0 {
		t.Errorf("handshakes have left %d lines: %s", lines, p.stderr.String())
	}
}

// TestACMEAuthorityAway: a certificate that is to be renewed is served as long as there is no other, and the log says why there
// is none. One that has time yet is left alone.
func TestACMEAuthorityAway(t *testing.T) {
	for left, overdue := range map[time.Duration]bool{25 * 24 * time.Hour: true, 60 * 24 * time.Hour: false} {
		dir := t.TempDir()
		cert, key := selfSignedFor(t, "acme.test", 7, left)
		keep(t, dir, "acme.test", cert, key)
		p := start(t, "-root", sampleSite, "-acme", "acme.test", "-acme-cache", dir, "-acme-directory", awayDirectory)
		if overdue {
			p.stderr.await(t, "knot: ACME: will retry", "Renew", "127.0.0.1:1")
		}
		for range 3 {
			testenv.Equal(t, serial(t, p.url, "acme.test"), 7, "certificate N for acme.test")
		}
		p.stop()
		p.code()
		if log := p.stderr.String(); strings.Contains(log, "will retry") != overdue {
			t.Errorf("%v before its end the log says %s", left, log)
		}
	}
}

// TestACMECertificates: what the authority has given before is served from the first handshake on; other names are not asked
// for; a reload takes up names.
func TestACMECertificates(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"acme.test", "later.test"} {
		cert, key := selfSignedFor(t, name, int64(7+2*i), 80*24*time.Hour)
		keep(t, dir, name, cert, key)
	}
	own, ownKey := pair(t, dir, "own.test", 8)
	text := "acme = %q\nacme-cache = %q\nacme-directory = %q\ntls-cert = %q\ntls-key = %q\n[[site]]\nroot = %q\n"
	file := configFile(t, text, "acme.test,own.test", dir, awayDirectory, own, ownKey, sampleSite)
	p := start(t, "-config", file)
	testenv.Equal(t, serial(t, p.url, "acme.test"), 7, "certificate N for acme.test")
	testenv.Equal(t, serial(t, p.url, "ACME.test"), 7, "certificate N for ACME.test")
	testenv.Equal(t, serial(t, p.url, "own.test"), 8, "certificate N for own.test")
	p.givesNone("later.test")
	write(t, file, fmt.Sprintf(text, "later.test", dir, awayDirectory, own, ownKey, sampleSite))
	hangUp()
	p.stderr.await(t, "the configuration was read again")
	testenv.Equal(t, serial(t, p.url, "later.test"), 9, "certificate N for later.test")
	p.givesNone("acme.test")
	p.stop()
	if log := p.stderr.String(); strings.Contains(log, "will retry") || strings.Contains(log, "started anew") {
		t.Errorf("the log says %s", log) // of a name that nobody has asked for, or of the reload
	}
	p.end()
}

// TestACMERedisAway: without the Redis of -acme-storage a start serves the copy in the folder, and the log says so once, whatever
// certmagic tries.
func TestACMERedisAway(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSignedFor(t, "acme.test", 7, 25*24*time.Hour) // it is to be renewed
	keep(t, dir, "acme.test", cert, key)
	p := start(t, "-root", sampleSite, "-acme", "acme.test,none.test", "-acme-cache", dir, "-acme-storage", "redis://:secret@127.0.0.1:1", "-acme-directory", awayDirectory)
	testenv.Equal(t, serial(t, p.url, "acme.test"), 7, "certificate N for acme.test")
	p.givesNone("none.test")
	p.stderr.await(t, "knot: Redis can't be asked for certificates", "127.0.0.1:1")
	p.stop()
	p.code()
	log := p.stderr.String()
	testenv.True(t, strings.Count(log, "Redis") == 1 && !strings.Contains(log, "ACME") && !strings.Contains(log, "secret"), "the log says %s", log)
}

// TestTLSFlags: what does not go together is said before anything is served.
func TestTLSFlags(t *testing.T) {
	dir := t.TempDir()
	crt, key := pair(t, dir, "a.test", 1)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-tls-cert", crt}, exitUsage, "files of -tls-cert: 1, of -tls-key: 0; each certificate has its key"},
		{[]string{"-tls-cert", ","}, exitUsage, "an empty name"},
		{[]string{"-tls-min", "1.1"}, exitUsage, `-tls-min "1.1"; want 1.2 or 1.3`},
		{[]string{"-tls-reload", "-1s"}, exitUsage, "-tls-reload -1s is negative"},
		{[]string{"-tls-client-ca", crt}, exitUsage, "-tls-client-ca needs -tls-cert"},
		{[]string{"-tls-client-optional"}, exitUsage, "-tls-client-optional needs -tls-client-ca"},
		{[]string{"-acme", "a.test"}, exitUsage, "-acme needs -acme-cache"},
		{[]string{"-acme-email", "a@b"}, exitUsage, "need -acme"},
		{[]string{"-acme", "*.a.test", "-acme-cache", dir, "-acme-dns", "rfc2136"}, exitUsage, `-acme-dns "rfc2136" is not in this knot, which has none; build one that has it: go build -tags knot_dns_rfc2136 ./cmd/knot`},
		{[]string{"-acme", "a.test", "-acme-cache", dir, "-acme-dns", "x"}, exitUsage, `-acme-dns "x": there is no such provider; want cloudflare or rfc2136`},
		{[]string{"-acme-dns", "x"}, exitUsage, "need -acme"},
		{[]string{"-acme", "a.test", "-acme-cache", dir, "-acme-dns-file", "x"}, exitUsage, "need -acme-dns"},
		{[]string{"-acme", "a.test", "-acme-cache", dir, "-acme-directory", "a.test/x"}, exitUsage, `-acme-directory "a.test/x" is not the URL of a directory`},
		{[]string{"-acme", "a.test", "-acme-cache", dir, "-acme-ask", "yes"}, exitUsage, `-acme-ask "yes" is not a URL`},
		{[]string{"-acme-ask", "http://a/"}, exitUsage, "needs -acme-cache"},
		{[]string{"-acme", "a.test", "-acme-storage", "http://:secret@a"}, exitUsage, "-acme-storage: want the URL of a Redis, as redis://"},
		{[]string{"-acme-storage", "redis://a"}, exitUsage, "need -acme"},
		{[]string{"-tls-cert", crt, "-tls-key", key, "-tls-tickets", "http://:secret@a"}, exitUsage, "-tls-tickets: want the URL of a Redis, as redis://"},
		{[]string{"-acme", "a.test", "-acme-cache", dir, "-tls-cert", crt, "-tls-key", key, "-tls-client-ca", crt}, exitUsage, "does not go with -acme"},
		{[]string{"-tls-cert", crt, "-tls-key", crt}, exitFailed, "certificate " + crt + " with key " + crt},
		{[]string{"-tls-cert", crt, "-tls-key", filepath.Join(dir, "none")}, exitFailed, "none: no such file"},
		{[]string{"-tls-cert", crt, "-tls-key", key, "-tls-client-ca", key}, exitFailed, key + " holds no certificate of an authority"},
	} {
		fails(t, test.code, test.want, append([]string{"-root", sampleSite}, test.args...)...)
	}
}

// TestServesHTTP2 over TLS unless it is switched off, and without TLS if it is switched on, by flags and by a file.
func TestServesHTTP2(t *testing.T) {
	crt, key := pair(t, t.TempDir(), "a.test", 1)
	secure := []string{"-root", sampleSite, "-tls-cert", crt, "-tls-key", key}
	inFile := func(lines string) []string {
		return []string{"-config", configFile(t, "root = '%s'\n%s", sampleSite, lines)}
	}
	pair := fmt.Sprintf("tls-cert = [%q]\ntls-key = [%q]\n", crt, key)
	for _, test := range []struct {
		args     []string
		protocol func(*http.Protocols, bool) // of the client
		want     int
	}{
		{secure, (*http.Protocols).SetHTTP2, 2},
		{append(secure[:len(secure):len(secure)], "-http2=false"), (*http.Protocols).SetHTTP2, 1},
		{[]string{"-root", sampleSite, "-h2c"}, (*http.Protocols).SetUnencryptedHTTP2, 2},
		{[]string{"-root", sampleSite, "-h2c"}, (*http.Protocols).SetHTTP1, 1},
		{inFile(pair), (*http.Protocols).SetHTTP2, 2},
		{inFile(pair + "http2 = false\n"), (*http.Protocols).SetHTTP2, 1},
		{append([]string{"-http2"}, inFile(pair+"http2 = false\n")...), (*http.Protocols).SetHTTP2, 2},
		{inFile("h2c = true\n"), (*http.Protocols).SetUnencryptedHTTP2, 2},
		{append([]string{"-h2c"}, inFile("h2c = false\n")...), (*http.Protocols).SetUnencryptedHTTP2, 2},
	} {
		p := start(t, test.args...)
		client := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Protocols: new(http.Protocols)}
		client.Protocols.SetHTTP1(test.want == 1)
		test.protocol(client.Protocols, true)
		resp, body := testenv.Get(t, &http.Client{Transport: client, Timeout: time.Minute}, p.url+"/notes.txt")
		testenv.Equal(t, resp.ProtoMajor, test.want, "%q: version of HTTP", test.args)
		testenv.Contains(t, body, "Bowline")
		client.CloseIdleConnections()
		p.end()
	}
}
