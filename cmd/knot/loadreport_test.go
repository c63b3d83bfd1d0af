package main

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestLoadReports: responses of a site that reports say what admission knows, those of others nothing.
func TestLoadReports(t *testing.T) {
	p := start(t, "-config", configFile(t, "[[site]]\nhosts = ['a']\nload-report = 'on-request'\nroot = %q\n[[site]]\nroot = %[1]q\n", sampleSite))
	p.ask("a", "/", orca.FormatHeader+": BIN")
	resp, _ := p.ask("a", "/none", orca.FormatHeader+": BIN")
	testenv.Equal(t, resp.StatusCode, 404, "status")
	r, err := orca.Parse(resp.Header.Get(orca.BinaryHeader), true)
	_, heap := orca.Find(r.Utilisation, "heap")
	_, inside := orca.Find(r.Utilisation, "inside request")
	n, _ := orca.Find(r.Named, orca.InFlight)
	testenv.True(t, err == nil && heap && inside && n == 1, "%+v, %v", r, err)
	for _, host := range []string{"a", "b"} {
		resp, _ = p.ask(host, "/")
		testenv.Equal(t, strings.Join(resp.Header.Values(orca.Header), "|"), "", "of host %s, which was not asked for one", host)
	}
	p.end()
	fails(t, 1, "site 1: load-report: \"yes\" is unknown; want on-request, always or off", "-config", configFile(t, "[[site]]\nload-report = 'yes'\nroot = %q\n", sampleSite))
}
