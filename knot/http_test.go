package knot

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestStatusCodes has what depends on the server's settings and its handlers; TestConformance has the rest.
func TestStatusCodes(t *testing.T) {
	const host = "Host: a\r\n"
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler, MaxBody: 1000})
		for _, test := range []struct {
			name, request, status string
			keeps                 bool
		}{
			{"200 for 1.0 with keep-alive", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200", true},
			{"400 for a path above the root", "GET /../a HTTP/1.1\r\n" + host + "\r\n", "400", true},
			{"404", "GET /404 HTTP/1.1\r\n" + host + "\r\n", "404", true},
			{"413 by length", "PUT /echo HTTP/1.1\r\n" + host + "Content-Length: 1001\r\n\r\n", "413", false},
			{"413 by chunks", "PUT /echo HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n", "413", false},
			{"431 by number", "GET / HTTP/1.1\r\n" + host + strings.Repeat("A: b\r\n", 100) + "\r\n", "431", false},
			{"500 after a panic", "GET /panic HTTP/1.1\r\n" + host + "\r\n", "500", false},
			{"500 after Goexit", "GET /goexit HTTP/1.1\r\n" + host + "\r\n", "500", false},
			{"200 for a method that only the handler knows", "BREW / HTTP/1.1\r\n" + host + "\r\n", "200", true},
			{"400 for HEAD", "HEAD / HTTP/1.1\r\n\r\n", "400", false},
		} {
			t.Run(test.name, func(t *testing.T) {
				p := sv.dial()
				p.t = t
				p.send(test.request)
				resp, _ := p.response(strings.Fields(test.request)[0])
				testenv.MustEqual(t, fmt.Sprint(resp.StatusCode), test.status, "status")
				if resp.Header.Get("Date") == "" {
					t.Error("no Date")
				}
				if resp.Close == test.keeps {
					t.Errorf("the response says close %v, want %v", resp.Close, !test.keeps)
				}
				if !test.keeps {
					p.wantClosed()
					return
				}
				p.send("GET /next?q HTTP/1.1\r\nHost: h\r\n\r\n")
				if _, body := p.response("GET"); body != "GET /next?q h" {
					t.Errorf("next response is %q", body)
				}
			})
		}
		for _, said := range []string{"a handler's panic", "echoHandler", "handler left by runtime.Goexit"} { // the second is of its stack
			testenv.Contains(t, sv.log.String(), said, "the log")
		}
	})
}

func TestResponses(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler, Name: "knot"})
		p := sv.dial()
		for _, test := range []struct {
			request, body string
			length        int64
		}{
			{"GET /parts HTTP/1.1", "ab", 2},
			{"HEAD /parts HTTP/1.1", "", 2},
			{"GET /nothing HTTP/1.1", "", 0},
			{"HEAD /a HTTP/1.1", "", 10},
			{"GET /stream HTTP/1.1", strings.Repeat("0123456789abcdef", 4000), -1},
			{"HEAD /stream HTTP/1.1", "", 64000},
			{"GET /large HTTP/1.1", strings.Repeat("L", 1<<20), 1 << 20},
			{"HEAD /404 HTTP/1.1", "", int64(len(appendErrorPage(nil, 404)))},
			{"OPTIONS * HTTP/1.1", "OPTIONS *? h", 12},
			{"GET http://x.y/z?1 HTTP/1.1", "GET /z?1 x.y", 12},
			{"GET /%41%2fb//c/./d/../e HTTP/1.1", "GET /A/b/c/e? h", 15},
		} {
			p.send(test.request + "\r\nHost: h\r\n\r\n")
			resp, body := p.response(strings.Fields(test.request)[0])
			if body != test.body || resp.ContentLength != test.length {
				t.Errorf("%s: length %d, body of %d bytes; want %d, %d", test.request, resp.ContentLength, len(body), test.length, len(test.body))
			}
			testenv.Equal(t, resp.Header.Get("Server"), "knot", "%s: Server", test.request)
		}
		all := sv.exchange("GET /stream HTTP/1.0\r\n\r\n")
		if !strings.HasSuffix(all, strings.Repeat("0123456789abcdef", 4000)) || strings.Contains(all, "chunked") {
			t.Errorf("stream for HTTP/1.0 is wrong")
		}
	})
}

func TestExpectContinue(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		const head = " HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
		p := sv.dial()
		p.send("PUT /echo" + head)
		line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
		if _, err := io.ReadFull(p.r, line); err != nil || string(line) != "HTTP/1.1 100 Continue\r\n\r\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		p.send("abc")
		if _, body := p.response("PUT"); body != "abc" {
			t.Errorf("body %q", body)
		}
		// Refused without reading: no 100, and the connection ends, as the
		// client may send the body or not.
		p.send("PUT /404" + head)
		resp, _ := p.response("PUT")
		if resp.StatusCode != 404 || !resp.Close {
			t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
		}
		p.wantClosed()
	})
}

// TestSplitReads has a row of requests come in two parts, cut at every byte, and in small pieces.
func TestSplitReads(t *testing.T) {
	row := "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" +
		"PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody" +
		"\r\n\r\nPUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n4;e\r\nchun\r\n2\r\nks\r\n0\r\nT: v\r\n\r\n" +
		"GET /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nGET" +
		"GET /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n0\r\n\r\n" +
		"GET /4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for cut := range len(row) {
		for _, step := range []int{1, 3, 1 << 20} {
			nc := newScriptConn([]byte(row[:cut]), []byte(row[cut:]), step)
			s := &Server{Handler: echoHandler}
			s.ServeConn(nc)
			var bodies []string
			for _, one := range strings.Split(string(nc.output), "HTTP/1.1 200 OK\r\n")[1:] {
				_, body, _ := strings.Cut(one, "\r\n\r\n")
				bodies = append(bodies, body)
			}
			got := strings.Join(bodies, "|")
			testenv.MustEqual(t, got, "GET /1? h|body|chunks|GET /2? h|GET /3? h|GET /4? h", "cut at %d, step %d", cut, step)
			s.Close()
		}
	}
}

func TestPipelinedRequestsShareOneWrite(t *testing.T) {
	s := &Server{Handler: echoHandler}
	defer s.Close()
	nc := newScriptConn(bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 16), nil, 1)
	s.ServeConn(nc)
	if nc.reads != 1 || nc.writes != 1 {
		t.Errorf("%d reads and %d writes for 16 pipelined requests, want 1 and 1", nc.reads, nc.writes)
	}
	testenv.Equal(t, bytes.Count(nc.output, []byte("200 OK")), 16, "responses")
}

// TestPipelinedRequestsOfNetHTTP: what was answered has been sent when the next handler begins, as it may wait long.
func TestPipelinedRequestsOfNetHTTP(t *testing.T) {
	nc, calls := newScriptConn(bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), 3), nil, 1), 0
	serveScript(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		testenv.Equal(t, bytes.Count(nc.output, []byte("200 OK")), calls, "responses sent before request %d", calls+1)
		calls++
		io.WriteString(w, "answer")
	}))}, nc)
	if calls != 3 || nc.writes != 3 {
		t.Errorf("%d calls, %d writes, want 3 and 3", calls, nc.writes)
	}
}
