package knot_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/compress"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/upstream"
	"github.com/capriccio-go/capriccio/task"
)

// A route whose handler waits natively runs on goroutines from then on, until it has been short
// for a while; other routes stay in tasks.
func TestRoutesThatWaitNatively(t *testing.T) {
	blocked := make(chan *engine.Runtime, 1)
	release := make(chan bool)
	mux := http.NewServeMux()
	where := func(w http.ResponseWriter) {
		if task.Current() == nil {
			io.WriteString(w, "goroutine")
		} else {
			io.WriteString(w, "task")
		}
	}
	mux.HandleFunc("/wait/", func(w http.ResponseWriter, r *http.Request) {
		where(w)
		if r.URL.RawQuery == "block" {
			blocked <- engine.CurrentLoop().Runtime()
			<-release
		}
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		rt := engine.CurrentLoop().Runtime()
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		blocked <- rt
		<-release
		io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhijacked")
	})
	mux.HandleFunc("/other", func(w http.ResponseWriter, r *http.Request) { where(w) })
	log := new(testenv.Buffer)
	addr := onOneLoop(t, &knot.Server{Handler: knot.AdaptHTTP(mux), ErrorLog: slog.New(slog.NewTextHandler(log, nil))})
	ask := func(path string) string { return textOf(t, http.DefaultClient, "http://"+addr+path) }
	testenv.Equal(t, ask("/wait/1"), "task", "at first: in a")
	first := make(chan string)
	go func() { first <- ask("/wait/2?block") }()
	rt := <-blocked
	awaitDetached(t, rt, 1)
	testenv.Equal(t, ask("/other"), "task", "another route, while one waits natively: in a")
	release <- true
	testenv.Equal(t, <-first, "task", "the one that waited: in a")
	testenv.Equal(t, ask("/wait/3"), "goroutine", "after that: in a")
	testenv.Equal(t, ask("/other"), "task", "another route: in a")
	go func() { first <- ask("/hijack") }()
	<-blocked
	awaitDetached(t, rt, 2)
	release <- true
	testenv.Equal(t, <-first, "hijacked", "from the connection that the handler took")
	testenv.Until(t, "short requests run in tasks again", func() bool { return ask("/wait/4") != "goroutine" })
	testenv.Equal(t, strings.Contains(log.String(), "panic"), false, "the log tells of a panic")
}

// awaitDetached waits until loops have been taken from tasks n times.
func awaitDetached(t *testing.T, rt *engine.Runtime, n uint64) {
	t.Helper()
	testenv.Until(t, "the loop is taken from a task that waits natively", func() bool { return rt.Detached() >= n })
}

// Handlers and clients that packages of this module wrap hold no loop while they wait natively.
func TestWrappersHoldNoLoop(t *testing.T) {
	begun, release := make(chan *engine.Runtime, 1), make(chan bool)
	wait := func() {
		begun <- engine.CurrentLoop().Runtime()
		<-release
	}
	backend := testenv.Listen(t)
	go http.Serve(backend, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	client := &http.Client{Transport: &upstream.Transport{}}
	for name, h := range map[string]knot.Handler{
		"compress.HTTP":    knot.AdaptHTTP(compress.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { wait() }), compress.Options{})),
		"compress.Handler": compress.Handler(func(*knot.Ctx) error { wait(); return nil }, compress.Options{}),
		"upstream.Transport": knot.AdaptHTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			begun <- engine.CurrentLoop().Runtime()
			resp, err := client.Get("http://" + backend.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
		})),
	} {
		t.Run(name, func(t *testing.T) {
			addr := onOneLoop(t, &knot.Server{Handler: func(x *knot.Ctx) error {
				if x.Path() == "/other" {
					return x.SendString(200, "text/plain", "other")
				}
				return h(x)
			}})
			ended := make(chan string)
			go func() { ended <- textOf(t, http.DefaultClient, "http://"+addr+"/wait") }()
			awaitDetached(t, <-begun, 1)
			testenv.Equal(t, textOf(t, http.DefaultClient, "http://"+addr+"/other"), "other", "meanwhile")
			release <- true
			<-ended
		})
	}
}

// What copies to a response or to a connection from something that waits natively holds no loop, as the
// handlers of proxies and tunnels do.
func TestCopiesHoldNoLoop(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	reader := func() io.Reader {
		from, to := io.Pipe() // which has no WriteTo
		go func() {
			to.Write(nil) // until it is read
			begun <- true
			<-release
			io.WriteString(to, "copied")
			to.Close()
		}()
		return from
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/copy", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, reader()) })
	mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(200)
		io.Copy(w, reader())
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		io.WriteString(nc, "HTTP/1.0 200 OK\r\n\r\n")
		io.Copy(nc, reader())
	})
	mux.HandleFunc("/release", func(w http.ResponseWriter, r *http.Request) { release <- true })
	for _, c := range []struct {
		version string
		client  *http.Client
		paths   []string
	}{
		{"HTTP/1.1", new(http.Client), []string{"/copy", "/late", "/hijack"}},
		{"HTTP/2", &http.Client{Transport: testenv.PlainHTTP2(t)}, []string{"/copy", "/late"}},
	} {
		t.Run(c.version, func(t *testing.T) { // with a server of its own, as a path on which a task has waited natively is served by goroutines from then on
			addr := onOneLoop(t, &knot.Server{Handler: knot.AdaptHTTP(mux), H2C: true})
			c.client.Timeout = time.Minute
			defer c.client.CloseIdleConnections()
			ask := func(path string) string { return textOf(t, c.client, "http://"+addr+path) }
			for _, path := range c.paths {
				text := make(chan string, 1)
				go func() { text <- ask(path) }()
				<-begun
				ask("/release") // which the one loop serves meanwhile
				testenv.Equal(t, <-text, "copied", "%s", path)
			}
		})
	}
}

// onOneLoop runs s with the defaults but for the number of loops, which is 1, and returns its address. It skips the test if
// that needs a loop that can be taken from a task.
func onOneLoop(t *testing.T, s *knot.Server) string {
	addr, detaches := onALoop(t, s)
	if !detaches {
		t.Skip("loops can't be taken from tasks here")
	}
	return addr
}

func onALoop(t *testing.T, s *knot.Server, opts ...capriccio.Option) (addr string, detachesTasks bool) {
	up, ended, detaches := make(chan string, 1), make(chan error, 1), make(chan bool, 1)
	ctx, cancel := context.WithCancel(context.Background())
	s.Addr, s.Listening = "127.0.0.1:0", func(a net.Addr) { up <- a.String() }
	opts = append([]capriccio.Option{capriccio.WithLoops(1), capriccio.WithoutSignals()}, opts...)
	go func() {
		ended <- capriccio.Run(ctx, func(ctx context.Context) error {
			detaches <- engine.CurrentLoop().Runtime().Detaches()
			return s.Run(ctx)
		}, opts...)
	}()
	t.Cleanup(func() {
		cancel()
		testenv.Check(t, <-ended)
	})
	return <-up, <-detaches
}

// textOf is what client gets from url; it may be called by any goroutine.
func textOf(t *testing.T, client *http.Client, url string) string {
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testenv.Check(t, err)
	return string(text)
}

// selfSigned is a configuration for servers with a certificate of their own.
func selfSigned() *tls.Config {
	cert, _ := testenv.SelfSigned()
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// trusting is a client that takes any certificate, over HTTP/2 if the server has it and wanted is true.
func trusting(t *testing.T, wanted bool) *http.Client {
	transport := &http.Transport{ForceAttemptHTTP2: wanted, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// A function of the program that waits natively for a certificate does not hold the loop, for other
// handshakes among the rest.
func TestHandshakesHoldNoLoop(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	release := make(chan bool)
	addr := onOneLoop(t, &knot.Server{
		Handler: func(x *knot.Ctx) error { return x.Send(200, "text/plain", []byte("secure")) },
		TLS: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if hello.ServerName == "example.com" {
				<-release
			} else {
				release <- true
			}
			return &cert, nil
		}},
	})
	shake := func(name string) error {
		nc, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err == nil {
			nc.Close()
		}
		return err
	}
	first := make(chan error, 1)
	go func() { first <- shake("example.com") }()
	testenv.Must(t, shake("example.org"))
	testenv.Must(t, <-first)
}

// A record that is no good, from a client that does not read its answer, holds no loop: the reader has an alert to send, and
// must not wait for the lock of a writer that waits for the client.
func TestABadRecordHoldsNoLoop(t *testing.T) {
	wrote := make(chan bool, 1<<20)
	addr, _ := onALoop(t, &knot.Server{
		Handler: func(x *knot.Ctx) error {
			if x.Path() != "/endless" {
				return x.Send(200, "text/plain", []byte("secure"))
			}
			piece := make([]byte, 32<<10)
			for {
				if _, err := x.Write(piece); err != nil {
					return err
				}
				wrote <- true
			}
		},
		TLS: selfSigned(),
	}, capriccio.WithDetaching(-1, 0))
	raw := testenv.Dial(t, addr)
	defer raw.Close()
	raw.(*net.TCPConn).SetReadBuffer(4096)
	client := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	testenv.Must(t, client.Handshake())
	io.WriteString(client, http2.ClientPreface)
	frames := http2.NewFramer(client, nil)
	frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	frames.WriteWindowUpdate(0, 1<<30)
	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/endless"}, {":authority", "h"}} {
		fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	testenv.Must(t, frames.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true}))
	for writes := true; writes; { // until the writer waits for the client
		select {
		case <-wrote:
		case <-time.After(100 * time.Millisecond):
			writes = false
		}
	}
	raw.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)))
	for range 10 { // the reader has it by then
		other := trusting(t, false)
		testenv.Equal(t, textOf(t, other, "https://"+addr), "secure")
		other.CloseIdleConnections()
	}
}

// TestHandlersWhereLoopsAreHeld: where no loop is taken from a task that waits natively, handlers of net/http that wait for
// each other are all served, however many, and the log says once why they run on goroutines.
func TestHandlersWhereLoopsAreHeld(t *testing.T) {
	for _, test := range []struct {
		why     string
		option  capriccio.Option
		clients int
	}{
		{"WithDetaching", capriccio.WithDetaching(-1, 0), testenv.Rounds(500, 2000)},
		{"WithHoldLimit", capriccio.WithHoldLimit(-1), 20},
	} {
		t.Run(test.why, func(t *testing.T) {
			nethttp.SaidWhyHeld.Store(false)
			var inside atomic.Int32
			release := make(chan bool)
			log := new(testenv.Buffer)
			server := testenv.Need(knot.FromHTTP(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				inside.Add(1)
				select {
				case <-release:
				case <-r.Context().Done():
				}
				io.WriteString(w, "ok")
			})}))(t)
			server.ErrorLog = slog.New(slog.NewTextHandler(log, nil))
			addr, _ := onALoop(t, server, capriccio.WithLoops(2), test.option)
			clients := make([]net.Conn, test.clients)
			for i := range clients {
				clients[i] = testenv.Dial(t, addr)
				fmt.Fprint(clients[i], "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			}
			testenv.Until(t, "all handlers run at once", func() bool { return inside.Load() == int32(test.clients) })
			close(release)
			for _, c := range clients {
				resp := testenv.Need(http.ReadResponse(bufio.NewReader(c), nil))(t)
				testenv.Equal(t, resp.StatusCode, 200, "status")
				c.Close()
			}
			why := test.why
			if testenv.Race {
				why = "the race detector"
			}
			if text := log.String(); strings.Count(text, "level=INFO") != 1 || !strings.Contains(text, why) {
				t.Errorf("the log says %s; want one line with %q", text, why)
			}
		})
	}
}
