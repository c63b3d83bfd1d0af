package acmetest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

// An authority is a Pebble, which looks for servers at httpPort and tlsPort of this machine.
type authority struct {
	*httptest.Server
	httpPort, tlsPort string
	names             *nameServer
	roots             *x509.CertPool // of the certificates that it gives
	trust             string         // file with the root of its own certificate
}

// newAuthority starts a Pebble whose certificates live for that many seconds; 0: for years.
func newAuthority(t *testing.T, seconds uint64) *authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	a := &authority{httpPort: freePort(t), tlsPort: freePort(t), names: serveNames(t), roots: x509.NewCertPool(), trust: filepath.Join(t.TempDir(), "root.pem")}
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	profiles := map[string]ca.Profile{"default": {Description: "of the test", ValidityPeriod: seconds}}
	issuer := ca.New(quiet, store, "", "ecdsa", 0, 1, profiles)
	front := wfe.New(quiet, store, va.New(quiet, number(a.httpPort), number(a.tlsPort), false, a.names.addr, store), issuer, []string{"ca.test"}, false, false, 1, 1)
	a.Server = httptest.NewTLSServer(front.Handler())
	t.Cleanup(a.Close)
	must(t, os.WriteFile(a.trust, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}), 0o600))
	root := httptest.NewRecorder()
	front.ManagementHandler().ServeHTTP(root, httptest.NewRequest(http.MethodGet, "/roots/0", nil))
	if !a.roots.AppendCertsFromPEM(root.Body.Bytes()) {
		t.Fatalf("Pebble's root: %q", root.Body)
	}
	return a
}

// directory is the URL for -acme-directory.
func (a *authority) directory() string { return a.URL + wfe.DirectoryPath }

// freePort is one that nobody listened on just now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func number(port string) (n int) {
	fmt.Sscan(port, &n)
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	zone    = "star.test."
	keyName = "knot."
	secret  = "c2VjcmV0IG9mIHRoZSB0ZXN0IG9mIGtub3Q=" // base64
)

// A nameServer has this machine as the address of every name, and in zone the records that are put there by updates (RFC 2136)
// that keyName has signed.
type nameServer struct {
	addr string

	mu      sync.Mutex
	texts   map[string][]string // guarded by mu
	updates int                 // guarded by mu
}

func serveNames(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{texts: make(map[string][]string)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.addr = l.Addr().String()
	packets, err := net.ListenPacket("udp", s.addr)
	must(t, err)
	keys := map[string]string{keyName: secret}
	accept := func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept } // updates too
	for _, server := range []*dns.Server{{Listener: l}, {PacketConn: packets}} {
		server.Handler, server.TsigSecret, server.MsgAcceptFunc = s, keys, accept
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go server.ActivateAndServe()
		<-started
		t.Cleanup(func() { server.Shutdown() })
	}
	return s
}

// ServeDNS implements dns.Handler.
func (s *nameServer) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := new(dns.Msg).SetReply(r)
	q := r.Question[0]
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 1}
	switch {
	case r.Opcode == dns.OpcodeUpdate:
		if r.IsTsig() == nil || w.TsigStatus() != nil {
			answer.Rcode = dns.RcodeNotAuth
			break
		}
		s.update(r.Ns)
		answer.SetTsig(keyName, dns.HmacSHA256, 300, int64(r.IsTsig().TimeSigned))
	case q.Qtype == dns.TypeSOA && q.Name == zone:
		answer.Answer = []dns.RR{&dns.SOA{Hdr: header, Ns: "ns." + zone, Mbox: "me." + zone, Serial: 1, Refresh: 1, Retry: 1, Expire: 1, Minttl: 1}}
	case q.Qtype == dns.TypeA:
		answer.Answer = []dns.RR{&dns.A{Hdr: header, A: net.IPv4(127, 0, 0, 1)}}
	case q.Qtype == dns.TypeTXT:
		for _, text := range s.texts[strings.ToLower(q.Name)] {
			answer.Answer = append(answer.Answer, &dns.TXT{Hdr: header, Txt: []string{text}})
		}
	}
	w.WriteMsg(answer)
}

// update adds and deletes records.
func (s *nameServer) update(records []dns.RR) {
	for _, rr := range records {
		name := strings.ToLower(rr.Header().Name)
		if text, ok := rr.(*dns.TXT); ok && rr.Header().Class == dns.ClassINET {
			s.texts[name] = append(s.texts[name], text.Txt...)
			s.updates++
		} else {
			delete(s.texts, name)
		}
	}
}

// left are the texts that were not taken away again, and how many were put there.
func (s *nameServer) left() (texts, updates int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.texts {
		texts += len(all)
	}
	return texts, s.updates
}

// shake is a handshake for name with the server at port, whose certificate must be from this authority.
func (a *authority) shake(port, name string) (*x509.Certificate, error) {
	c, err := tls.Dial("tcp", "127.0.0.1:"+port, &tls.Config{ServerName: name, RootCAs: a.roots})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}
