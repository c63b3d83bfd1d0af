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
		p.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: upper\r\n\r\n")
		resp, err := http.ReadResponse(p.r, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("response %v, %v", resp, err)
		}
		p.send("first\n")
		for _, want := range []string{"FIRST\n", "SECOND\n", "THIRD\n"} {
			if line, err := p.r.ReadString('\n'); line != want {
				t.Fatalf("got %q, %v, want %q", line, err, want)
			}
			p.send(map[string]string{"FIRST\n": "second\n", "SECOND\n": "third\n", "THIRD\n": "\n"}[want])
		}
		// A server does not wait for connections that it has given away.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		testenv.Check(t, front.Shutdown(ctx), "Shutdown")
		testenv.Equal(t, front.Conns(), 0, "connections")
		if line, err := p.r.ReadString('\n'); line != "\n" {
			t.Errorf("after Shutdown: %q, %v", line, err)
		}
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
		for _, want := range []string{"/a", "/b"} {
			if _, body := p.response("GET"); body != want {
				t.Errorf("got %q, want %q", body, want)
			}
		}
		ctx := <-taken
		sv.Close()
		testenv.Check(t, ctx.Err(), "the context of a hijacked request")
		p.send("!")
		got := make([]byte, len("taken: all!"))
		if _, err := io.ReadFull(p.r, got); err != nil || string(got) != "taken: all!" {
			t.Errorf("got %q, %v", got, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Error("the context goes on though the handler has returned")
		}
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
			resp := testenv.Need(http.ReadResponse(p.r, nil))(t)
			if resp.Close {
				t.Error("the response says Connection: close")
			}
			body := bufio.NewReader(resp.Body)
			for i := range 100 {
				if line, err := body.ReadString('\n'); line != fmt.Sprintf("line %d\n", i) {
					t.Fatalf("line %d: %q, %v", i, line, err)
				}
			}
			p.send(strings.Repeat("y", 5_999_999))
			if strings.Contains(framing, "chunked") {
				p.send("\r\n0\r\n\r\n")
			}
			if line, err := body.ReadString('\n'); line != "5999999\n" {
				t.Fatalf("the reader got %q, %v", line, err)
			}
			io.Copy(io.Discard, body)
			p.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx")
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
		for _, expects := range []string{"", "Expect: 100-continue\r\n"} {
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
			p.send("POST / HTTP/1.1\r\nHost: h\r\n" + expects + "Content-Length: 10\r\n\r\n")
			resp, body := p.response("POST")
			if resp.StatusCode == 100 {
				resp, body = p.response("POST")
			}
			if resp.StatusCode != 200 || body != "done" {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
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
				switch r.URL.Path {
				case "/read":
					timer := time.AfterFunc(10*time.Millisecond, func() { control.SetReadDeadline(time.Now()) })
					defer timer.Stop()
					_, err := r.Body.Read(make([]byte, 1))
					failed <- err
				case "/write":
					timer := time.AfterFunc(10*time.Millisecond, func() { control.SetWriteDeadline(time.Now()) })
					defer timer.Stop()
					_, err := w.Write(make([]byte, 64<<20))
					failed <- err
				case "/write-after":
					control.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
					_, err := w.Write(make([]byte, 64<<20))
					failed <- err
				case "/far":
					control.SetReadDeadline(time.Now().Add(time.Hour))
					control.SetWriteDeadline(time.Now().Add(time.Hour))
					fmt.Fprint(w, "far")
				}
			})),
		})
		for _, target := range []string{"/read", "/write", "/write-after"} {
			p := sv.dial()
			p.send("POST " + target + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
			err := <-failed
			if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
				t.Errorf("%s: %v", target, err)
			}
			p.nc.Close()
		}
		// The next request of the connection is not under them.
		p := sv.dial()
		for range 3 {
			p.send("POST /far HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
			if _, body := p.response("POST"); body != "far" {
				t.Errorf("body %q", body)
			}
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
	const head, body = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n", "0123456789"
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
		}))}, wrap(newScriptConn([]byte(head), []byte(body), 1)))
		if string(got) != "0" || errors.Join(errs...) != nil {
			t.Errorf("%s: read %q, %v", name, got, errs)
		}
	}
}

// TestAdaptedCloseNotify: deprecated, and used all the same.
func TestAdaptedCloseNotify(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		began, gone := make(chan bool), make(chan bool)
		sv := start(&Server{Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			//lint:ignore SA1019 programs use it
			closed := w.(http.CloseNotifier).CloseNotify()
			began <- true
			gone <- <-closed
		}))})
		p := sv.dial()
		p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		<-began
		p.nc.Close()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Fatal("nothing was said")
		}
	})
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
		resp := testenv.Need(http.Post("http://"+sv.addr+"/form", parts.FormDataContentType(), bytes.NewReader(form.Bytes())))(t)
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
			resp, err := http.ReadResponse(p.r, nil)
			if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("Connection") != "Upgrade" || resp.Header.Get("Late") != "" {
				t.Fatalf("%s: %v, %v", way, resp, err)
			}
			if line, err := p.r.ReadString('\n'); line != "true hello\n" {
				t.Errorf("%s: %q, %v", way, line, err)
			}
			testenv.Equal(t, sv.log.String(), "", way)
		}
	})
}
