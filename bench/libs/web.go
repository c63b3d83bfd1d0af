package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/http2"
)

var webLibraries = []library{
	{name: "net/http client", about: "64 connections, the answer is 1 KB", server: "peers", tasks: 5000, ops: 4, open: openHTTP},
	{name: "net/http server", about: "server and clients in the same process", tasks: 5000, ops: 2, open: openHTTPServer},
	{name: "net/http TLS", about: "HTTP/2 as net/http does it", server: "peers", tasks: 5000, ops: 2, open: openHTTPS},
	{name: "x/net/http2", about: "one connection without TLS", server: "peers", tasks: 5000, ops: 4, open: openHTTP2},
	{name: "fasthttp client", about: "64 connections", server: "peers", tasks: 5000, ops: 4, open: openFastHTTP},
	{name: "fasthttp server", about: "server and clients in the same process", tasks: 5000, ops: 2, open: openFastHTTPServer},
	{name: "crypto/tls", about: "a connection for each task, one reads while one writes 64 KB", server: "peers", tasks: 2000, ops: 2, open: openTLS},
	{name: "gorilla/websocket", about: "a connection for each task", server: "peers", tasks: 5000, ops: 2, open: openGorilla},
	{name: "coder/websocket", about: "a connection for each task", server: "peers", tasks: 5000, ops: 2, open: openCoder},
}

// get asks for a page of 1 KB.
func get(c *http.Client, url string) error {
	r, err := c.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return err
	}
	return errors.Join(want(r.StatusCode, http.StatusOK), want(n, pageSize))
}

const pageSize = int64(1024)

// page is the handler of all servers of HTTP.
func page(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, pageSize)) }

// httpClient is a client of net/http; for HTTPS it speaks HTTP/2 and looks at no certificate.
func (e *env) httpClient(connections int) *http.Client {
	t := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	if e.Dial == "ours" {
		t.DialContext = e.dialer
	}
	return &http.Client{Transport: t}
}

// asking asks for the page at a URL.
func asking(client *http.Client, url string) *opened {
	return shared(func(int) error { return get(client, url) }, client.CloseIdleConnections)
}

func openHTTP(e *env) *opened { return asking(e.httpClient(64), "http://"+e.Addr["http"]) }

func openHTTPServer(e *env) *opened {
	server := &http.Server{Handler: http.HandlerFunc(page)}
	o := asking(e.httpClient(64), "http://"+e.serve(server.Serve))
	return o.and(func() { server.Close() })
}

func openHTTPS(e *env) *opened { return asking(e.httpClient(0), "https://"+e.Addr["https"]) }

func openHTTP2(e *env) *opened {
	t := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return e.dialer(ctx, network, addr)
	}}
	return asking(&http.Client{Transport: t}, "http://"+e.Addr["h2c"])
}

func fastGet(c *fasthttp.Client, url string) error {
	status, body, err := c.GetTimeout(nil, url, time.Minute)
	if err != nil {
		return err
	}
	return errors.Join(want(status, http.StatusOK), want(int64(len(body)), pageSize))
}

func (e *env) fastAsking(addr string) *opened {
	client := &fasthttp.Client{MaxConnsPerHost: 64, MaxConnWaitTimeout: time.Minute, Dial: func(addr string) (net.Conn, error) { return e.dial("tcp", addr) }}
	return shared(func(int) error { return fastGet(client, "http://"+addr) }, client.CloseIdleConnections)
}

func openFastHTTP(e *env) *opened { return e.fastAsking(e.Addr["http"]) }

func openFastHTTPServer(e *env) *opened {
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.Write(make([]byte, pageSize)) }}
	return e.fastAsking(e.serve(server.Serve)).and(func() { server.Shutdown() })
}

func openTLS(e *env) *opened {
	data := make([]byte, 64<<10)
	return ownConn(func() (*tls.Conn, error) {
		raw, err := e.dial("tcp", e.Addr["tls"])
		if err != nil {
			return nil, err
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		return c, c.Handshake()
	}, func(c *tls.Conn, _ int) error {
		wrote := make(chan error, 1)
		writer := e.waits()
		writer.Go(func() {
			_, err := c.Write(data)
			wrote <- err
		})
		got, err := io.CopyN(io.Discard, c, int64(len(data)))
		writer.Wait()
		return errors.Join(err, <-wrote, want(got, int64(len(data))))
	}, func(c *tls.Conn) { c.Close() })
}

func openGorilla(e *env) *opened {
	dialer := &gorilla.Dialer{NetDialContext: e.dialer}
	return ownConn(func() (*gorilla.Conn, error) {
		c, _, err := dialer.Dial("ws://"+e.Addr["http"]+"/ws", nil)
		return c, err
	}, func(c *gorilla.Conn, n int) error {
		if err := c.WriteMessage(gorilla.TextMessage, fmt.Append(nil, n)); err != nil {
			return err
		}
		_, got, err := c.ReadMessage()
		return answers(fmt.Sprint(n))(string(got), err)
	}, func(c *gorilla.Conn) { c.Close() })
}

func openCoder(e *env) *opened {
	client, ctx := e.httpClient(0), context.Background()
	return ownConn(func() (*coder.Conn, error) {
		c, _, err := coder.Dial(ctx, "ws://"+e.Addr["http"]+"/ws", &coder.DialOptions{HTTPClient: client})
		return c, err
	}, func(c *coder.Conn, n int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := c.Write(ctx, coder.MessageText, fmt.Append(nil, n)); err != nil {
			return err
		}
		_, got, err := c.Read(ctx)
		return answers(fmt.Sprint(n))(string(got), err)
	}, func(c *coder.Conn) { c.CloseNow() })
}
