package testenv

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Listen is a listener of package net at a port of its own, until the end of the test.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln
}

// Serve calls f for each connection that comes, on a goroutine of its own, and closes the connection afterwards.
// A connection has a minute. At the end of the test all are closed and waited for.
func Serve(t testing.TB, f func(net.Conn)) (addr string) {
	t.Helper()
	ln := Listen(t)
	var all sync.WaitGroup
	var conns []net.Conn // of the accepting goroutine until it has ended
	ended := make(chan bool)
	t.Cleanup(func() {
		ln.Close()
		<-ended
		for _, c := range conns {
			c.Close()
		}
		all.Wait()
	})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			c.SetDeadline(time.Now().Add(time.Minute))
			all.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	}()
	return ln.Addr().String()
}

// Echo sends back what comes: for Serve.
func Echo(c net.Conn) { io.Copy(c, c) }

// Dial connects by package net, until the end of the test, and for a minute.
func Dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	Must(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// Get asks, and returns the response, which has to be whole, and its body.
func Get(t testing.TB, client *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Get(url)
	Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	Must(t, err)
	return resp, string(body)
}

// Ask sends a request: method, path and lines of the header, separated by bars, as in "GET /|X-A: 1".
// The body of the response is dropped.
func Ask(t testing.TB, url, line string) *http.Response {
	t.Helper()
	parts := strings.Split(line, "|")
	method, path, _ := strings.Cut(parts[0], " ")
	r := Need(http.NewRequest(method, url+path, nil))(t)
	for _, line := range parts[1:] {
		name, value, _ := strings.Cut(line, ":")
		r.Header[name] = append(r.Header[name], strings.TrimSpace(value))
	}
	resp := Need(http.DefaultTransport.RoundTrip(r))(t)
	resp.Body.Close()
	return resp
}

// PlainHTTP2 speaks HTTP/2 without TLS, with prior knowledge, until the end of the test.
func PlainHTTP2(t testing.TB) *http.Transport {
	h := &http.Transport{Protocols: new(http.Protocols)}
	h.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(h.CloseIdleConnections)
	return h
}
