//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// This process listens with two servers, of which one has net/http/pprof.
func TestProbe(t *testing.T) {
	sur := &surroundings{clock: systemClock{}, kernel: systemKernel(), stderr: io.Discard}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if _, err := probe(t.Context(), os.Getpid(), sur); err == nil || !strings.Contains(err.Error(), plain.Listener.Addr().String()) || !strings.Contains(err.Error(), "net/http/pprof") {
		t.Errorf("got %v; want an error with the address that was asked, and what to add", err)
	}
	partial := httptest.NewServer(newProfiled("/debug/pprof/cmdline", ""))
	defer partial.Close()
	if _, err := probe(t.Context(), os.Getpid(), sur); err == nil || !strings.Contains(err.Error(), partial.Listener.Addr().String()) || !strings.Contains(err.Error(), "serves profiles but no execution trace") {
		t.Errorf("got %v; want an error that names what is missing", err)
	}
	profiled := httptest.NewServer(newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	defer profiled.Close()
	u, err := probe(t.Context(), os.Getpid(), sur)
	if err != nil || u.Host != profiled.Listener.Addr().String() || u.Path != profilePath {
		t.Errorf("found %v, %v; want %s", u, err, profiled.URL)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Fails(t, testenv.Err(probe(ctx, os.Getpid(), sur)), "goes on after the end")
	testenv.ErrorSays(t, testenv.Err(probe(t.Context(), 1<<22+1, sur)), "not known", "of no process")
}

// TestProbeOfAContainer: where a process of a network of its own listens, somebody else may answer here.
func TestProbeOfAContainer(t *testing.T) {
	f := newFakeProc(t)
	server := httptest.NewServer(newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	testenv.Must(t, os.Mkdir(filepath.Join(f.root, "4711", "net"), 0o755))
	f.write("net/tcp", fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123 1\n", port))
	sur := &surroundings{clock: systemClock{}, kernel: f.source().kernel, stderr: io.Discard}
	for _, own := range []string{"net:[1]", "net:[2]"} {
		f.link("self", "ns/net", "net:[1]")
		f.link("4711", "ns/net", own)
		u, err := probe(t.Context(), 4711, sur)
		switch {
		case own == "net:[1]" && err != nil:
			t.Errorf("in the same network: %v", err)
		case own == "net:[2]" && (err == nil || !strings.Contains(err.Error(), "network of its own")):
			t.Errorf("in another network it found %v, %v", u, err)
		}
	}
}

func TestProbeIsInterrupted(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	commandIn(t, ctx, realSurroundings(), "-probe", strconv.Itoa(os.Getpid())).fails(t, "interrupted")
}

func TestParseSocket(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:17AC": "[::1]:6060",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"00000000:FFFF":                         "0.0.0.0:65535",
		"":                                      "",
		"0100007F":                              "",
		"01007F:0050":                           "",
		"0100007F:10000":                        "",
	} {
		if at, ok := parseSocket(text); ok != (want != "") || ok && at.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, at, ok, want)
		}
	}
}
