package knot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// inTask answers whether the handler runs in a task.
var inTask = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.Copy(w, r.Body)
	fmt.Fprint(w, task.Current() != nil)
})

// Connections of listeners of package net are served in tasks, whoever calls Serve; the end of the listener, of the
// server or of the context ends Serve.
func TestListenersOfNet(t *testing.T) {
	ca := testenv.NewCA(t)
	ends := map[string]struct {
		end  func(s *Server, ln net.Listener, cancel func())
		want error
	}{
		"listener": {func(_ *Server, ln net.Listener, _ func()) { ln.Close() }, net.ErrClosed},
		"server":   {func(s *Server, _ net.Listener, _ func()) { s.Close() }, ErrServerClosed},
		"context":  {func(_ *Server, _ net.Listener, cancel func()) { cancel() }, context.Canceled},
	}
	for name, c := range ends {
		for _, network := range []string{"tcp", "unix"} {
			for _, secure := range []bool{false, true} {
				t.Run(fmt.Sprint(name, "/", network, "/TLS=", secure), func(t *testing.T) {
					checkLeaks(t)
					rt := startRuntime(t, 2)
					at := "127.0.0.1:0"
					if network == "unix" {
						at = filepath.Join(t.TempDir(), "s")
					}
					ln := testenv.Need(net.Listen(network, at))(t)
					log := new(testenv.Buffer)
					s := &Server{Handler: AdaptHTTP(inTask), ErrorLog: textLog(log)}
					config := (*tls.Config)(nil)
					if secure {
						config = ca.Client()
						s.TLS = ca.Server(t)
					}
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					ended := make(chan error, 1)
					serve := func() { ended <- s.Serve(ln) }
					if name == "listener" { // from a plain goroutine
						go serve()
					} else {
						testenv.Need(rt.Spawn(task.Options{Context: ctx}, serve))(t)
					}
					transport := &http.Transport{TLSClientConfig: config, DialContext: func(context.Context, string, string) (net.Conn, error) {
						return net.Dial(network, ln.Addr().String())
					}}
					client := &http.Client{Transport: transport}
					url := "http://example.com/"
					if secure {
						url = "https://example.com/"
					}
					for range 3 {
						resp := testenv.Need(client.Post(url, "text/plain", strings.NewReader("in a task: ")))(t)
						body := testenv.Need(io.ReadAll(resp.Body))(t)
						resp.Body.Close()
						testenv.Equal(t, string(body), fmt.Sprint("in a task: ", (*engine.Runtime)(rt).Detaches()), "the response")
						transport.CloseIdleConnections() // the next one is a new connection
					}
					c.end(s, ln, cancel)
					if err := <-ended; !errors.Is(err, c.want) {
						t.Errorf("Serve returned %v, want %v", err, c.want)
					}
					testenv.Must(t, s.Close())
					testenv.Equal(t, strings.Contains(log.String(), "served by goroutines"), false, "the log complains of goroutines")
				})
			}
		}
	}
}

// A server whose connections can't be served in tasks says so once, and what would be right.
func TestForeignConnectionsAreReported(t *testing.T) {
	ca := testenv.NewCA(t)
	for name, c := range map[string]struct {
		runs   bool
		remedy string
	}{
		"no runtime":  {false, "call Serve in capriccio.Run"},
		"TLS outside": {true, "give Serve a listener of netpoll or net, and TLS by ServeTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(testenv.Buffer)
			s := &Server{Handler: AdaptHTTP(inTask), ErrorLog: textLog(log)}
			ln := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t)
			client, url := new(http.Client), "http://"+ln.Addr().String()
			ended := make(chan error, 1)
			if c.runs {
				rt := startRuntime(t, 1)
				secure := tls.NewListener(ln, ca.Server(t))
				rt.Go(func() { ended <- s.Serve(secure) })
				client.Transport = &http.Transport{TLSClientConfig: ca.Client()}
				url = strings.Replace(url, "http:", "https:", 1)
			} else {
				go func() { ended <- s.Serve(ln) }()
			}
			for range 2 {
				resp := testenv.Need(client.Get(url))(t)
				body := testenv.Need(io.ReadAll(resp.Body))(t)
				resp.Body.Close()
				testenv.Equal(t, string(body), "false", "handlers run in tasks")
				client.CloseIdleConnections()
			}
			testenv.Must(t, s.Close())
			testenv.Equal(t, <-ended, ErrServerClosed, "Serve")
			testenv.Equal(t, strings.Count(log.String(), "served by goroutines"), 1, "times that the log says so: %s", log.String())
			testenv.Equal(t, strings.Contains(log.String(), c.remedy), true, "the log names the remedy: %s", log.String())
		})
	}
}
