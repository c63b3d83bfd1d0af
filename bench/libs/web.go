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

func (e *env) httpClient(connections int) (*http.Client, *http.Transport) {
	t := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	if e.Dial == "ours" {
		t.DialContext = e.dialer
	}
	return &http.Client{Transport: t}, t
}

func openHTTP(e *env) *opened {
	client, t := e.httpClient(64)
	return shared(func(int) error { return get(client, "http://"+e.Addr["http"]) }, t.CloseIdleConnections)
}

func openHTTPServer(e *env) *opened {
	server := &http.Server{Handler: http.HandlerFunc(page)}
	addr := e.serve(server.Serve)
	client, t := e.httpClient(64)
	return shared(func(int) error { return get(client, "http://"+addr) }, func() {
		t.CloseIdleConnections()
		server.Close()
	})
}

func openHTTPS(e *env) *opened {
	client, t := e.httpClient(0)
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	t.ForceAttemptHTTP2 = true
	return shared(func(int) error { return get(client, "https://"+e.Addr["https"]) }, t.CloseIdleConnections)
}

func openHTTP2(e *env) *opened {
	t := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
		return e.dialer(ctx, network, addr)
	}}
	client := &http.Client{Transport: t}
	return shared(func(int) error { return get(client, "http://"+e.Addr["h2c"]) }, t.CloseIdleConnections)
}

func fastGet(c *fasthttp.Client, url string) error {
	status, body, err := c.GetTimeout(nil, url, time.Minute)
	if err != nil {
		return err
	}
	return errors.Join(want(status, http.StatusOK), want(int64(len(body)), pageSize))
}

func (e *env) fastClient() *fasthttp.Client {
	return &fasthttp.Client{MaxConnsPerHost: 64, MaxConnWaitTimeout: time.Minute, Dial: func(addr string) (net.Conn, error) { return e.dial("tcp", addr) }}
}

func openFastHTTP(e *env) *opened {
	client := e.fastClient()
	return shared(func(int) error { return fastGet(client, "http://"+e.Addr["http"]) }, client.CloseIdleConnections)
}

func openFastHTTPServer(e *env) *opened {
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) { c.Write(make([]byte, pageSize)) }}
	addr := e.serve(server.Serve)
	client := e.fastClient()
	return shared(func(int) error { return fastGet(client, "http://"+addr) }, func() {
		client.CloseIdleConnections()
		server.Shutdown()
	})
}

func openTLS(e *env) *opened {
	return &opened{session: func(int) (session, error) {
		raw, err := e.dial("tcp", e.Addr["tls"])
		if err != nil {
			return session{}, err
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			return session{}, err
		}
		data := make([]byte, 64<<10)
		return session{close: func() { c.Close() }, do: func(int) error {
			wrote := make(chan error, 1)
			writer := e.waits()
			writer.Go(func() {
				_, err := c.Write(data)
				wrote <- err
			})
			got, err := io.CopyN(io.Discard, c, int64(len(data)))
			writer.Wait()
			return errors.Join(err, <-wrote, want(got, int64(len(data))))
		}}, nil
	}}
}

func openGorilla(e *env) *opened {
	dialer := &gorilla.Dialer{NetDialContext: e.dialer}
	return &opened{session: func(int) (session, error) {
		c, _, err := dialer.Dial("ws://"+e.Addr["http"]+"/ws", nil)
		if err != nil {
			return session{}, err
		}
		return session{close: func() { c.Close() }, do: func(n int) error {
			if err := c.WriteMessage(gorilla.TextMessage, fmt.Append(nil, n)); err != nil {
				return err
			}
			_, got, err := c.ReadMessage()
			if err != nil {
				return err
			}
			return want(string(got), fmt.Sprint(n))
		}}, nil
	}}
}

func openCoder(e *env) *opened {
	client, _ := e.httpClient(0)
	ctx := context.Background()
	return &opened{session: func(int) (session, error) {
		c, _, err := coder.Dial(ctx, "ws://"+e.Addr["http"]+"/ws", &coder.DialOptions{HTTPClient: client})
		if err != nil {
			return session{}, err
		}
		return session{close: func() { c.CloseNow() }, do: func(n int) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			if err := c.Write(ctx, coder.MessageText, fmt.Append(nil, n)); err != nil {
				return err
			}
			_, got, err := c.Read(ctx)
			if err != nil {
				return err
			}
			return want(string(got), fmt.Sprint(n))
		}}, nil
	}}
}
