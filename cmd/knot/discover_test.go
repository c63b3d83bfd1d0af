package main

import (
	"io"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// TestDiscovery: a proxy goes by the list of a file, from its first request on, as the list changes, and over SIGHUP.
func TestDiscovery(t *testing.T) {
	behind := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, name) }))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	list := filepath.Join(t.TempDir(), "api.json")
	write(t, list, `[{"targets":["`+behind("first")+`"]}]`)
	site := "[[site]]\n[[site.proxy]]\nto = [" + `"file:` + list + `"]` + "\nrefresh = '1ms'\n"
	file := configFile(t, "%s", site)
	p := start(t, "-config", file)
	_, body := p.ask("h", "/")
	testenv.Equal(t, body, "first", "the answer")
	write(t, list, `[{"targets":["`+behind("second")+`"]}]`)
	testenv.Until(t, "the second answers", func() bool {
		_, body := p.ask("h", "/")
		return body == "second"
	})
	write(t, list, "nothing that is a list")
	p.reads(file, site, "was read again")
	_, body = p.ask("h", "/")
	testenv.Equal(t, body, "second", "the answer while the list can't be read")
	p.end()
}

// TestDiscoveryOfFastCGI: a target of a file, which has no scheme, is one of FastCGI for a proxy that speaks it.
func TestDiscoveryOfFastCGI(t *testing.T) {
	ln := testenv.Listen(t)
	go fcgi.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	list := filepath.Join(t.TempDir(), "php.json")
	write(t, list, `[{"targets":["`+ln.Addr().String()+`"]}]`)
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.proxy]]\nto = ['file:%s']\nfastcgi = { root = '/none' }\n", list))
	_, body := p.ask("h", "/x.php")
	testenv.Equal(t, body, "hello", "the answer")
	p.end()
}

// TestDiscoveredGroups: canary and mirror go by lists of their own, over SIGHUP too.
func TestDiscoveredGroups(t *testing.T) {
	copies := make(chan string, 1000)
	behind := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, name)
			if name == "copies" {
				copies <- r.URL.Path
			}
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	folder := t.TempDir()
	list := func(name string) string { return filepath.Join(folder, name+".json") }
	for _, name := range []string{"to", "canary", "copies"} {
		write(t, list(name), `[{"targets":["`+behind(name)+`"]}]`)
	}
	site := "[[site]]\n[[site.proxy]]\nto = ['file:" + list("to") + "']\nrefresh = '1ms'\n" +
		"canary = {to = ['file:" + list("canary") + "'], share = 1.0}\nmirror = {to = ['file:" + list("copies") + "']}\n"
	file := configFile(t, "%s", site)
	p := start(t, "-config", file)
	_, body := p.ask("h", "/a")
	testenv.Equal(t, body, "canary", "the answer")
	testenv.Equal(t, <-copies, "/a", "the copy")
	write(t, list("canary"), "[]")
	testenv.Until(t, "the first group answers", func() bool {
		_, body := p.ask("h", "/")
		return body == "to"
	})
	write(t, list("canary"), "nothing that is a list")
	write(t, list("copies"), "nothing that is a list")
	p.reads(file, site, "was read again")
	_, body = p.ask("h", "/b")
	testenv.Equal(t, body, "to", "the answer while the lists can't be read")
	testenv.Until(t, "the copy while its list can't be read", func() bool { return <-copies == "/b" })
	p.end()
}

// TestDiscoveryRoom: what is found for a proxy leaves room for its canary.
func TestDiscoveryRoom(t *testing.T) {
	source := []string{"dns+http://a:1"}
	testenv.Equal(t, room(nil, canaryMost), proxy.MaxBackends, "alone")
	testenv.Equal(t, room([]string{"http://a:1", "http://b:1"}, canaryMost), proxy.MaxBackends-2, "beside two")
	testenv.Equal(t, room(source, canaryMost)+room(source, proxy.MaxBackends-canaryMost), proxy.MaxBackends, "both are found")
}

// TestDiscoveryMistakes are told by line.
func TestDiscoveryMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`to = ["dns+http://api"]`:                                                               "proxy.1.to: \"dns+http://api\": want dns+http://NAME:PORT",
		`to = ["srv+https://_a._tcp.b"]`:                                                        "say which name their certificates have",
		"to = [\"dns+http://a:1\"]\nfastcgi = {root = '/srv'}":                                  "proxy.1.to: \"dns+http://a:1\": want it without http://",
		`to = ["dns+a:1"]`:                                                                      "proxy.1.to: \"dns+a:1\": want http:// or https://",
		"to = [\"dns+http://a:1\"]\nweights = [1]":                                              "weights: they are of addresses",
		"to = [\"dns+http://a:1\"]\nrefresh = 'often'":                                          `"often" is not a time`,
		"to = [\"http://a:1\"]\nrefresh = '1s'":                                                 "refresh: no backend is found",
		"to = [\"dns+http://a:1\"]\nrefresh = '0s'":                                             "want more than 0s",
		"to = [\"http://a:1\"]\ncanary = {to = ['dns+http://a'], share = 0.5}":                  "canary.to: \"dns+http://a\": want dns+http://NAME:PORT",
		"to = [\"http://a:1\"]\nmirror = {to = ['dns+http://a']}":                               "mirror.to: \"dns+http://a\": want dns+http://NAME:PORT",
		"to = [\"http://a:1\"]\ncanary = {to = ['dns+http://b:1'], share = 0.5, weights = [1]}": "canary.weights: they are of addresses",
		"to = [\"dns+https://a:1\"]\ncanary = {to = ['dns+https://b:1'], share = 0.5}":          "say which name their certificates have",
	} {
		fails(t, exitFailed, want, "-config", configFile(t, "%s", "[[site]]\n[[site.proxy]]\n"+text+"\n"))
	}
}
