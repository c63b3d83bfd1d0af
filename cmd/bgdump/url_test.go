//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// serveHTTP starts a server and returns its address and what was asked of it.
func serveHTTP(t *testing.T, handler http.HandlerFunc) (url string, asked *[]string) {
	asked = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.String())
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func shopDump(t *testing.T) []byte {
	var b bytes.Buffer
	testenv.Must(t, shop(t).Encode(&b))
	return b.Bytes()
}

func TestAdminAddressOrHandler(t *testing.T) {
	dump := shopDump(t)
	admin, asked := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/debug/bgraph/") && r.URL.Path != "/elsewhere" {
			http.NotFound(w, r)
			return
		}
		w.Write(dump)
	})
	want := command(t, shopFile).ok(t)
	for source, path := range map[string]string{
		admin:                    "/debug/bgraph/?format=dump",
		admin + "/":              "/debug/bgraph/?format=dump",
		admin + "/debug/bgraph/": "/debug/bgraph/?format=dump",
		admin + "/elsewhere":     "/elsewhere?format=dump",
		admin + "/elsewhere?focus=x&format=text#part": "/elsewhere?focus=x&format=dump",
		strings.TrimPrefix(admin, "http://"):          "/debug/bgraph/?format=dump",
		strings.TrimPrefix(admin, "http://127.0.0.1"): "/debug/bgraph/?format=dump",
	} {
		*asked = nil
		testenv.Equal(t, command(t, source).ok(t), want, source)
		if got := strings.Join(*asked, ", "); got != "GET "+path {
			t.Errorf("%s: asked for %s, want %s", source, got, path)
		}
	}
}

func TestHandlerAtTheRoot(t *testing.T) {
	dump := shopDump(t)
	admin, asked := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Write(dump)
	})
	u := testenv.Need(url.Parse(admin))(t)
	src := newURLSource(u, &surroundings{clock: newFakeClock(), stderr: io.Discard}, &settings{timeout: time.Second})
	for range 2 {
		testenv.Need(src.Snapshot(context.Background()))(t)
	}
	if got := strings.Join(*asked, ", "); got != "GET /debug/bgraph/?format=dump, GET /?format=dump, GET /?format=dump" {
		t.Errorf("asked for %s; what has answered once is asked later on", got)
	}
}

func TestAnswersFromServersThatAreNone(t *testing.T) {
	endless := bytes.Repeat([]byte(" "), 1<<20)
	answers := map[string]http.HandlerFunc{
		"/html": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<!DOCTYPE html><html></html>") },
		"/500":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom \x1b[31m\nsecond line", 500) },
		"/503": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(503)
			fmt.Fprint(w, "<p>no")
		},
		"/empty": func(http.ResponseWriter, *http.Request) {},
		"/endless": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "capriccio blocking graph 1\n")
			for r.Context().Err() == nil {
				if _, err := w.Write(endless); err != nil {
					return
				}
			}
		},
		"/cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, "capriccio blocking graph 1\n{")
		},
		"/loop": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) },
	}
	server, _ := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if answer := answers[r.URL.Path]; answer != nil {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	})
	for path, want := range map[string][]string{
		"/html":    {"/html is a web page", "/html/debug/pprof/trace is 404"},
		"/500":     {"500 Internal Server Error", "boom ?[31m"},
		"/503":     {"503 Service Unavailable"},
		"/empty":   {"empty"},
		"/endless": {"more than 67108864 bytes"},
		"/cut":     {"the answer broke off: unexpected EOF"},
		"/loop":    {"stopped after 10 redirects"},
		"/none":    {"404 Not Found"},
		"":         {"/debug/pprof/trace is 404 Not Found"},
	} {
		t.Run(path, func(t *testing.T) {
			r := command(t, server+path)
			r.fails(t, append(want, server)...)
			if strings.Contains(r.errOut, "second line") || strings.ContainsRune(r.errOut, '\x1b') {
				t.Errorf("got %q", r.errOut)
			}
		})
	}
}

func TestAServerThatTakesItsTime(t *testing.T) {
	for name, begin := range map[string]string{"no answer": "", "half an answer": "capriccio blocking graph 1\n{"} {
		t.Run(name, func(t *testing.T) {
			const places = 2
			asked := make(chan bool, places)
			server, _ := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					fmt.Fprint(w, begin)
					w.(http.Flusher).Flush()
				}
				asked <- true
				<-r.Context().Done()
			})
			clk := newFakeClock()
			go func() {
				for range places {
					<-asked
					clk.advance(7 * time.Second)
				}
			}()
			sur := &surroundings{clock: clk}
			commandIn(t, context.Background(), sur, "-timeout", "7s", server+"/x").fails(t, "no answer within 7s; -timeout")
		})
	}
}

func TestInterruptedRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	server, _ := serveHTTP(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	commandIn(t, ctx, &surroundings{clock: newFakeClock()}, server).fails(t, "interrupted")
}

func TestNobodyListens(t *testing.T) {
	ln := testenv.Listen(t)
	addr := ln.Addr().String()
	ln.Close()
	command(t, "http://"+addr).fails(t, "http://"+addr, "no program listens there")
	command(t, "http://name.invalid/x").fails(t, "http://name.invalid/x")
}

func TestPasswordsAreSentAndNotShown(t *testing.T) {
	server, _ := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user == "u" && password == "secret" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for _, path := range []string{"", "/x"} {
		r := command(t, strings.Replace(server, "http://", "http://u:secret@", 1)+path)
		r.fails(t, "418 I'm a teapot")
		if strings.Contains(r.errOut, "secret") {
			t.Errorf("got %s", r.errOut)
		}
	}
	ln := testenv.Listen(t)
	ln.Close() // no program listens there
	for _, arg := range []string{"http://u:secret@" + ln.Addr().String(), "http://u:secret@h:port", "ftp://u:secret@h", "http://u:secret@"} {
		if r := command(t, arg); r.code != exitFailed || strings.Contains(r.errOut, "secret") {
			t.Errorf("got %s", r.errOut)
		}
	}
}
