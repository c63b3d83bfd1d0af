package gotrace

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

// asked is the load of the tests below: requests of several clients at a time, whose responses do not fit into a buffer.
const (
	askedClients = 8
	askedEach    = 10
)

// ask asks the server for a response, and reads it to its end or leaves it.
//
//go:noinline
func ask(t *testing.T, client *http.Client, url string, read bool) io.Closer {
	answer, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return io.NopCloser(nil)
	}
	if read {
		io.Copy(io.Discard, answer.Body)
	}
	return answer.Body
}

// asOfAnotherModule lets the functions of this package be those of a program: those of this module wait on its behalf.
func asOfAnotherModule(s *bgraph.Snapshot) {
	for i := range s.Nodes {
		for j := range s.Nodes[i].Stack {
			f := &s.Nodes[i].Stack[j]
			f.Function = strings.Replace(f.Function, "github.com/capriccio-go/capriccio/internal/gotrace.", "example.org/shop.", 1)
		}
	}
}

// TestFindingsOfAServer: of a server of net/http and its client no finding names a goroutine that net/http has for itself. If responses
// are not read to their end, one says so at the place that asks for them.
func TestFindingsOfAServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(bytes.Repeat([]byte("x"), 1<<20)) }))
	defer server.Close()
	for _, read := range []bool{true, false} {
		transport := &http.Transport{MaxIdleConnsPerHost: askedClients}
		client := &http.Client{Transport: transport}
		var mu sync.Mutex
		var bodies []io.Closer // guarded by mu
		s := traced(t, func() {
			var clients sync.WaitGroup
			for range askedClients {
				clients.Go(func() {
					for range askedEach {
						body := ask(t, client, server.URL, read)
						mu.Lock()
						bodies = append(bodies, body)
						mu.Unlock()
					}
				})
			}
			clients.Wait()
		})
		for _, body := range bodies {
			body.Close()
		}
		transport.CloseIdleConnections()
		asOfAnotherModule(s)
		left := false
		for _, f := range lint.Find(s) {
			if strings.Contains(f.Name, "http.(*") && !strings.Contains(f.Name, "shop.") && f.Check != lint.CheckSystemCalls {
				t.Errorf("read %v: %s %s of %s: %s", read, f.Severity, f.Check, f.Name, f.Message)
			}
			if f.Check == lint.CheckGrowing && strings.Contains(f.Message, "Connections stay open: the requests of shop.ask") && strings.Contains(f.At, "nethttp_test.go") {
				left = true
			}
		}
		testenv.Equal(t, left, !read, "a finding says that responses are not read, where they are read: %v;", read)
	}
}

// TestRequestsOfFiles: net/http sends responses past its buffer: files, large pieces, responses that a proxy copies. Their requests count too.
// For each of them, the handler waits once.
func TestRequestsOfFiles(t *testing.T) {
	const requests = 100
	path := filepath.Join(t.TempDir(), "page")
	large := bytes.Repeat([]byte("x"), 64<<10)
	testenv.Must(t, os.WriteFile(path, large, 0o600))
	serve := func(answer http.HandlerFunc) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Microsecond) // a wait
			answer(w, r)
		}))
		t.Cleanup(s.Close)
		return s
	}
	files := serve(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	pieces := serve(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(large)))
		w.Write(large)
	})
	proxy := serve(httputil.NewSingleHostReverseProxy(testenv.Need(url.Parse(pieces.URL))(t)).ServeHTTP)
	for name, c := range map[string]struct {
		server *httptest.Server
		each   uint64 // requests for one of a client
	}{"files": {files, 1}, "large pieces": {pieces, 1}, "a proxy": {proxy, 2}} {
		client := c.server.Client()
		s := traced(t, func() {
			for range requests {
				ask(t, client, c.server.URL, true).Close()
			}
		})
		client.CloseIdleConnections()
		spans := uint64(0)
		for _, sp := range s.Spans {
			if sp.Kind == "request" {
				spans += sp.Times.Count
			}
		}
		// The last of a connection may end after the trace.
		testenv.AtLeast(t, spans, c.each*requests*95/100, "%s: requests", name)
		testenv.AtLeast(t, words.Requests(s), spans, "%s: responses", name)
		testenv.AtMost(t, words.Requests(s), c.each*requests, "%s: responses", name)
	}
}

// TestRequestsOfHTTP2: requests of HTTP/2 count, also those whose handlers wait nowhere.
func TestRequestsOfHTTP2(t *testing.T) {
	const requests = 30
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	s := traced(t, func() {
		for range requests {
			answer := testenv.Need(client.Get(server.URL))(t)
			testenv.Equal(t, answer.ProtoMajor, 2, "version")
			answer.Body.Close()
		}
	})
	count := uint64(0)
	for _, sp := range s.Spans {
		if sp.Kind == "request" {
			count += sp.Times.Count
		}
	}
	testenv.AtLeast(t, count, requests-1, "requests") // the last one may end after the trace
}
