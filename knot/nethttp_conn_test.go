package knot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestAdaptedProxyPassesAnUpgrade: a protocol of which nobody between knows anything.
func TestAdaptedProxyPassesAnUpgrade(t *testing.T) {
	upper := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "upper" {
			w.Header().Set("Upgrade", "upper")
			w.WriteHeader(426)
			return
		}
		nc, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer nc.Close()
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: upper\r\n\r\n")
		for {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			io.WriteString(nc, strings.ToUpper(line))
		}
	})
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		backend := start(&Server{Handler: AdaptHTTP(upper)})
		to, _ := url.Parse("http://" + backend.addr)
		proxy := httputil.NewSingleHostReverseProxy(to)
		transport := &http.Transport{}
		proxy.Transport = transport
		defer transport.CloseIdleConnections()
		front := start(&Server{Handler: adaptBlocking(proxy)})
		p := front.dial()
		p.send(req("GET /", "Connection: Upgrade", "Upgrade: upper"))
		testenv.MustEqual(t, p.head().StatusCode, 101)
		for _, line := range []string{"first\n", "second\n", "third\n"} {
			p.send(line)
			testenv.Got(p.r.ReadString('\n'))(t, strings.ToUpper(line))
		}
		// A server does not wait for connections that it has given away.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testenv.Check(t, front.Shutdown(ctx), "Shutdown")
		stats := front.Stats()
		testenv.Equal(t, stats.Conns, stats.Hijacked, "connections")
		p.send("last\n")
		testenv.Got(p.r.ReadString('\n'))(t, "LAST\n", "after Shutdown")
		p.nc.Close()
	})
}

// TestAdaptedHijackKeepsTheOrder: what was answered before is sent before.
func TestAdaptedHijackKeepsTheOrder(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		taken := make(chan context.Context, 1)
		sv := start(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/take" {
				io.WriteString(w, r.URL.Path)
				return
			}
			nc, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer nc.Close()
			taken <- r.Context()
			rest, _ := rw.ReadString('!')
			fmt.Fprintf(rw, "taken: %s", rest)
			rw.Flush()
			panic(http.ErrAbortHandler)
		}))})
		p := sv.dial()
		p.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\nGET /take HTTP/1.1\r\nHost: h\r\n\r\nall")
		p.want("200", "/a")
		p.want("200", "/b")
		ctx := <-taken
		sv.Close()
		testenv.Check(t, ctx.Err(), "the context of a hijacked request")
		p.send("!")
		testenv.Got(p.r.ReadString('!'))(t, "taken: all!")
		testenv.Until(t, "the context ends, as the handler has returned", func() bool { return ctx.Err() != nil })
	})
}

// TestAdaptedFullDuplex: one goroutine waits for the body while another answers, and the
// client sends nothing before it has seen the answer.
func TestAdaptedFullDuplex(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for _, framing := range []string{"Content-Length: 6000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5b8d80\r\n"} {
			got := make(chan int64, 1)
			sv := start(&Server{Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				if err := control.EnableFullDuplex(); err != nil {
					panic(err)
				}
				one := make([]byte, 1)
				if _, err := io.ReadFull(r.Body, one); err != nil {
					panic(err)
				}
				go func() {
					n, _ := io.Copy(io.Discard, r.Body)
					got <- n
				}()
				for i := range 100 {
					fmt.Fprintf(w, "line %d\n", i)
					if err := control.Flush(); err != nil {
						panic(err)
					}
				}
				fmt.Fprintln(w, <-got)
			}))})
			p := sv.dial()
			p.send("POST / HTTP/1.1\r\nHost: h\r\n" + framing + "x")
			resp := p.head()
			testenv.Equal(t, statusAndClose(resp), "200")
			body := bufio.NewReader(resp.Body)
			for i := range 100 {
				testenv.Got(body.ReadString('\n'))(t, fmt.Sprintf("line %d\n", i))
			}
			p.send(strings.Repeat("y", 5_999_999))
			if strings.Contains(framing, "chunked") {
				p.send("\r\n0\r\n\r\n")
			}
			testenv.Got(body.ReadString('\n'))(t, "5999999\n", "the reader got")
			io.Copy(io.Discard, body)
			p.send(req("GET /", "Connection: close", "Content-Length: 1") + "x")
			if _, body := p.response("GET"); !strings.HasSuffix(body, "line 99\n0\n") {
				t.Errorf("the next response is %q", body)
			}
		}
	})
}

// TestAdaptedReaderIsLeftBehind: a goroutine of the handler waits for a body that does
// not come. The response does not wait for it.
func TestAdaptedReaderIsLeftBehind(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for _, expects := range []string{"", "Expect: 100-continue"} {
			read := make(chan error, 1)
			sv := start(&Server{BodyTimeout: time.Hour, Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begun := make(chan bool)
				go func() {
					close(begun)
					_, err := r.Body.Read(make([]byte, 10))
					read <- err
				}()
				<-begun
				io.WriteString(w, "done")
			}))})
			p := sv.dial()
			resp, body := p.ask(req("POST /", expects, "Content-Length: 10"))
			if resp.StatusCode == 100 {
				resp, body = p.response("POST")
			}
			testenv.Equal(t, fmt.Sprint(resp.StatusCode, body), "200done")
			testenv.Equal(t, <-read, http.ErrBodyReadAfterClose, "Read")
			p.nc.Close()
		}
	})
}

// TestAdaptedDeadlines: what the handler sets holds for its request, in place of the
// server's limits, and interrupts a task that waits already.
func TestAdaptedDeadlines(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		failed := make(chan error, 1)
		sv := start(&Server{
			BodyTimeout: time.Hour, WriteTimeout: time.Hour,
			Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				soon := func(set func(time.Time) error) { time.AfterFunc(10*time.Millisecond, func() { set(time.Now()) }) }
				switch r.URL.Path {
				case "/read":
					soon(control.SetReadDeadline)
					failed <- testenv.Err(r.Body.Read(make([]byte, 1)))
				case "/write":
					soon(control.SetWriteDeadline)
					failed <- testenv.Err(w.Write(make([]byte, 16<<20)))
				case "/write-after":
					control.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
					failed <- testenv.Err(w.Write(make([]byte, 16<<20)))
				case "/far":
					control.SetReadDeadline(time.Now().Add(time.Hour))
					control.SetWriteDeadline(time.Now().Add(time.Hour))
					fmt.Fprint(w, "far")
				}
			})),
		})
		for _, target := range []string{"/read", "/write", "/write-after"} {
			p := sv.dial()
			p.send(req("POST "+target, "Content-Length: 1"))
			err := <-failed
			if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
				t.Errorf("%s: %v", target, err)
			}
			p.nc.Close()
		}
		// The next request of the connection is not under them.
		p := sv.dial()
		for range 3 {
			p.send(put("/far", "x"))
			p.want("200", "far")
		}
	})
}

// A timelyConn is a scriptConn that looks at its read deadline before all else, as sockets do.
type timelyConn struct {
	*scriptConn
	by time.Time
}

func (c *timelyConn) SetReadDeadline(t time.Time) error {
	c.by = t
	return nil
}

func (c *timelyConn) Read(p []byte) (int, error) {
	if !c.by.IsZero() && time.Until(c.by) <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return c.scriptConn.Read(p)
}

// ReadNow is that of netpoll.Conn.
func (c *timelyConn) ReadNow(p []byte) (int, error) { return c.scriptConn.Read(p) }

// TestAdaptedDeadlineBeforeMoreBody: however fast a body comes, it ends at the deadline that the handler has set, and stays
// ended.
func TestAdaptedDeadlineBeforeMoreBody(t *testing.T) {
	for name, wrap := range map[string]func(*scriptConn) net.Conn{
		"a socket":              func(c *scriptConn) net.Conn { return &timelyConn{scriptConn: c} },
		"a stream, or the like": func(c *scriptConn) net.Conn { return c }, // what has come goes before the deadline
	} {
		var got []byte
		var errs []error
		serveScript(&Server{Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			errs = append(errs, control.SetReadDeadline(time.Now().Add(time.Hour)))
			one := make([]byte, 1)
			n, err := r.Body.Read(one)
			got, errs = append(got, one[:n]...), append(errs, err)
			errs = append(errs, control.SetReadDeadline(time.Now().Add(-time.Second)))
			for range 2 {
				n, err := r.Body.Read(one)
				got = append(got, one[:n]...)
				testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "%s: Read: %d bytes", name, n)
			}
		}))}, wrap(newScriptConn(req("POST /", "Content-Length: 10"), "0123456789", 1)))
		if string(got) != "0" || errors.Join(errs...) != nil {
			t.Errorf("%s: read %q, %v", name, got, errs)
		}
	}
}

// TestAdaptedFormsAreRemoved: what a form has put into temporary files goes with the
// request.
func TestAdaptedFormsAreRemoved(t *testing.T) {
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	file, _ := parts.CreateFormFile("f", "name")
	file.Write(bytes.Repeat([]byte("x"), 11<<20))
	parts.Close()
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{MaxBody: 64 << 20, Handler: AdaptHTTP(promiseMux())})
		resp := testenv.Need(http.Post(sv.url()+"/form", parts.FormDataContentType(), bytes.NewReader(form.Bytes())))(t)
		name, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
		if len(name) == 0 {
			t.Fatal("there was no file")
		}
		testenv.Until(t, string(name)+" goes", func() bool {
			_, err := os.Stat(string(name))
			return os.IsNotExist(err)
		})
	})
}

// TestAdaptedHijackAfter101: some libraries send the response by WriteHeader and then take the
// connection over.
func TestAdaptedHijackAfter101(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		for way, adapt := range adapters {
			sv := start(&Server{Handler: adapt(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "echo")
				w.WriteHeader(http.StatusSwitchingProtocols)
				w.Header().Set("Late", "x")
				_, err := w.Write([]byte("x"))
				nc, rw, hijackErr := http.NewResponseController(w).Hijack()
				if hijackErr != nil {
					panic(hijackErr)
				}
				defer nc.Close()
				line, _ := rw.ReadString('\n')
				fmt.Fprint(rw, err == http.ErrBodyNotAllowed, " ", line)
				rw.Flush()
			}))})
			p := sv.dial()
			p.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello\n")
			resp := p.head()
			if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("Late") != "" {
				t.Fatalf("%s: %v", way, resp)
			}
			testenv.Got(p.r.ReadString('\n'))(t, "true hello\n", way)
			testenv.Equal(t, sv.log.String(), "", way)
		}
	})
}
