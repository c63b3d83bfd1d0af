package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// clientOf does not follow redirects, and takes any certificate; path is that of a Unix socket, or "".
func clientOf(t *testing.T, path string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if path != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// TestSeveralAddresses: each has its sites, speaks TLS or not, and one sends clients to HTTPS; a reload brings other sites
// to them.
func TestSeveralAddresses(t *testing.T) {
	a, b := twoSites(t)
	dir := t.TempDir()
	crt, key := pair(t, dir, "a.example", 1)
	path := filepath.Join(dir, "s")
	text := fmt.Sprintf(`
tls-cert = %q
tls-key = %q
redirect-http = "127.0.0.1:0"
[[listen]]
addr = "127.0.0.1:0"
sites = ["a.example"]
[[listen]]
addr = "localhost:0"
tls = false
sites = ["intranet"]
[[listen]]
addr = "unix:%s"
tls = false
[[site]]
hosts = ["a.example", "www.a.example"]
root = %q
[[site.redirect]]
host = "www.a.example"
to = "https://a.example"
status = 301
[[site]]
name = "intranet"
root = %q
`, crt, key, path, a, b)
	file := configFile(t, "%s", text)
	p := startRun(t, "-config", file)
	urls := httpURL.FindAllString(p.printed[0], -1)
	if len(urls) != 3 || !strings.Contains(p.printed[0], "unix:"+path) || !strings.Contains(p.printed[0], urls[2]+" (sends clients to HTTPS)") {
		t.Fatal(p.printed)
	}
	public, intranet, http := urls[0], urls[1], urls[2]
	overTCP, overUnix := clientOf(t, ""), clientOf(t, path)
	expect := func(client bool, url, host string, status int, want string) {
		t.Helper()
		c := overTCP
		if client {
			c = overUnix
		}
		resp, body := askAs(t, c, url, host)
		if resp.StatusCode != status || !strings.Contains(body+resp.Header.Get("Location"), want) {
			t.Errorf("%s of %s: %d %q, %q", url, host, resp.StatusCode, resp.Header.Get("Location"), body)
		}
	}
	const unix = "http://socket"
	port := public[strings.LastIndexByte(public, ':'):]
	expect(false, public, "a.example", 200, "site a")
	expect(false, public, "b.example", 421, "421")
	expect(false, public+"/x?y", "www.a.example", 301, "https://a.example/x?y")
	expect(false, intranet, "a.example", 200, "site b")
	expect(true, unix, "a.example", 200, "site a")
	expect(true, unix, "b.example", 200, "site b")
	expect(false, http+"/x?y=%2F", "a.example:80", 308, "https://a.example"+port+"/x?y=%2F")
	expect(false, http+"//evil.test/%2e%2e", "a.example", 308, "https://a.example//evil.test/%2e%2e")
	expect(false, http+"/x", "evil.test", 421, "421")
	// Other sites.
	write(t, file, strings.Replace(strings.Replace(text, `sites = ["a.example"]`, "", 1), `sites = ["intranet"]`, `sites = ["a.example"]`, 1))
	hangUp()
	p.stderr.await(t, "was read again")
	expect(false, public, "b.example", 200, "site b")
	expect(false, intranet, "b.example", 421, "421")
	expect(false, intranet, "a.example", 200, "site a")
	expect(false, http+"/x", "other.test", 308, "https://other.test/x")
	go io.Copy(io.Discard, p.out)
	overUnix.CloseIdleConnections()
	overTCP.CloseIdleConnections()
	p.end()
	_, err := os.Lstat(path)
	testenv.True(t, os.IsNotExist(err), "the file of the socket is left")
}

var portsGiven sync.Map // by freePort

// freePort returns an address with a port that no process listens on, neither for TCP nor for UDP. It returns none twice.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		ln := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t)
		addr := ln.Addr().String()
		udp, err := net.ListenPacket("udp", addr)
		ln.Close()
		if err != nil {
			continue
		}
		udp.Close()
		if _, given := portsGiven.LoadOrStore(addr, true); !given {
			return addr
		}
	}
}

// TestHandOverOfSeveralAddresses: the successor has the sockets of those addresses that are still in its configuration,
// opens those that are new, and closes the rest.
func TestHandOverOfSeveralAddresses(t *testing.T) {
	dir := t.TempDir()
	crt, key := pair(t, dir, "a.example", 1)
	path, first, second, third := filepath.Join(dir, "s,1"), freePort(t), freePort(t), freePort(t)
	const format = "tls-cert = %q\ntls-key = %q\nredirect-http = %q\n[[listen]]\naddr = %q\n[[listen]]\naddr = %q\ntls = false\n[[site]]\nroot = %q\n"
	file := configFile(t, format, crt, key, first, second, "unix:"+path, sampleSite)
	p := startProcess(t, knotCommand(t, "-config", file, "-loops", "2", "-quiet")).serves(t)
	old := p.Cmd
	check := func(url string, client *http.Client, want int) {
		t.Helper()
		resp, _ := testenv.Get(t, client, url)
		testenv.Equal(t, resp.StatusCode, want, url)
		client.CloseIdleConnections()
	}
	tcp := clientOf(t, "")
	for range 2 {
		check("http://"+first, tcp, 308)
		check("https://"+second, tcp, 200)
		check("http://socket", clientOf(t, path), 200)
		p.handOver(t)
	}
	testenv.Check(t, old.Wait())
	check("http://"+first, tcp, 308)
	check("http://socket", clientOf(t, path), 200)
	write(t, file, fmt.Sprintf(format, crt, key, first, third, "unix:"+path, sampleSite))
	p.handOver(t)
	check("http://"+first, tcp, 308)
	check("https://"+third, tcp, 200)
	check("http://socket", clientOf(t, path), 200)
	testenv.Until(t, "nobody listens any more at an address that is gone", func() bool {
		nc, err := net.Dial("tcp", second)
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	p.signal(t, syscall.SIGTERM)
	log, _ := io.ReadAll(p.log)
	testenv.Equal(t, strings.Contains(string(log), "level=ERROR"), false, "the log says %s", log)
}

// TestHandOverWhileAddressesChange: a reload and a hand-over at the same time open an address once, and a process that has handed
// over opens none any more.
func TestHandOverWhileAddressesChange(t *testing.T) {
	first, second := freePort(t), freePort(t)
	text := func(addrs ...string) (all string) {
		for _, addr := range addrs {
			all += fmt.Sprintf("[[listen]]\naddr = %q\n", addr)
		}
		return all + fmt.Sprintf("[[site]]\nroot = %q\n", sampleSite)
	}
	file := configFile(t, "%s", text(first))
	p := startProcess(t, knotCommand(t, "-config", file, "-loops", "1", "-quiet", "-grace", "0")).serves(t)
	for i := range 6 {
		addrs := []string{first, second}[:1+i%2]
		write(t, file, text(addrs...))
		p.signal(t, syscall.SIGHUP)
		p.handOver(t)
		for _, addr := range addrs {
			resp, _ := testenv.Get(t, clientOf(t, ""), "http://"+addr)
			testenv.MustEqual(t, resp.StatusCode, 200, addr)
		}
	}
	p.signal(t, syscall.SIGTERM)
	log, _ := io.ReadAll(p.log)
	testenv.Equal(t, strings.Contains(string(log), "level=ERROR"), false, "the log says %s", log)

	var r running
	r.parts = new(parts)
	r.now.Store(new(built))
	testenv.Must(t, r.handOver(func() error { return nil }))
	var said strings.Builder
	r.reload(new(settings), []string{"-config", "/none"}, slog.New(slog.NewTextHandler(&said, nil)))
	testenv.Equal(t, said.String(), "", "after a hand-over")
}

// TestNamedSockets: sockets of systemd's are found by name, kept through a hand-over, and missed by name.
func TestNamedSockets(t *testing.T) {
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	ln := testenv.Need(plain.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	socket := testenv.Need(ln.(*net.TCPListener).File())(t)
	defer socket.Close()
	self := testenv.Need(os.Executable())(t)
	file := configFile(t, "[[listen]]\naddr = 'systemd:web'\n[[listen]]\naddr = '127.0.0.1:0'\n[[site]]\nroot = %q\n", sampleSite)
	command := func(names string) *exec.Cmd {
		c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "-config", file, "-quiet", "-loops", "1")
		c.Env = append(os.Environ(), "KNOT_TEST_MAIN=1", "LISTEN_FDS=1", "LISTEN_FDNAMES="+names)
		c.ExtraFiles = []*os.File{socket}
		return c
	}
	p := startProcess(t, command("web")).serves(t)
	serves := func() {
		t.Helper()
		resp, _ := testenv.Get(t, http.DefaultClient, "http://"+ln.Addr().String()+"/notes.txt")
		testenv.MustEqual(t, resp.StatusCode, 200, "status")
		http.DefaultClient.CloseIdleConnections()
	}
	serves()
	p.handOver(t)
	testenv.Check(t, p.Wait())
	serves()
	p.signal(t, syscall.SIGTERM)
	io.Copy(io.Discard, p.log)
	out, err := command("admin").CombinedOutput()
	if want := `listen.1.addr: there is no socket named "web" from systemd; it has passed admin`; err == nil || !strings.Contains(string(out), want) {
		t.Errorf("%v, %s; want %s", err, out, want)
	}
}

// TestPlacesOfRedirects: where clients are sent to HTTPS by default.
func TestPlacesOfRedirects(t *testing.T) {
	acme := "acme = 'a.test'\nacme-cache = '/none'\n"
	for text, want := range map[string]string{
		acme + "addr = ':443'":                                                            ":443 :80?",
		acme + "addr = '[::1]:443'":                                                       "[::1]:443 [::1]:80?",
		acme + "addr = ':8443'":                                                           ":8443",
		acme + "addr = ':443'\nredirect-http = 'none'":                                    ":443",
		acme + "addr = ':443'\nredirect-http = ':8080,:81'":                               ":443 :8080 :81",
		acme + "[[listen]]\naddr = ':443'\n[[listen]]\naddr = ':80'\ntls = false":         ":443 :80",
		acme + "[[listen]]\naddr = ':443'\n[[listen]]\naddr = '10.0.0.1:80'\ntls = false": ":443 10.0.0.1:80 :80?", // the log warns
		"addr = ':443'": ":443",
	} {
		got := ""
		for _, p := range settingsOf(t, configFile(t, "root = '/'\n%s\n", text)).points {
			got += " " + p.Addr
			if p.Optional {
				got += "?"
			}
		}
		testenv.Equal(t, got, " "+want, text)
	}
}

// TestRedirectByDefaultIsNoCondition: a port 80 that others have is no reason not to serve.
func TestRedirectByDefaultIsNoCondition(t *testing.T) {
	taken := testenv.Listen(t).Addr().String()
	set := settingsOf(t, configFile(t, "root = '/'\nacme = 'a.test'\nacme-cache = '/none'\naddr = '127.0.0.1:443'\n"))
	set.points[0].Addr, set.points[1].Addr = "127.0.0.1:0", taken
	var log testenv.Buffer
	var served running
	set.serveOn(&served, newTLS(&secured{config: new(tls.Config)}), nil, slog.New(slog.NewTextHandler(&log, nil)))
	err := capriccio.Run(t.Context(), func(context.Context) error {
		all, err := set.server.Listeners()
		testenv.Equal(t, len(all), 1, "listeners")
		testenv.Contains(t, log.String(), "-redirect-http none")
		set.points[0].Close()
		set.points[1].Optional = false
		_, fault := set.server.Listeners()
		testenv.ErrorSays(t, fault, taken)
		return err
	}, capriccio.WithoutSignals(), capriccio.WithLoops(1), capriccio.WithLogger(discard))
	testenv.Must(t, err)
}

// TestProofsByHTTP: an authority of certificates is answered where clients are sent to HTTPS, of the hosts that it is
// asked for alone.
func TestProofsByHTTP(t *testing.T) {
	dir := testenv.Need(os.MkdirTemp("", "capriccio-proofs-"))(t)
	// certmagic may still write there when Knot has stopped, and t.TempDir would call that a failure.
	t.Cleanup(func() { testenv.Until(t, "the folder is removed", func() bool { return os.RemoveAll(dir) == nil }) })
	tokens := filepath.Join(dir, "acme", "127.0.0.1-1", "challenge_tokens") // of another machine that shares the folder
	testenv.Must(t, os.MkdirAll(tokens, 0o700))
	write(t, filepath.Join(tokens, "acme.test.json"), `{"type":"http-01","token":"token","keyAuthorization":"proof","identifier":{"type":"dns","value":"acme.test"}}`)
	p := startRun(t, "-root", sampleSite, "-addr", "127.0.0.1:0", "-redirect-http", "127.0.0.1:0", "-acme", "acme.test", "-acme-cache", dir, "-acme-directory", "https://127.0.0.1:1/")
	urls := httpURL.FindAllString(p.printed[0], -1)
	testenv.MustEqual(t, len(urls), 2, p.printed[0])
	client := clientOf(t, "")
	for _, c := range []struct {
		host, path string
		status     int
		want       string
	}{
		{"acme.test", "/.well-known/acme-challenge/token", 200, "proof"},
		{"acme.test", "/.well-known/acme-challenge/other", 404, ""},
		{"other.test", "/.well-known/acme-challenge/token", 404, ""},
		{"acme.test", "/.well-known/acme-challenger", 308, ""},
	} {
		resp, body := askAs(t, client, urls[1]+c.path, c.host)
		if resp.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s%s: %d %q", c.host, c.path, resp.StatusCode, body)
		}
	}
	client.CloseIdleConnections()
	go io.Copy(io.Discard, p.out)
	p.end()
}

// TestAddressesOfAnotherUser: all are opened before root's rights are gone.
func TestAddressesOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := publicDir(t)
	path := filepath.Join(dir, "s")
	file := configFile(t, "user = '65534:65534'\n[[listen]]\naddr = '127.0.0.1:0'\n[[listen]]\naddr = %q\n[[site]]\nroot = %q\n", "unix:"+path, dir)
	p := startProcess(t, knotCommand(t, "-config", file, "-quiet", "-loops", "1")).serves(t)
	info := testenv.Need(os.Stat(path))(t)
	testenv.Equal(t, info.Sys().(*syscall.Stat_t).Uid, 65534, "owner of the socket")
	for _, client := range []*http.Client{clientOf(t, ""), clientOf(t, path)} {
		resp, _ := testenv.Get(t, client, "http://"+p.addr+"/none")
		testenv.Equal(t, resp.StatusCode, 404, "status")
		client.CloseIdleConnections()
	}
	p.signal(t, syscall.SIGTERM)
	testenv.Check(t, p.Wait())
}
