package knot

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// TestNothingIsSentToAClientThatHasGone: what is in the access log as 499 is no response.
func TestNothingIsSentToAClientThatHasGone(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for name, handler := range map[string]Handler{
			"returned": func(x *Ctx) error { return Status(499) },
			"sent":     func(x *Ctx) error { return x.SendError(499) },
		} {
			testenv.Equal(t, start(&Server{Handler: handler}).exchange("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "", "%s: the client gets", name)
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
				p.send("POST / HTTP/1.1\r\nHost: h\r\n" + framing + "\r\n\r\n" + sent)
				resp, _ := p.response("POST")
				if resp.StatusCode != 413 || !resp.Close {
					t.Errorf("%s, %s: status %d, Connection: close %v", name, framing, resp.StatusCode, resp.Close)
				}
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
		nc := tls.Client(testenv.Dial(t, sv.addr), &tls.Config{ServerName: "test", RootCAs: pool, NextProtos: []string{"http/1.0"}})
		io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n")
		all, err := io.ReadAll(nc)
		testenv.Check(t, err)
		testenv.Equal(t, statusOf(string(all)), "200")
	})
}
