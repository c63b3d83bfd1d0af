package knot

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestAdaptedPanics(t *testing.T) {
	for way, adapt := range adapters {
		t.Run(way, func(t *testing.T) { testPanics(t, adapt) })
	}
}

func testPanics(t *testing.T, adapt func(http.Handler) Handler) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: adapt(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("half") {
				io.WriteString(w, "half of it")
				w.(http.Flusher).Flush()
			}
			switch r.URL.Path {
			case "/panic":
				panicsInHandler()
			case "/abort":
				panic(http.ErrAbortHandler)
			case "/600":
				w.WriteHeader(600)
			case "/101":
				w.WriteHeader(101)
			case "/twice":
				w.WriteHeader(200)
				w.WriteHeader(500)
			}
		}))})
		for target, want := range map[string]string{"/panic": "500", "/abort": "", "/600": "600", "/101": "101", "/twice": "200"} {
			testenv.Equal(t, statusOf(sv.exchange(req("GET "+target))), want, "%s: status", target)
		}
		for _, target := range []string{"/panic?half", "/abort?half"} {
			if all := sv.exchange(req("GET " + target)); !strings.HasSuffix(all, "half of it\r\n") {
				t.Errorf("%s: %q does not end in the middle", target, all)
			}
		}
		log := sv.log.String()
		for _, text := range []string{"a handler's panic", "panicsInHandler", "status=101", "superfluous"} {
			testenv.Contains(t, log, text, "the log")
		}
		testenv.Equal(t, strings.Contains(log, "abort Handler"), false, "http.ErrAbortHandler is logged")
	})
}

//go:noinline
func panicsInHandler() { panic("a handler's panic") }

func TestAdaptedGoexit(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, adapt := range adapters {
			sv := start(&Server{Handler: adapt(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }))})
			testenv.Equal(t, statusOf(sv.exchange(req("GET /"))), "500", "%s: status", way)
			testenv.Equal(t, strings.Count(sv.log.String(), "handler left by"), 1, "%s: lines in the log", way)
		}
	})
}

// With GODEBUG=panicnil=1, recover returns nil for a panic too: it is answered and logged like
// any other, and the connection is closed as after any other.
func TestPanicsWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(nil) })
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for name, handler := range map[string]Handler{"native": func(*Ctx) error { panic(nil) }, "adapted": AdaptHTTP(h), "offloaded": adaptBlocking(h)} {
			sv := start(&Server{Handler: handler})
			testenv.Equal(t, statusOf(sv.exchange(req("GET /"))), "500", "%s: status", name)
			if log := sv.log.String(); strings.Count(log, "handler panicked") != 1 || strings.Contains(log, "Goexit\"") {
				t.Errorf("%s: want a panic in the log:\n%s", name, log)
			}
		}
	})
}

// A task that is locked to its thread can't wait for an offloaded handler: it is told so before
// that has begun.
func TestOffloadedOnALockedThread(t *testing.T) {
	checkLeaks(t)
	var began atomic.Bool
	adapted := AdaptHTTP(OffloadHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { began.Store(true) })))
	sv := startServer(t, &Server{Handler: func(x *Ctx) error {
		runtime.LockOSThread()
		return adapted(x)
	}}, 1)
	if got := statusOf(sv.exchange(req("GET /"))); got != "500" || began.Load() {
		t.Errorf("status %q, want 500; the handler began: %v", got, began.Load())
	}
	testenv.Contains(t, sv.log.String(), "runtime.LockOSThread", "the log does not say why")
}
