package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Servers that could do more agree on the same key exchange as the others.
func TestHandshakesAreTheSameForAll(t *testing.T) {
	var curve atomic.Uint32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		curve.Store(uint32(r.TLS.CurveID))
		w.Write(make([]byte, 1<<10))
	}))
	defer server.Close()
	c := testenv.Need(askTLS(server.Listener.Addr().String(), nil))(t)
	defer c.Close()
	testenv.Equal(t, tls.CurveID(curve.Load()), tls.X25519, "key exchange by")
}
