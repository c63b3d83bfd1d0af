package knot

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

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
			fmt.Sprint(x.ProtoMajor(), x.ProtoMinor(), x.ContentLength(), x.TLS() == nil):    "1 1 3 true",
			fmt.Sprint(x.RemoteAddr(), x.LocalAddr(), x.RemoteHost(), x.User()):              "192.0.2.1:4711 192.0.2.1:4711192.0.2.1u",
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
				apart, err := x.BodyApart()
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
				p := start(&Server{Handler: handler}).dial()
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
