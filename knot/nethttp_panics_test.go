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
			testenv.Equal(t, statusOf(sv.exchange("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")), want, "%s: status", target)
		}
		for _, target := range []string{"/panic?half", "/abort?half"} {
			if all := sv.exchange("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.HasSuffix(all, "half of it\r\n") {
				t.Errorf("%s: %q does not end in the middle", target, all)
			}
		}
		log := sv.log.String()
		for _, text := range []string{"a handler's panic", "panicsInHandler", "status=101", "superfluous"} {
			testenv.Contains(t, log, text, "the log")
		}
		if strings.Contains(log, "abort Handler") {
			t.Errorf("http.ErrAbortHandler was logged:\n%s", log)
		}
	})
}

//go:noinline
func panicsInHandler() { panic("a handler's panic") }

func TestAdaptedGoexit(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, adapt := range adapters {
			sv := start(&Server{Handler: adapt(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }))})
			testenv.Equal(t, statusOf(sv.exchange("GET / HTTP/1.1\r\nHost: h\r\n\r\n")), "500", "%s: status", way)
			if log := sv.log.String(); strings.Count(log, "handler left by") != 1 {
				t.Errorf("%s: the log says %s", way, log)
			}
		}
	})
}

// With GODEBUG=panicnil=1, recover returns nil for a panic too: it is answered and logged like
// any other, and the connection is closed as after any other.
func TestPanicsWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(nil) })
	adapted, offloaded := AdaptHTTP(h), AdaptHTTP(OffloadHTTP(h))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(x *Ctx) error {
			switch x.Path() {
			case "/adapted":
				return adapted(x)
			case "/offloaded":
				return offloaded(x)
			}
			panic(nil)
		}})
		for _, target := range []string{"/", "/adapted", "/offloaded"} {
			testenv.Equal(t, statusOf(sv.exchange("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")), "500", "%s: status", target)
		}
		if log := sv.log.String(); strings.Count(log, "handler panicked") != 3 || strings.Contains(log, "Goexit\"") {
			t.Errorf("want three panics in the log:\n%s", log)
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
	if got := statusOf(sv.exchange("GET / HTTP/1.1\r\nHost: h\r\n\r\n")); got != "500" || began.Load() {
		t.Errorf("status %q, want 500; the handler began: %v", got, began.Load())
	}
	testenv.Contains(t, sv.log.String(), "runtime.LockOSThread", "the log does not say why")
}
