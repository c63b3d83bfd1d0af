package knot

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
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

// TestStatusWithoutBody: a length that the handler has declared does no harm.
func TestStatusWithoutBody(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(x *Ctx) error {
			status := 204
			if x.Query() == "304" {
				status = 304
			}
			x.SetStatus(status)
			x.SetContentLength(1000)
			x.AddHeader("ETag", `"a"`)
			if x.Path() == "/flush" {
				return x.Flush()
			}
			return nil
		}})
		p := sv.dial()
		for _, target := range []string{"/?204", "/?304", "/flush?204", "/flush?304"} {
			for _, method := range []string{"GET", "HEAD"} {
				p.send(req(method + " " + target))
				resp, _ := p.response(method)
				if got, want := fmt.Sprint(resp.StatusCode), target[len(target)-3:]; got != want || resp.Close {
					t.Errorf("%s %s: status %s, close %v", method, target, got, resp.Close)
				}
				if resp.Header.Get("Content-Length") != "" || resp.Header.Get("ETag") != `"a"` {
					t.Errorf("%s %s: header %v", method, target, resp.Header)
				}
			}
		}
	})
}

// TestNoSetterSplitsTheResponse: whatever of the client's a handler passes on.
func TestNoSetterSplitsTheResponse(t *testing.T) {
	const evil = "text/html\r\nSet-Cookie: a=b\r\n\r\n<b>\x00\x7f\n"
	for name, handler := range map[string]Handler{
		"SetContentType": func(x *Ctx) error {
			x.SetContentType(evil)
			_, err := x.WriteString("body")
			return err
		},
		"SetContentType, streamed": func(x *Ctx) error {
			x.SetContentType(evil)
			x.WriteString("bo")
			x.Flush()
			_, err := x.WriteString("dy")
			return err
		},
		"Send":       func(x *Ctx) error { return x.Send(200, evil, []byte("body")) },
		"SendString": func(x *Ctx) error { return x.SendString(200, evil, "body") },
		"AddHeader": func(x *Ctx) error {
			x.AddHeader("A", evil)
			return x.SendString(200, "", "body")
		},
		"Redirect": func(x *Ctx) error { return x.Redirect(302, evil) },
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"Content-Type", "A", "Trailer", "Connection", "Date", "Server", "Upgrade", evil} {
				w.Header().Set(name, evil)
			}
			w.Header().Set(http.TrailerPrefix+"B", evil)
			w.WriteHeader(103)
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header().Set("A", evil)
		})),
	} {
		t.Run(name, func(t *testing.T) {
			output := answerTo(&Server{Handler: handler, Name: evil}, req("GET /"))
			for _, line := range strings.Split(output, "\r\n") {
				if strings.HasPrefix(line, "Set-Cookie") || strings.HasPrefix(line, "<b>") || strings.ContainsAny(line, "\r\x00\x7f") {
					t.Errorf("line %q", line)
				}
			}
			if head, _, _ := strings.Cut(output, "\r\n\r\n"); strings.Count(head, "\n") != strings.Count(head, "\r\n") {
				t.Errorf("a bare LF in %q", head)
			}
		})
	}
}

func TestUpgradeBringsConnection(t *testing.T) {
	for name, handler := range map[string]Handler{
		"AddHeader": func(x *Ctx) error {
			x.AddHeader("Upgrade", "h2c")
			return x.SendError(426)
		},
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Upgrade", "h2c")
			w.Header().Set("Connection", "x-hop, Upgrade")
			w.Header().Set("X-Hop", "1")
			w.WriteHeader(426)
		})),
	} {
		everyMode(t, func(t *testing.T, start func(*Server) *served) {
			resp, _ := start(&Server{Handler: handler}).dial().ask(req("GET /"))
			got := strings.ToLower(strings.Join(resp.Header["Connection"], ", "))
			want := "upgrade"
			if name == "net/http" {
				want = "x-hop, upgrade"
			}
			if resp.StatusCode != 426 || resp.Header.Get("Upgrade") != "h2c" || got != want || resp.Close {
				t.Errorf("%s: %d %v, want Connection %q", name, resp.StatusCode, resp.Header, want)
			}
		})
	}
}

// TestCtxTellsTheRequest by its methods.
func TestCtxTellsTheRequest(t *testing.T) {
	const request = "PUT /a/../b%20c?d=e HTTP/1.1\r\nHost: h:1\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 3\r\n\r\nabc"
	answerTo(&Server{Handler: func(x *Ctx) error {
		x.SetUser("u")
		var lines []string
		x.EachHeader(func(name, value []byte) bool {
			lines = append(lines, string(name)+"="+string(value))
			return len(lines) < 3
		})
		for got, want := range map[any]any{
			fmt.Sprint(x.Method(), x.Path(), string(x.PathBytes()), x.Query(), x.Target()):   "PUT/b c/b cd=e/a/../b%20c?d=e",
			fmt.Sprint(x.Host(), string(x.HostBytes()), x.Header("X-ONE"), x.Header("none")): "h:1h:11",
			fmt.Sprint(x.Proto(), " ", x.ContentLength(), x.TLS() == nil):                    "HTTP/1.1 3 true",
			fmt.Sprint(x.RemoteAddr(), x.LocalAddr(), (*inner)(x).c.remoteHost(), x.User()):  "192.0.2.1:4711 192.0.2.1:4711192.0.2.1u",
			strings.Join(lines, " "): "Host=h:1 X-One=1 x-one=2",
		} {
			testenv.Equal(t, got, want)
		}
		return nil
	}}, request)
}

// TestErrorPages of the program's own, for what a handler returns and for what never gets to one.
func TestErrorPages(t *testing.T) {
	s := &Server{
		Handler: func(x *Ctx) error {
			if x.Path() == "/kept" {
				x.AddHeader("X-Kept", "yes")
				return x.SendError(403)
			}
			x.AddHeader("X-Dropped", "yes")
			return Status(404)
		},
		ErrorPage: func(x *Ctx, status int) (string, []byte) {
			if status == 403 {
				return "", nil
			}
			return "text/plain", []byte(fmt.Sprint("own ", status, " of ", x.Host()))
		},
	}
	for request, want := range map[string]string{
		req("GET /a"):                          "404 own 404 of h",
		req("GET /kept"):                       "403 <!doctype",
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n": "400 own 400 of ",
		req("HEAD /a"):                         "404 ",
	} {
		answer := answerTo(s, request)
		if got := statusAndBody(answer); !strings.HasPrefix(got, want) || strings.Contains(answer, "X-Dropped") || strings.HasPrefix(want, "403") && headerOf(answer, "X-Kept") != "yes" {
			t.Errorf("%q: %q, want %q", request, answer, want)
		}
	}
}

// TestPanicsForLastAnswers: for requests that no handler sees, and for the answer after another panic.
func TestPanicsForLastAnswers(t *testing.T) {
	log := new(testenv.Buffer)
	page := func(x *Ctx, _ int) (string, []byte) { panic("a page's panic on " + x.Path()[:1]) }
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler, ErrorLog: textLog(log), ErrorPage: page})
		for _, request := range []string{"GET /a b HTTP/1.1\r\n\r\n", req("GET /404"), req("GET /panic")} {
			testenv.Contains(t, sv.exchange(request), "<!doctype", "the answer to %q", request)
		}
		full := start(limited(&Server{Handler: echoHandler, ErrorLog: textLog(log), ErrorPage: page, MaxConns: 1}, func(l *settings) { l.rest = time.Hour }))
		first := full.dial()
		first.ask(req("GET /"))
		full.dial().wantStatus("503 close")
		first.ask(req("GET /"))
	})
	sv := startServer(t, &Server{H2C: true, ErrorLog: textLog(log), ErrorPage: page, Handler: echoHandler, MaxHead: 1000}, 1)
	p := sv.framed()
	p.headers(1, p.get("cookie", strings.Repeat("\xfe", 1000)), wholeHead)
	testenv.Equal(t, p.verdictButData(), "431")
	testenv.Contains(t, log.String(), "a page's panic", "the log")
}

type panickingFilter struct{}

func (panickingFilter) FilterHead(*Ctx, ResponseHead) { panic("a filter's panic") }

// TestFilterThatPanics ends its connection and not the process.
func TestFilterThatPanics(t *testing.T) {
	log := new(testenv.Buffer)
	s := &Server{ErrorLog: textLog(log), Handler: func(x *Ctx) error {
		x.Filter(panickingFilter{})
		return doneHandler(x)
	}}
	testenv.Equal(t, answerTo(s, req("GET /")), "")
	for _, said := range []string{"handler panicked", "Filter panicked", "a filter's panic"} {
		testenv.Contains(t, log.String(), said, "the log")
	}
}

// TestNothingIsSentToAClientThatHasGone: what is in the access log as 499 is no response.
func TestNothingIsSentToAClientThatHasGone(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for name, handler := range map[string]Handler{
			"returned": func(x *Ctx) error { return Status(499) },
			"sent":     func(x *Ctx) error { return x.SendError(499) },
		} {
			testenv.Equal(t, start(&Server{Handler: handler}).exchange(req("GET /")), "", "%s: the client gets", name)
		}
	})
}

// TestAnswersToLargeUploadsSayClose: an answer that begins while more of the body is under way than is worth to be read.
func TestAnswersToLargeUploadsSayClose(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		reading := func(read func([]byte) (int, error), answer func()) {
			over, begun := make(chan bool), make(chan bool)
			go func() {
				defer close(over)
				b := make([]byte, 1000)
				read(b)
				close(begun)
				for {
					if _, err := read(b); err != nil {
						return
					}
				}
			}()
			task.Offload(func() { <-begun })
			answer()
		}
		for name, handler := range map[string]Handler{
			"nobody reads":  func(x *Ctx) error { return x.SendString(413, "", "") },
			"another reads": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reading(r.Body.Read, func() { w.WriteHeader(413) }) })),
			"keep-alive": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "keep-alive")
				w.WriteHeader(413)
			})),
			"apart": func(x *Ctx) error {
				apart, err := (*inner)(x).BodyApart()
				if err != nil {
					return err
				}
				reading(apart.Read, func() { err = x.SendString(413, "", "") })
				return err
			},
		} {
			for framing, sent := range map[string]string{
				"Content-Length: 7000000":    strings.Repeat("x", 100_000),
				"Transfer-Encoding: chunked": "7a1200\r\n" + strings.Repeat("x", 100_000),
			} {
				p := start(limited(&Server{Handler: handler}, func(l *settings) { l.await = time.Millisecond })).dial()
				p.send(req("POST /", framing) + sent)
				p.wantStatus("413 close", "%s, %s", name, framing)
				p.nc.Close()
			}
		}
	})
}

func TestServerClosedIsThatOfNetHTTP(t *testing.T) {
	testenv.Equal(t, errors.Is(ErrServerClosed, http.ErrServerClosed), true)
}

// TestOldProtocolIsNegotiated: a client of HTTP/1.0 that says so in its hello is served.
func TestOldProtocolIsNegotiated(t *testing.T) {
	cert, pool := testenv.SelfSigned()
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Handler: echoHandler})
		p := sv.dialTLS(&tls.Config{ServerName: "test", RootCAs: pool, NextProtos: []string{"http/1.0"}})
		p.send("GET / HTTP/1.0\r\n\r\n")
		p.want("200 close", "GET /? ")
	})
}
