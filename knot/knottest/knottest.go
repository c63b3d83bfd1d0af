//go:build linux

// Package knottest tests handlers of Knot: it is to package knot what net/http/httptest is to net/http. A handler gets
// a real Ctx, in a task, on a server of its own.
package knottest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
)

// Serve runs server on a port of the loopback address until the test ends, and returns its URL, like
// "http://127.0.0.1:40123". It sets the Addr of the server, and calls its Listening if that is set. An error with which
// the server ends is one of the test.
func Serve(t testing.TB, server *knot.Server) (url string) {
	t.Helper()
	listening, told := make(chan net.Addr, 1), server.Listening
	server.Addr = "127.0.0.1:0"
	server.Listening = func(addr net.Addr) {
		if told != nil {
			told(addr)
		}
		listening <- addr
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- capriccio.Run(ctx, server.Run, capriccio.WithoutSignals()) }()
	select {
	case addr := <-listening:
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Errorf("knottest: the server ended with: %v", err)
			}
		})
		return "http://" + addr.String()
	case err := <-ended:
		stop()
		t.Fatalf("knottest: the server did not start: %v", err)
		return ""
	}
}

// Do has h answer request, which may come from httptest.NewRequest, and returns the response with its whole body in
// memory. An error that h returns becomes a response, as under any server.
func Do(t testing.TB, h knot.Handler, request *http.Request) *http.Response {
	t.Helper()
	url := Serve(t, &knot.Server{Handler: h})
	request = request.Clone(request.Context())
	request.RequestURI = "" // is for servers
	if request.Host == "" {
		request.Host = request.URL.Host
	}
	request.URL.Scheme, request.URL.Host = "http", url[len("http://"):]
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("knottest: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("knottest: reading the response: %v", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response
}
