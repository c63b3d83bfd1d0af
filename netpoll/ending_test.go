//go:build linux

package netpoll_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// A task that waits natively for a goroutine, which waits for a connection, ends with the runtime. So do the handlers of
// libraries with a goroutine that reads: after ln.Close, Serve does not wait for them.
func TestTheEndOfTheRuntimeEndsWaitsOfGoroutines(t *testing.T) {
	for what, handle := range map[string]func(c *netpoll.Conn) error{
		"Read":  func(c *netpoll.Conn) error { return testenv.Err(c.Read(make([]byte, 1))) },
		"Write": func(c *netpoll.Conn) error { return testenv.Err(c.Write(make([]byte, 64<<20))) },
		"Accept": func(*netpoll.Conn) error {
			ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
			if err == nil {
				_, err = ln.Accept()
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			endWithHandler(t, func(addr string) {
				testenv.Dial(t, addr)
			}, func(c *netpoll.Conn) {
				ended := make(chan error)
				go func() { ended <- handle(c) }()
				testenv.ErrorIs(t, <-ended, net.ErrClosed, "the goroutine's wait")
			})
		})
	}
	t.Run("http2.ServeConn", func(t *testing.T) {
		endWithHandler(t, func(addr string) {
			client := &http2.Transport{AllowHTTP: true, DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
			t.Cleanup(client.CloseIdleConnections)
			testenv.Get(t, &http.Client{Transport: client}, "http://"+addr) // and is idle
		}, func(c *netpoll.Conn) {
			new(http2.Server).ServeConn(c, &http2.ServeConnOpts{Handler: http.NotFoundHandler()})
		})
	})
}

// endWithHandler serves a client, closes the listener when that is done, and then the runtime: the handler must end.
func endWithHandler(t *testing.T, client func(addr string), handler func(*netpoll.Conn)) {
	native(t, engine.Config{Grace: 20 * time.Millisecond}, func(t *testing.T, rt *engine.Runtime) {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		begun, ended := make(chan bool), make(chan bool)
		served := rt.Go(func() {
			netpoll.Serve(ln, func(c *netpoll.Conn) {
				defer close(ended)
				defer c.Close()
				close(begun)
				handler(c)
			})
		})
		client(ln.Addr().String())
		<-begun
		ln.Close()
		testenv.Must(t, served.Join())
		rt.Close() // on a slow machine the grace time is too short
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Error("the handler goes on after the end of the runtime")
		}
	})
}
