package knot

import (
	"bytes"
	"context"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// work takes processor time, and lets others run in between.
func work() {
	used := func() time.Duration {
		var now unix.Timespec
		unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now)
		return time.Duration(now.Nano())
	}
	for range 3 {
		for until := used() + 2*time.Millisecond; used() < until; {
		}
		task.Yield()
	}
}

//go:noinline
func labelledWork() { work() }

//go:noinline
func plainWork() { work() }

// TestProfilesByRoute: a handler labels its samples in a CPU profile, and nobody else's.
func TestProfilesByRoute(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/labelled", func(w http.ResponseWriter, r *http.Request) {
		pprof.Do(r.Context(), pprof.Labels("route", r.Pattern), func(context.Context) { labelledWork() })
	})
	mux.HandleFunc("/left", func(w http.ResponseWriter, r *http.Request) { // it does not take them back
		pprof.SetGoroutineLabels(pprof.WithLabels(r.Context(), pprof.Labels("route", "left")))
	})
	mux.HandleFunc("/plain", func(w http.ResponseWriter, r *http.Request) { plainWork() })
	sv := startServer(t, &Server{Handler: AdaptHTTP(mux)}, 2)
	var buf bytes.Buffer
	if err := pprof.StartCPUProfile(&buf); err != nil {
		t.Skip(err)
	}
	ended := make(chan bool)
	for _, paths := range [][]string{{"/labelled", "/plain"}, {"/plain", "/labelled"}, {"/left", "/plain"}} {
		go func() {
			p := sv.dial()
			for range 8 {
				for _, path := range paths {
					p.send("GET " + path + " HTTP/1.1\r\nHost: h\r\n\r\n")
					p.response("GET")
				}
			}
			ended <- true
		}()
	}
	for range 3 {
		<-ended
	}
	pprof.StopCPUProfile()
	got := testenv.Need(profile.Parse(&buf))(t)
	met := make(map[string]int)
	for _, s := range got.Sample {
		for _, at := range s.Location {
			for _, line := range at.Line {
				_, name, _ := strings.Cut(line.Function.Name, "/knot.")
				if name == "labelledWork" || name == "plainWork" {
					met[name+" "+strings.Join(s.Label["route"], " ")]++
				}
			}
		}
	}
	if met["labelledWork /labelled"] == 0 || met["plainWork "] == 0 || len(met) != 2 {
		t.Errorf("samples: %v; want some of labelledWork with its route, some of plainWork with none", met)
	}
}
