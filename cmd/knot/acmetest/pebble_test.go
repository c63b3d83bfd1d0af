package acmetest

import (
	"bufio"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// program is the path of knot, with the DNS provider rfc2136, and all storages.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "acmetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "knot")
	build := exec.Command("go", "build", "-tags", "knot_dns_rfc2136,knot_storage_s3,knot_storage_consul", "-o", program, "./cmd/knot")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s\n", err, out)
		return 1
	}
	return m.Run()
}

// A server is a knot that runs.
type server struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of its error log
}

// start runs knot with certificates of a in folder.
func (a *authority) start(t *testing.T, folder string, args ...string) *server {
	t.Helper()
	public := t.TempDir()
	args = append(args, "-loops", "1", "-quiet", "-acme-cache", folder, "-acme-directory", a.directory())
	if !strings.Contains(strings.Join(args, " "), "-config") {
		args = append(args, "-root", public)
	}
	s := &server{t: t, cmd: exec.Command(program, args...), lines: make(chan string, 1000)}
	s.cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+a.trust)
	r, w, err := os.Pipe()
	must(t, err)
	s.cmd.Stderr = w
	must(t, s.cmd.Start())
	w.Close()
	go func() {
		defer r.Close()
		defer close(s.lines)
		for text := bufio.NewScanner(r); text.Scan(); {
			s.lines <- text.Text()
		}
	}()
	t.Cleanup(s.stop)
	return s
}

// await waits for a line with all these words.
func (s *server) await(words ...string) {
	s.t.Helper()
	var seen []string
	over := time.After(time.Minute)
next:
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("knot has ended; it said %s", strings.Join(seen, "\n"))
			}
			seen = append(seen, line)
			for _, word := range words {
				if !strings.Contains(line, word) {
					continue next
				}
			}
			return
		case <-over:
			s.t.Fatalf("nothing with %q; knot said %s", words, strings.Join(seen, "\n"))
		}
	}
}

func (s *server) stop() {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.cmd.Wait()
	}
}

// shows expects a certificate for name at port, soon, and returns its number.
func (a *authority) shows(t *testing.T, port, name string) string {
	t.Helper()
	return a.eventually(t, port, name).SerialNumber.String()
}

// eventually is the certificate for name at port. The log has it a little before handshakes have.
func (a *authority) eventually(t *testing.T, port, name string) *x509.Certificate {
	t.Helper()
	for over := time.Now().Add(time.Minute); ; {
		cert, err := a.shake(port, name)
		if err == nil {
			return cert
		}
		if time.Now().After(over) {
			t.Fatal(err)
		}
	}
}

// TestByHTTP: the authority can't reach the server by TLS.
func TestByHTTP(t *testing.T) {
	a := newAuthority(t, 0)
	port := freePort(t)
	s := a.start(t, t.TempDir(), "-acme", "a.test", "-addr", "127.0.0.1:"+port, "-redirect-http", "127.0.0.1:"+a.httpPort)
	s.await("was obtained", "host=a.test", "renewal=false")
	a.shows(t, port, "a.test")
}

// TestByTLS: nothing listens where the authority would look by HTTP. Then it goes away, and what it gave is served on.
func TestByTLS(t *testing.T) {
	a := newAuthority(t, 0)
	folder := t.TempDir()
	args := []string{"-acme", "a.test,b.test", "-addr", "127.0.0.1:" + a.tlsPort, "-redirect-http", "none"}
	s := a.start(t, folder, args...)
	s.await("was obtained")
	s.await("was obtained")
	before := a.shows(t, a.tlsPort, "a.test")
	a.shows(t, a.tlsPort, "b.test")
	if _, err := a.shake(a.tlsPort, "c.test"); err == nil {
		t.Error("there is a certificate for c.test")
	}
	s.stop()
	a.Close()
	s = a.start(t, folder, append(args, "-acme", "c.test")...)
	s.await("will retry", "c.test")
	if after := a.shows(t, a.tlsPort, "a.test"); after != before {
		t.Errorf("certificate %s, was %s", after, before)
	}
}

// TestStarByDNS: the server is nowhere to be reached, and the record is taken away again.
func TestStarByDNS(t *testing.T) {
	a := newAuthority(t, 0)
	port := freePort(t)
	settings := filepath.Join(t.TempDir(), "dns.json")
	must(t, os.WriteFile(settings, fmt.Appendf(nil, `{"server":%q,"key_name":%q,"key_alg":"hmac-sha256","key":%q}`, a.names.addr, keyName, secret), 0o600))
	s := a.start(t, t.TempDir(), "-acme", "*.star.test", "-addr", "127.0.0.1:"+port, "-redirect-http", "none",
		"-acme-dns", "rfc2136", "-acme-dns-file", settings, "-acme-resolvers", a.names.addr)
	s.await("was obtained", "host=*.star.test")
	a.shows(t, port, "any.star.test")
	if _, err := a.shake(port, "other.test"); err == nil {
		t.Error("there is a certificate for other.test")
	}
	if texts, updates := a.names.left(); texts != 0 || updates != 1 {
		t.Errorf("%d records are left of %d; want 0 of 1", texts, updates)
	}
}

// TestRenewal of a certificate that is due when the server starts.
func TestRenewal(t *testing.T) {
	a := newAuthority(t, 6)
	folder := t.TempDir()
	args := []string{"-acme", "a.test", "-addr", "127.0.0.1:" + a.tlsPort, "-redirect-http", "none"}
	s := a.start(t, folder, args...)
	s.await("was obtained", "renewal=false")
	cert := a.eventually(t, a.tlsPort, "a.test")
	s.stop()
	<-time.After(time.Until(cert.NotAfter.Add(-time.Second))) // a sixth of its life is left
	s = a.start(t, folder, args...)
	s.await("was obtained", "renewal=true")
	s.stop()
	s = a.start(t, folder, args...)
	if after := a.shows(t, a.tlsPort, "a.test"); after == cert.SerialNumber.String() {
		t.Error("the certificate is the old one")
	}
}

// TestReload takes up a host, and lets go of another.
func TestReload(t *testing.T) {
	a := newAuthority(t, 0)
	file := filepath.Join(t.TempDir(), "knot.toml")
	config := func(hosts string) {
		must(t, os.WriteFile(file, fmt.Appendf(nil, "addr = '127.0.0.1:%s'\nredirect-http = 'none'\nacme = %q\n[[site]]\nroot = %q\n", a.tlsPort, hosts, t.TempDir()), 0o600))
	}
	config("a.test")
	s := a.start(t, t.TempDir(), "-config", file)
	s.await("was obtained", "host=a.test")
	config("b.test")
	must(t, s.cmd.Process.Signal(syscall.SIGHUP))
	s.await("was obtained", "host=b.test")
	a.shows(t, a.tlsPort, "b.test")
	if _, err := a.shake(a.tlsPort, "a.test"); err == nil {
		t.Error("a.test still has a certificate")
	}
}

// TestOnDemand: a name that the URL allows gets a certificate during the first handshake.
func TestOnDemand(t *testing.T) {
	a := newAuthority(t, 0)
	var asked atomic.Int32
	may := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Query().Get("domain") != "good.test" || r.URL.Query().Get("k") != "1" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer may.Close()
	s := a.start(t, t.TempDir(), "-acme", "a.test", "-addr", "127.0.0.1:"+a.tlsPort, "-redirect-http", "none", "-acme-ask", may.URL+"/?k=1")
	s.await("was obtained", "host=a.test")
	a.shows(t, a.tlsPort, "good.test")
	for range 3 {
		if _, err := a.shake(a.tlsPort, "bad.test"); err == nil {
			t.Error("bad.test has a certificate")
		}
	}
	before := asked.Load()
	if before < 2 || before > 4 {
		t.Errorf("asked %d times", before)
	}
	a.shows(t, a.tlsPort, "good.test")
	if asked.Load() != before {
		t.Error("a certificate that is there is asked for again")
	}
}

// TestSharedFolder: the machine that the authority reaches answers for the one that has asked, and serves what that one gets.
func TestSharedFolder(t *testing.T) {
	a := newAuthority(t, 0)
	folder, port := t.TempDir(), freePort(t)
	reached := a.start(t, folder, "-acme", "a.test", "-addr", "127.0.0.1:"+a.tlsPort, "-redirect-http", "none")
	reached.await("was obtained", "host=a.test")
	asks := a.start(t, folder, "-acme", "a.test,b.test", "-addr", "127.0.0.1:"+port, "-redirect-http", "none")
	asks.await("was obtained", "host=b.test")
	if mine, other := a.shows(t, port, "a.test"), a.shows(t, a.tlsPort, "a.test"); mine != other {
		t.Errorf("a.test: certificates %s and %s", mine, other)
	}
	a.shows(t, port, "b.test")
}

// TestSharedStorage: the authority reaches a server that has not asked it, and whose certificates are in a storage, as those of the one
// that has. A server that starts when the storage is away has its copies.
func TestSharedStorage(t *testing.T) {
	for kind, serve := range map[string]func(*testing.T) (string, func()){"Redis": serveRedis, "S3": serveS3, "Consul": serveConsul} {
		t.Run(kind, func(t *testing.T) {
			url, end := serve(t)
			t.Cleanup(end)
			testSharedStorage(t, kind, url, end)
		})
	}
}

// serving runs a program that serves at an address, until end. It skips the test where the program is not installed.
func serving(t *testing.T, network, addr, program string, args ...string) (end func()) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skip(program + " is not installed")
	}
	cmd := exec.Command(path, args...)
	must(t, cmd.Start())
	end = sync.OnceFunc(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	for over := time.Now().Add(time.Minute); ; {
		c, err := net.Dial(network, addr)
		if err == nil {
			c.Close()
			return end
		}
		if time.Now().After(over) {
			end()
			t.Fatal(err)
		}
	}
}

func serveRedis(t *testing.T) (url string, end func()) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	return "unix://" + socket, serving(t, "unix", socket, "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", filepath.Dir(socket), "--logfile", "redis.log")
}

func serveConsul(t *testing.T) (url string, end func()) {
	http := freePort(t)
	ports := fmt.Sprintf("ports { http = %s, server = %s, serf_lan = %s, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }", http, freePort(t), freePort(t))
	return "consul://127.0.0.1:" + http, serving(t, "tcp", "127.0.0.1:"+http, "consul", "agent", "-dev", "-bind=127.0.0.1", "-log-level=error", "-hcl", ports)
}

func serveS3(t *testing.T) (url string, end func()) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "knot", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	memory := s3mem.New()
	must(t, memory.CreateBucket("certs"))
	server := httptest.NewServer(gofakes3.New(memory).Server())
	return "s3://certs/knot?endpoint=" + server.URL, server.Close
}

func testSharedStorage(t *testing.T, kind, url string, end func()) {
	a := newAuthority(t, 0)
	port := freePort(t)
	copies := t.TempDir()
	storage := []string{"-acme-storage", url, "-redirect-http", "none"}
	reached := a.start(t, t.TempDir(), append(storage, "-acme", "a.test", "-addr", "127.0.0.1:"+a.tlsPort)...)
	reached.await("obtained", "a.test")
	asks := append(storage, "-acme", "a.test,b.test", "-addr", "127.0.0.1:"+port)
	s := a.start(t, copies, asks...)
	s.await("obtained", "b.test")
	number := a.shows(t, port, "a.test")
	if first := a.shows(t, a.tlsPort, "a.test"); first != number {
		t.Errorf("the servers have certificates %s and %s for a.test", first, number)
	}
	s.stop()
	end()
	s = a.start(t, copies, asks...)
	if again := a.shows(t, port, "a.test"); again != number {
		t.Errorf("without the storage the certificate for a.test is %s; want %s", again, number)
	}
	s.await(kind + " can't be asked for certificates")
}
