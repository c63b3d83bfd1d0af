package knot

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
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
				p.send(method + " " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
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
			s := &Server{Handler: handler, Name: evil}
			defer s.Close()
			nc := newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
			s.ServeConn(nc)
			output := string(nc.output)
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
			p := start(&Server{Handler: handler}).dial()
			p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, _ := p.response("GET")
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
	request := "PUT /a/../b%20c?d=e HTTP/1.1\r\nHost: h:1\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 3\r\n\r\nabc"
	serveScript(&Server{Handler: func(x *Ctx) error {
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
	}}, newScriptConn([]byte(request), nil, 1))
}
