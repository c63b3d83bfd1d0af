package clientcert

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// A stage is a server of several sites, with the authorities of its clients, which have the same name.
type stage struct {
	t    *testing.T
	addr string
	on   site.Switch
	cas  map[string]*testenv.CA // server, A, B
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, cas: map[string]*testenv.CA{"server": testenv.NewCA(t), "A": testenv.NewCA(t), "B": testenv.NewCA(t)}}
	s.set("A")
	config := &tls.Config{NextProtos: []string{"h2", "http/1.1", "acme-tls/1"}}
	cert, key := s.cas["server"].PEM(t, "a.test", "b.test", "maybe.test", "open.test")
	config.Certificates = []tls.Certificate{testenv.Need(tls.X509KeyPair(cert, key))(t)}
	server := &knot.Server{Handler: s.on.Handle, TLS: s.on.Handshakes(config), ErrorLog: testenv.Quiet()}
	s.addr = strings.TrimPrefix(knottest.Serve(t, server), "http://")
	return s
}

// set has a.test take certificates of an authority, b.test of B, and maybe.test of A or none.
func (s *stage) set(authority string) {
	h := new(site.Hosts)
	add := func(host string, steps ...site.Step) *site.Site {
		one := &site.Site{Steps: steps, Routes: []site.Route{{Match: testenv.Need(site.OptionalPattern(""))(s.t), Handler: func(x *knot.Ctx) error {
			text := host + x.Header("X-Subject")
			for _, l := range ownctx.Of(x).(interface{ Passed() []knot.Header }).Passed() {
				text += fmt.Sprintf(" %s[%s]", l.Name, l.Value)
			}
			return x.SendString(200, "", text)
		}}}}
		testenv.Must(s.t, h.Add(one, host))
		return one
	}
	add("open.test")
	for host, c := range map[string]Config{"a.test": {CA: authority}, "b.test": {CA: "B"}, "maybe.test": {CA: "A", Mode: "ask"}} {
		path := filepath.Join(s.t.TempDir(), "ca.pem")
		testenv.Must(s.t, os.WriteFile(path, s.cas[c.CA].Authority(), 0o600))
		c.CA, c.SubjectHeader = path, "X-Subject"
		certs, wrong := New(c)
		testenv.MustEqual(s.t, len(wrong), 0, "%v", wrong)
		add(host, certs.Check).Handshake = certs.Prepare
	}
	s.on.Set(h)
}

// client is one that asks for name in the handshake, with a certificate of that authority; "": none.
func (s *stage) client(name, authority string, http2 bool) *http.Transport {
	c := s.cas["server"].Client()
	c.ServerName = name
	if name == "" {
		c.InsecureSkipVerify = true
	}
	if authority != "" {
		cert := testenv.Need(tls.X509KeyPair(s.cas[authority].PEM(s.t, "client"+authority)))(s.t)
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil } // asked for or not
	}
	t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: http2}
	s.t.Cleanup(t.CloseIdleConnections)
	return t
}

// ask returns the status and body of the response for host, "failed" if the handshake fails.
func (s *stage) ask(t *http.Transport, host string) string {
	r := testenv.Need(http.NewRequest("GET", "https://"+s.addr+"/", nil))(s.t)
	r.Host = host
	r.Header.Set("X-Subject", "forged")
	resp, err := t.RoundTrip(r)
	if err != nil {
		if !strings.Contains(err.Error(), "tls: ") && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "could not be established") && !strings.Contains(err.Error(), "broken pipe") {
			s.t.Errorf("%s: %v", host, err)
		}
		return "failed"
	}
	defer resp.Body.Close()
	body := testenv.Need(io.ReadAll(resp.Body))(s.t)
	if resp.StatusCode != 200 {
		return fmt.Sprint(resp.StatusCode)
	}
	return string(body)
}

// TestHosts: which sites a client gets by the name that it has asked for in the handshake.
func TestHosts(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct{ name, authority, host, want string }{
		{"a.test", "A", "a.test", "a.test X-Subject[CN=clientA]"},
		{"a.test", "A", "A.test:443", "a.test X-Subject[CN=clientA]"},
		{"a.test", "", "a.test", "failed"},
		{"a.test", "B", "a.test", "failed"},
		{"b.test", "B", "b.test", "b.test X-Subject[CN=clientB]"},
		{"b.test", "A", "b.test", "failed"},
		{"maybe.test", "", "maybe.test", "maybe.test X-Subject[]"},
		{"maybe.test", "A", "maybe.test", "maybe.test X-Subject[CN=clientA]"},
		{"maybe.test", "B", "maybe.test", "failed"},
		{"open.test", "", "open.test", "open.testforged"},
		{"open.test", "A", "a.test", "421"}, // nobody has asked for the certificate
		{"open.test", "", "a.test", "421"},
		{"open.test", "", "maybe.test", "421"},
		{"maybe.test", "", "a.test", "421"},
		{"maybe.test", "A", "a.test", "421"},
		{"a.test", "A", "b.test", "421"},
		{"a.test", "A", "open.test", "open.testforged"},
		{"", "A", "a.test", "421"},
		{"other.test", "A", "a.test", "421"},
	} {
		for _, http2 := range []bool{false, true} {
			client := s.client(c.name, c.authority, http2)
			if c.name == "other.test" {
				client.TLSClientConfig.InsecureSkipVerify = true
			}
			testenv.Equal(t, s.ask(client, c.host), c.want, "%v, HTTP/2 %v", c, http2)
		}
	}
	// An authority of certificates that looks by TLS is let in, and no further.
	config := s.client("a.test", "", false).TLSClientConfig
	config.NextProtos = []string{"acme-tls/1"}
	nc := testenv.Need(tls.Dial("tcp", s.addr, config))(t)
	defer nc.Close()
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
	all, _ := io.ReadAll(nc)
	testenv.Equal(t, string(all), "", "after the proof")
}

// TestOneConnection: requests for several sites come by one connection, as browsers send them over HTTP/2, and what a site
// takes changes while a connection is open.
func TestOneConnection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newStage(t)
		client := s.client("a.test", "A", http2)
		testenv.Equal(t, s.ask(client, "a.test"), "a.test X-Subject[CN=clientA]")
		testenv.Equal(t, s.ask(client, "b.test"), "421")
		testenv.Equal(t, s.ask(client, "open.test"), "open.testforged")
		s.set("B")
		testenv.Equal(t, s.ask(client, "a.test"), "421", "the authority is another one now")
		client.CloseIdleConnections()
		testenv.Equal(t, s.ask(client, "a.test"), "failed", "a new connection")
	}
}

// sessions has one session for all names.
type sessions struct{ last *tls.ClientSessionState }

func (c *sessions) Get(string) (*tls.ClientSessionState, bool)    { return c.last, c.last != nil }
func (c *sessions) Put(_ string, session *tls.ClientSessionState) { c.last = session }

// TestSessionsOfOtherSites: a session that began with one site opens no other.
func TestSessionsOfOtherSites(t *testing.T) {
	s := newStage(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct{ from, authority, to string }{
			{"open.test", "", "a.test"}, {"maybe.test", "", "a.test"}, {"a.test", "A", "b.test"}, {"open.test", "A", "b.test"},
		} {
			kept := new(sessions)
			ask := func(name, authority, host string) (string, bool) {
				client := s.client(name, authority, false)
				client.TLSClientConfig.ClientSessionCache, client.TLSClientConfig.MaxVersion = kept, version
				client.DisableKeepAlives = true
				client.TLSClientConfig.InsecureSkipVerify = true // or the client would not take up the session
				resumed := false
				client.TLSClientConfig.VerifyConnection = func(state tls.ConnectionState) error {
					resumed = state.DidResume
					return nil
				}
				return s.ask(client, host), resumed
			}
			first, _ := ask(c.from, c.authority, c.from)
			testenv.Contains(t, first, c.from)
			_, again := ask(c.from, c.authority, c.from)
			testenv.Equal(t, again, true, "%v, TLS %x: no session to misuse", c, version)
			second, _ := ask(c.to, c.authority, c.to)
			testenv.Equal(t, second == "failed" || second == "421", true, "%v, TLS %x: %s", c, version, second)
		}
	}
}

func TestFaults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	testenv.Must(t, os.WriteFile(empty, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600))
	ca := filepath.Join(t.TempDir(), "ca")
	testenv.Must(t, os.WriteFile(ca, testenv.NewCA(t).Authority(), 0o600))
	for _, c := range []struct {
		says string
		Config
	}{
		{"ca: say which file", Config{}},
		{"ca: open /none/x: no such file", Config{CA: "/none/x"}},
		{"ca: /dev/null is not a regular file", Config{CA: "/dev/null"}},
		{"ca: x509: ", Config{CA: empty}},
		{`mode: "optional"; want require or ask`, Config{CA: ca, Mode: "optional"}},
		{"subject-header: header Host is what Config.Host says", Config{CA: ca, SubjectHeader: "Host"}},
	} {
		_, wrong := New(c.Config)
		testenv.MustEqual(t, len(wrong), 1, "%s: %v", c.says, wrong)
		testenv.Contains(t, fmt.Sprintf("%s: %v", wrong[0].Key, wrong[0].Err), c.says)
	}
	testenv.Equal(t, ascii("CN=Jos\u00e9\n,O=x"), `CN=Jos\C3\A9\0A,O=x`)
}
