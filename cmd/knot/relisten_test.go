package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// reads sends SIGHUP with a new text of the configuration, and waits for the words in the log.
func (p *program) reads(file, text string, words ...string) {
	p.t.Helper()
	write(p.t, file, text)
	hangUp()
	p.stderr.await(p.t, words...)
}

// refused reports whether nobody listens at an address.
func refused(network, addr string) bool {
	nc, err := net.Dial(network, addr)
	if err == nil {
		nc.Close()
	}
	return err != nil
}

// TestAddressesChange: a reload opens and closes addresses, and has others speak TLS or come from proxies, without losing a
// request under way.
func TestAddressesChange(t *testing.T) {
	dir := t.TempDir()
	crt, key := pair(t, dir, "a.example", 1)
	path, first, second, third := filepath.Join(dir, "s"), freePort(t), freePort(t), freePort(t)
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Proto"))
	})
	began, goOn := make(chan bool), make(chan bool)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- true
			<-goOn
		}
		backend(w, r)
	})
	ln := testenv.Listen(t)
	go http.Serve(ln, slow)
	head := fmt.Sprintf("tls-cert = %q\ntls-key = %q\n", crt, key)
	site := fmt.Sprintf("[[site]]\n[[site.proxy]]\nto = ['http://%s']\n", ln.Addr())
	listen := func(addr, more string) string { return fmt.Sprintf("[[listen]]\naddr = %q\n%s\n", addr, more) }
	file := configFile(t, "%s", head+listen(first, "tls = false")+listen("unix:"+path, "tls = false")+site)
	p := startRun(t, "-config", file)
	client := clientOf(t, "")
	expect := func(url, want string) {
		t.Helper()
		_, body := testenv.Get(t, client, url)
		testenv.Equal(t, body, want, url)
	}
	testenv.Contains(t, p.printed[0], "serving "+file+" on ")
	expect("http://"+first, "127.0.0.1 http")
	// One more, and the first changes to TLS: on the same socket.
	p.reads(file, head+listen(first, "")+listen(second, "tls = false")+listen("unix:"+path, "tls = false")+site, "was read again")
	client.CloseIdleConnections()
	expect("https://"+first, "127.0.0.1 https")
	expect("http://"+second, "127.0.0.1 http")
	// A header of the PROXY protocol; one that can't be opened leaves all as it was.
	fromProxy := listen(second, "tls = false\nproxy-protocol = ['127.0.0.0/8']")
	taken := testenv.Listen(t).Addr().String()
	p.reads(file, head+fromProxy+listen(taken, ""), "can't be used", taken)
	expect("http://"+second, "127.0.0.1 http")
	p.reads(file, head+fromProxy+listen("systemd:web", "")+site, "can't be used", `no socket named \"web\"`)
	// A request that is under way at an address that goes has its answer.
	result := make(chan string)
	go func() {
		resp, err := client.Get("https://" + first + "/slow")
		if err != nil {
			result <- err.Error()
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		result <- string(body)
	}()
	<-began
	p.reads(file, head+fromProxy+listen(third, "")+site, "was read again")
	testenv.True(t, refused("tcp", first) && refused("unix", path), "somebody listens at an address that is gone")
	testenv.True(t, func() bool { _, err := os.Lstat(path); return os.IsNotExist(err) }(), "the file of the socket is left")
	goOn <- true
	testenv.Equal(t, <-result, "127.0.0.1 https", "the request under way")
	expect("https://"+third, "127.0.0.1 https")
	nc := testenv.Dial(t, second)
	testenv.Need(io.WriteString(nc, "PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\r\nGET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n"))(t)
	resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
	body := testenv.Need(io.ReadAll(resp.Body))(t)
	testenv.Equal(t, string(body), "192.0.2.7 http", "the client that a backend is told of")
	// From several to one without a table, and back.
	p.reads(file, fmt.Sprintf("addr = %q\n", first)+site, "was read again")
	client.CloseIdleConnections()
	expect("http://"+first, "127.0.0.1 http")
	testenv.True(t, refused("tcp", second) && refused("tcp", third), "somebody listens at an address that is gone")
	p.reads(file, head+listen("127.0.0.1"+first[strings.LastIndexByte(first, ':'):], "")+site, "was read again")
	client.CloseIdleConnections()
	expect("https://"+first, "127.0.0.1 https")
	testenv.True(t, !strings.Contains(p.stderr.String(), "started anew, keys=addr"), "addr needs a start")
	go io.Copy(io.Discard, p.out)
	client.CloseIdleConnections()
	p.end()
}

// TestAddressOfTheStartChanges: the one address that a server has begun with goes, and it serves on at another.
func TestAddressOfTheStartChanges(t *testing.T) {
	first, second := freePort(t), freePort(t)
	text := "addr = %q\nroot = '" + sampleSite + "'\n"
	file := configFile(t, text, first)
	p := startRun(t, "-config", file)
	client := clientOf(t, "")
	status := func(url string, want int) {
		t.Helper()
		resp, _ := testenv.Get(t, client, url+"/notes.txt")
		testenv.Equal(t, resp.StatusCode, want, url)
	}
	status("http://"+first, 200)
	p.reads(file, fmt.Sprintf(text, second), "was read again")
	status("http://"+second, 200)
	resp, _ := testenv.Get(t, client, "http://"+first+"/notes.txt") // on a connection that was there
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Close), "421 true", "at the address that is gone")
	testenv.True(t, refused("tcp", first), "somebody listens at an address that is gone")
	p.reads(file, "tls-cert = 'none'\ntls-key = 'none'\n"+fmt.Sprintf(text, second), "none: no such file")
	status("http://"+second, 200)
	client.CloseIdleConnections()
	crt, key := pair(t, t.TempDir(), "a.example", 1)
	p.reads(file, fmt.Sprintf("tls-cert = %q\ntls-key = %q\n", crt, key)+fmt.Sprintf(text, second), "was read again")
	status("https://"+second, 200) // the first certificate that it has
	go io.Copy(io.Discard, p.out)
	client.CloseIdleConnections()
	p.end()
}

// TestAddressesChangePlaces: an address that Knot has open for something else is not said to be another program's. Two reloads move it.
func TestAddressesChangePlaces(t *testing.T) {
	first, admin, other := freePort(t), freePort(t), freePort(t)
	text := "addr = %q\nadmin = %q\nroot = '" + sampleSite + "'\n"
	file := configFile(t, text, first, admin)
	p := startRun(t, "-config", file)
	go io.Copy(io.Discard, p.out)
	p.reads(file, fmt.Sprintf(text, admin, other), "can't be used", "Knot itself listens there as "+admin)
	p.reads(file, fmt.Sprintf(text, other, first), "can't be used", "Knot itself listens there as "+first)
	testenv.True(t, !strings.Contains(p.stderr.String(), "Another program"), "another program is blamed: %s", p.stderr.String())
	p.reads(file, fmt.Sprintf(text, other, ""), "was read again")
	p.reads(file, fmt.Sprintf(text, admin, first), "was read again")
	resp, _ := testenv.Get(t, http.DefaultClient, "http://"+admin+"/notes.txt")
	testenv.Equal(t, resp.StatusCode, 200)
	p.end()
}
