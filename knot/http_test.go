package knot

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestStatusCodes has what depends on the server's settings and its handlers; TestConformance has the rest.
func TestStatusCodes(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler, MaxBody: 1000})
		for _, test := range []struct{ name, request, status string }{
			{"200 for 1.0 with keep-alive", "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200"},
			{"400 for a path above the root", req("GET /../a"), "400"},
			{"404", req("GET /404"), "404"},
			{"413 by length", req("PUT /echo", "Content-Length: 1001"), "413 close"},
			{"413 by chunks", req("PUT /echo", "Transfer-Encoding: chunked") + "3e9\r\n", "413 close"},
			{"431 by number", req("GET /", strings.Repeat("A: b\r\n", 99)+"A: b"), "431 close"},
			{"500 after a panic", req("GET /panic"), "500 close"},
			{"500 after Goexit", req("GET /goexit"), "500 close"},
			{"200 for a method that only the handler knows", req("BREW /"), "200"},
			{"400 for HEAD", "HEAD / HTTP/1.1\r\n\r\n", "400 close"},
		} {
			t.Run(test.name, func(t *testing.T) {
				p := dialPeer(t, sv.addr)
				resp, _ := p.ask(test.request)
				testenv.MustEqual(t, statusAndClose(resp), test.status, "status")
				testenv.Equal(t, resp.Header.Get("Date") != "", true, "it has a Date")
				if resp.Close {
					p.wantClosed()
					return
				}
				p.send(req("GET /next?q"))
				p.want("200", "GET /next?q h", "next response")
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
			{"GET /parts", "ab", 2},
			{"HEAD /parts", "", 2},
			{"GET /nothing", "", 0},
			{"HEAD /a", "", 10},
			{"GET /stream", strings.Repeat("0123456789abcdef", 4000), -1},
			{"HEAD /stream", "", 64000},
			{"GET /large", strings.Repeat("L", 1<<20), 1 << 20},
			{"HEAD /404", "", int64(len(appendErrorPage(nil, 404)))},
			{"OPTIONS *", "OPTIONS *? h", 12},
			{"GET http://x.y/z?1", "GET /z?1 x.y", 12},
			{"GET /%41%2fb//c/./d/../e", "GET /A/b/c/e? h", 15},
		} {
			resp, body := p.ask(req(test.request))
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
		p := start(&Server{Handler: echoHandler}).dial()
		p.send(req("PUT /echo", "Content-Length: 3", "Expect: 100-continue"))
		p.want("100", "")
		p.send("abc")
		p.want("200", "abc")
		// Refused without reading: no 100, and the connection ends, as the
		// client may send the body or not.
		p.send(req("PUT /404", "Content-Length: 3", "Expect: 100-continue"))
		p.wantStatus("404 close")
		p.wantClosed()
	})
}

// TestSplitReads has a row of requests come in two parts, cut at every byte, and in small pieces.
func TestSplitReads(t *testing.T) {
	row := req("GET /1") +
		req("PUT /echo", "Content-Length: 4") + "body" +
		"\r\n\r\n" + req("PUT /echo", "Transfer-Encoding: chunked") + "4;e\r\nchun\r\n2\r\nks\r\n0\r\nT: v\r\n\r\n" +
		req("GET /2", "Content-Length: 3") + "GET" +
		req("GET /3", "Transfer-Encoding: chunked") + "3\r\nGET\r\n0\r\n\r\n" +
		req("GET /4", "Connection: close")
	for cut := range len(row) {
		for _, step := range []int{1, 3, 1 << 20} {
			nc := newScriptConn(row[:cut], row[cut:], step)
			s := &Server{Handler: echoHandler}
			s.ServeConn(nc)
			var bodies []string
			for _, one := range strings.Split(string(nc.output), "HTTP/1.1 200 OK\r\n")[1:] {
				bodies = append(bodies, bodyOf(one))
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
	nc := script(strings.Repeat(req("GET /"), 16))
	s.ServeConn(nc)
	testenv.Equal(t, nc.reads, 1, "reads for 16 pipelined requests")
	testenv.Equal(t, nc.writes, 1, "writes for 16 pipelined requests")
	testenv.Equal(t, bytes.Count(nc.output, []byte("200 OK")), 16, "responses")
}

// TestPipelinedRequestsOfNetHTTP: what was answered has been sent when the next handler begins, as it may wait long.
func TestPipelinedRequestsOfNetHTTP(t *testing.T) {
	nc, calls := script(strings.Repeat(req("GET /"), 3)), 0
	serveScript(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		testenv.Equal(t, bytes.Count(nc.output, []byte("200 OK")), calls, "responses sent before request %d", calls+1)
		calls++
		io.WriteString(w, "answer")
	}))}, nc)
	testenv.Equal(t, calls, 3, "calls")
	testenv.Equal(t, nc.writes, 3, "writes")
}
