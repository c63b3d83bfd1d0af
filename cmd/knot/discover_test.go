package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
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

// TestDiscoveryMistakes are told by line.
func TestDiscoveryMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`to = ["dns+http://api"]`:                                                "proxy.1.to: \"dns+http://api\": want dns+http://NAME:PORT",
		`to = ["srv+https://_a._tcp.b"]`:                                         "say which name their certificates have",
		"to = [\"dns+http://a:1\"]\nweights = [1]":                               "weights: they are of addresses",
		"to = [\"dns+http://a:1\"]\nrefresh = 'often'":                           `"often" is not a time`,
		"to = [\"http://a:1\"]\nrefresh = '1s'":                                  "refresh: no backend is found",
		"to = [\"dns+http://a:1\"]\nrefresh = '0s'":                              "want more than 0s",
		"to = [\"http://a:1\"]\ncanary = {to = ['dns+http://a:1'], share = 0.5}": "want http://host:port",
	} {
		fails(t, exitFailed, want, "-config", configFile(t, "%s", "[[site]]\n[[site.proxy]]\n"+text+"\n"))
	}
}
