package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestEverythingIsReloaded: the keys of the top level take effect on SIGHUP, all or none of them, while clients stay connected.
func TestEverythingIsReloaded(t *testing.T) {
	dir := t.TempDir()
	crt, key := pair(t, dir, "a.example", 1)
	other, otherKey := pair(t, dir, "b.example", 2)
	logA, logB := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	admin, adminB := freePort(t), freePort(t)
	sites := fmt.Sprintf("[[site]]\nroot = %q\n", sampleSite)
	before := fmt.Sprintf("log = %q\nadmin = %q\nserver-name = 'before'\n", logA, admin)
	file := configFile(t, "%s", before+sites)
	p := start(t, "-config", file)
	client := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}, Timeout: time.Minute}
	client.Transport.(*http.Transport).Protocols.SetHTTP1(true)
	ask := func(path string, body int) *http.Response {
		t.Helper()
		req := testenv.Need(http.NewRequest("POST", p.url+path, strings.NewReader(strings.Repeat("x", body))))(t)
		req.Header.Set("X-Forwarded-For", "192.0.2.7")
		resp := testenv.Need(client.Do(req))(t)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp
	}
	holds := func(file, want string) {
		t.Helper()
		for patience := time.Now().Add(time.Minute); ; {
			if data, _ := os.ReadFile(file); strings.Contains(string(data), want) {
				return
			}
			if time.Now().After(patience) {
				t.Fatalf("%s does not come to hold %q", file, want)
			}
		}
	}
	resp := ask("/first", 100)
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header.Get("Server")), "405before", "at first")

	_, port, _ := net.SplitHostPort(admin)
	p.reads(file, strings.Replace(before, admin, "0.0.0.0:"+port, 1)+sites, "can't be used", "Knot itself listens there as "+admin)
	testenv.True(t, !strings.Contains(p.stderr.String(), "Another program"), "another program is blamed: %s", p.stderr.String())
	p.reads(file, strings.Replace(before, admin, ":"+port, 1)+sites, "was read again")

	// Something of everything changes, and one thing is wrong.
	after := fmt.Sprintf("log = %q\nlog-format = 'json'\nadmin = %q\nserver-name = 'after'\nmax-body = '50B'\nmax-conns = 77\nmax-head = 4096\ntrust = ['127.0.0.0/8']\nh2c = true\ngrace = '1h'\nleast-rate = '1KB'\nidle-timeout = '1h'\n", logB, adminB)
	taken := testenv.Listen(t).Addr().String()
	p.reads(file, strings.Replace(after, adminB, taken, 1)+sites, "can't be used", taken)
	p.reads(file, after+"tls-cert = 'none'\ntls-key = 'none'\n"+sites, "can't be used", "none: no such file")
	p.reads(file, after+strings.Replace(sites, sampleSite, "/none", 1), "can't be used", "there is no folder /none")
	resp = ask("/second", 100)
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header.Get("Server")), "405before", "after reloads that have failed")
	testenv.True(t, refused("tcp", adminB), "the admin address of a bad configuration is served")
	status := func(addr string) int {
		t.Helper()
		resp, _ := testenv.Get(t, http.DefaultClient, "http://"+addr+"/healthz")
		return resp.StatusCode
	}
	testenv.Equal(t, status(admin), 200, "the admin address that there was")

	p.reads(file, after+"loops = 3\n"+sites, "started anew", "keys=loops")
	testenv.True(t, !strings.Contains(p.stderr.String(), "keys=loops,"), "only the number of loops needs a start")
	holds(logA, "/second")
	resp = ask("/third", 40)
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header.Get("Server")), "405after", "a body that is small enough")
	testenv.Equal(t, ask("/fourth", 100).StatusCode, 413, "a body that is too large")
	holds(logB, `"client":"192.0.2.7"`)
	holds(logB, "/fourth")
	data := testenv.Need(os.ReadFile(logA))(t)
	testenv.True(t, !strings.Contains(string(data), "/third"), "the old log goes on")
	testenv.True(t, refused("tcp", admin), "the old admin address is served")
	_, page := testenv.Get(t, http.DefaultClient, "http://"+adminB+"/metrics")
	testenv.Contains(t, page, "knot_connections_limit 77")
	testenv.Contains(t, page, "knot_request_duration_seconds_count")
	h2c := &http.Transport{Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	resp, _ = testenv.Get(t, &http.Client{Transport: h2c}, p.url+"/notes.txt")
	testenv.Equal(t, resp.ProtoMajor, 2, "version of HTTP with h2c")
	h2c.CloseIdleConnections()

	// TLS comes, changes and goes; so do the log and the admin address.
	secure := strings.Replace(p.url, "http:", "https:", 1)
	p.reads(file, fmt.Sprintf("tls-cert = %q\ntls-key = %q\n", crt, key)+sites, "was read again")
	testenv.Equal(t, serial(t, secure, "a.example"), 1, "certificate")
	testenv.True(t, refused("tcp", adminB), "the admin address is served that is not configured any more")
	p.reads(file, fmt.Sprintf("tls-cert = %q\ntls-key = %q\ntls-min = '1.3'\nhttp2 = false\ntls-client-ca = %q\ntls-client-optional = true\n", other, otherKey, crt)+sites, "was read again")
	testenv.Equal(t, serial(t, secure, "a.example"), 2, "certificate after a change")
	for _, config := range []*tls.Config{{MaxVersion: tls.VersionTLS12}, {NextProtos: []string{"h2"}}} {
		config.InsecureSkipVerify = true
		_, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "http://"), config)
		testenv.Fails(t, err, "what the configuration does not allow any more")
	}
	p.reads(file, "log = '-'\n"+sites, "was read again")
	client.CloseIdleConnections()
	ask("/last", 0)
	client.CloseIdleConnections()
	p.end()
	testenv.Until(t, "the log has the last request", func() bool { return strings.Contains(p.rest.String(), "/last") })
}

// TestReloadAtTheStart: a SIGHUP that comes before anything is served brings what the file says then, and not in between
// what it said before.
func TestReloadAtTheStart(t *testing.T) {
	const text = "root = '" + sampleSite + "'\ncache = "
	file := configFile(t, text+"'8MB'\n")
	set, args := settingsOf(t, file), []string{"-config", file}
	served := running{parts: &parts{set.server, newTLS(&secured{from: set.tls}), new(accessLog), new(adminNow), new(ranking)}}
	defer served.close()
	write(t, file, text+"'2MB'\n")
	served.reload(set, args, discard)
	testenv.Equal(t, served.now.Load(), nil, "something is served before the start is over")
	testenv.Must(t, served.load(set, discard))
	served.catchUp(set, args, discard)
	testenv.AtMost(t, served.stats().MaxBytes, 2<<20, "bytes of the cache")
	testenv.AtLeast(t, served.stats().MaxBytes, 1<<20, "bytes of the cache")
	now := served.now.Load()
	served.catchUp(set, args, discard)
	testenv.Equal(t, served.now.Load(), now, "it was read again twice")
}

// TestReloadOfAFIFO: a configuration file that has become one is not waited for.
func TestReloadOfAFIFO(t *testing.T) {
	file := configFile(t, "root = '%s'\n", sampleSite)
	set, args := settingsOf(t, file), []string{"-config", file}
	var log bytes.Buffer
	var served running
	defer served.close()
	testenv.Must(t, served.load(set, discard))
	now := served.now.Load()
	testenv.Must(t, os.Remove(file))
	testenv.Must(t, syscall.Mkfifo(file, 0o600))
	served.reload(set, args, slog.New(slog.NewTextHandler(&log, nil)))
	testenv.Contains(t, log.String(), "knot.toml is not a regular file")
	testenv.Equal(t, served.now.Load(), now, "something else is served")
}

// TestIncludedFilesAreReadAgain: a SIGHUP takes up files that are new in a folder, and a fault in one of them changes nothing. knot
// check shows all of them.
func TestIncludedFilesAreReadAgain(t *testing.T) {
	a, b := twoSites(t)
	file := configFile(t, "include = ['sites/*.toml']\n")
	dir := filepath.Join(filepath.Dir(file), "sites")
	testenv.Must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "a.toml"), fmt.Sprintf("[[site]]\nhosts = ['a']\nroot = %q\n", a))
	p := start(t, "-config", file)
	expect := func(host string, status int) {
		t.Helper()
		resp, _ := p.ask(host, "/")
		testenv.Equal(t, resp.StatusCode, status, host)
	}
	expect("a", 200)
	expect("b", 421)
	write(t, filepath.Join(dir, "b.toml"), fmt.Sprintf("[[site]]\nhosts = ['b']\nroot = %q\n", b))
	hangUp()
	p.stderr.await(t, "was read again", "sites=2")
	expect("b", 200)
	write(t, filepath.Join(dir, "c.toml"), "[[site]]\nhosts = ['c']\nroot = '/none/x'\n")
	hangUp()
	p.stderr.await(t, "can't be used", "sites/c.toml:3: site 3: there is no folder /none/x")
	expect("b", 200)
	p.end()
	var out, errs bytes.Buffer
	testenv.Equal(t, checkCommand([]string{file}, nil, &out, &errs), exitFailed)
	testenv.Contains(t, errs.String(), filepath.Join(dir, "c.toml")+":3: ")
	testenv.Must(t, os.Remove(filepath.Join(dir, "c.toml")))
	testenv.Equal(t, checkCommand([]string{"-dump", file}, nil, &out, &errs), exitOK)
	for _, want := range []string{a, b} {
		testenv.Contains(t, out.String(), want)
	}
	testenv.True(t, !strings.Contains(out.String(), "include"), "the dump is one file: %s", &out)
}
