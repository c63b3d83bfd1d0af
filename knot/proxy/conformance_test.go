package proxy

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConformance runs the table of cases against Knot as a proxy. What reaches the backend has to be clean however
// the client wrote it: by its letter, with one framing, and one request for each that is answered.
func TestConformance(t *testing.T) {
	b := new(httpcases.Backend)
	backend := testenv.Serve(t, func(c net.Conn) { testenv.Check(t, b.Serve(c)) })
	f := serve(t, Config{Backends: []string{"http://" + backend}}, 1)
	c := &httpcases.Client{Dial: func() (net.Conn, error) { return net.Dial("tcp", f.addr) }, Patience: time.Minute}
	for _, k := range httpcases.Cases {
		before := b.Requests.Load()
		got, fault := c.Run(&k)
		if fault != "" || !httpcases.Allowed(got, k.Want) {
			t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
		}
		answered := int64(strings.Count(got, "200") + strings.Count(got, "204") + strings.Count(got, "keep"))
		if n := b.Requests.Load() - before; n != answered {
			t.Errorf("%s: %s, but %d requests reached the backend\n%.300q", k.Name, got, n, k.Send)
		}
	}
}
