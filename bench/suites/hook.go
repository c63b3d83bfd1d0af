//go:build httptest_on_knot

package suites

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// runtime is made with the first server: some tests count goroutines.
var runtime = sync.OnceValue(func() *task.Runtime {
	fmt.Fprintln(os.Stderr, ServedByKnot)
	rt, err := capriccio.New()
	if err != nil {
		panic(err)
	}
	return rt
})

func init() {
	if os.Getenv(ServedByKnot) == "" {
		return
	}
	httptest.ListenElsewhere = func() (net.Listener, error) {
		runtime()
		return netpoll.Listen("tcp", "127.0.0.1:0")
	}
	httptest.ServeElsewhere = serve
}

// serve is http.Serve on ln; a server that Knot can't stand in for stays one of net/http. closed waits for requests under way, drop does not:
// it ends the server, too, where httptest's goes on.
func serve(ln net.Listener, config *http.Server, secure *tls.Config) (closed, drop func()) {
	ended := make(chan error, 1)
	var shutdown func(context.Context) error
	end := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "the end of a server:", err)
		}
		<-ended
	})
	s, err := knot.FromHTTP(config)
	if _, ours := ln.(*netpoll.Listener); !ours || err != nil {
		if secure != nil {
			ln = tls.NewListener(ln, secure)
		}
		shutdown = config.Shutdown
		go func() { ended <- config.Serve(ln) }()
		return end, func() { config.Close() }
	}
	s.TLS = secure
	shutdown = s.Shutdown
	runtime().Go(func() {
		if secure != nil {
			ended <- s.ServeTLS(ln, "", "")
			return
		}
		ended <- s.Serve(ln)
	})
	return end, func() { s.Close() }
}
