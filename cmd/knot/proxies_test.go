package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/netpoll"
)

// TestUnderWaySinceBeforeAReload: a request that waits for its backend, as a tunnel would, is counted on after the
// configuration was read again, whether the backend is still in it or not, and until it ends.
func TestUnderWaySinceBeforeAReload(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-leave
	}))
	defer backend.Close()
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
	defer rt.Close()
	var served running
	defer served.close()
	file := filepath.Join(t.TempDir(), "knot.toml")
	load := func(to string) {
		t.Helper()
		writeConfig(t, file, fmt.Sprintf("[[site]]\n[[site.proxy]]\nto = [%q]\n", to))
		set := testenv.Need(parse([]string{"-config", file}, io.Discard))(t)
		testenv.Must(t, served.load(set, slog.New(slog.DiscardHandler)))
	}
	load(backend.URL)
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	server := &knot.Server{Handler: served.sites.Serve, ErrorLog: slog.New(slog.DiscardHandler)}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server.Shutdown(ctx)
		<-ended
	}()
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-entered
	name := backend.Listener.Addr().String()
	of := func() (sum proxy.BackendStats) {
		sum.Up = true
		for _, s := range served.proxyStats() {
			if s.Name == name {
				sum.Outstanding, sum.Dials, sum.Up = sum.Outstanding+s.Outstanding, sum.Dials+s.Dials, sum.Up && s.Up
			}
		}
		return sum
	}
	if s := of(); s.Outstanding != 1 || s.Dials != 1 || !s.Up {
		t.Errorf("before: %+v", s)
	}
	load(backend.URL)
	if s := of(); s.Outstanding != 1 || s.Dials != 0 || !s.Up {
		t.Errorf("after a reload: %+v", s)
	}
	load("http://127.0.0.1:1")
	if s := of(); s.Outstanding != 1 || s.Up {
		t.Errorf("after a reload without the backend: %+v", s)
	}
	close(leave)
	testenv.Must(t, <-answered)
	testenv.Until(t, "what was before is forgotten", func() bool { return of().Outstanding == 0 && len(served.before) == 0 })
	http.DefaultClient.CloseIdleConnections()
}
