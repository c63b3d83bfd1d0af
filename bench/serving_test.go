package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Servers of files answer what the clients of the experiments files and tls ask.
func TestServersOfFilesAndTheirClients(t *testing.T) {
	t.Setenv(capriccio.EnvOverload, "wait") // a stalled machine is no overload
	r := testRun(t)
	root, key := r.servedRoot(), r.keyFile()
	asked, _ := servedFiles()
	testenv.Must(t, r.writeServed())
	testenv.Must(t, writeKey(key))
	for x, files := range asked {
		name, size, _ := strings.Cut(files[len(files)-1], "=")
		info := testenv.Need(os.Stat(filepath.Join(root, name)))(t)
		if fmt.Sprint(info.Size()) != size {
			t.Errorf("x=%d: %s has %d bytes", x, files[len(files)-1], info.Size())
		}
	}
	span := 20 * time.Millisecond
	for _, load := range []struct {
		kind, pem string
		client    []string
	}{
		{"knot", "", append([]string{"fetch", "-for", span.String()}, asked[100]...)},
		{"net-http", "", append([]string{"fetch", "-for", span.String()}, asked[0]...)},
		{"knot", key, []string{"tls-load", "-for", span.String()}},
		{"net-http", key, []string{"tls-load", "-for", span.String(), "-fresh"}},
	} {
		s, err := startServer(r.ctx, load.kind, r.self, workerCommand, "files", "-kind", load.kind, "-root", root, "-tls", load.pem)
		testenv.Must(t, err)
		args := append([]string{load.client[0], "-addr", s.addr, "-pid", strconv.Itoa(s.child.PID())}, load.client[1:]...)
		samples, err := samplesOf(r.ctx, span, r.ownClient(args...))
		s.child.Close()
		if err != nil || samples[0].metric != "rps" {
			t.Errorf("%s by %v: %v, %v", load.kind, load.client, samples, err)
		}
	}
}

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
