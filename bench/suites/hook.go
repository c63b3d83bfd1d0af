//go:build httptest_on_knot

package suites

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
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

// onlyHTTP reports whether config sets what knot.Server does not have.
func onlyHTTP(config *http.Server) bool {
	return config.ConnState != nil || config.BaseContext != nil || config.ConnContext != nil || config.WriteTimeout != 0 || config.ReadTimeout != 0 ||
		config.Protocols != nil || config.TLSNextProto != nil || config.DisableGeneralOptionsHandler
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
	if _, ours := ln.(*netpoll.Listener); !ours || onlyHTTP(config) {
		if secure != nil {
			ln = tls.NewListener(ln, secure)
		}
		shutdown = config.Shutdown
		go func() { ended <- config.Serve(ln) }()
		return end, func() { config.Close() }
	}
	s := &knot.Server{
		// The handler may be set later than httptest is told to serve.
		Handler: knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := config.Handler
			if h == nil {
				h = http.DefaultServeMux
			}
			h.ServeHTTP(w, r)
		})),
		TLS: secure, HTTP2: config.HTTP2, H2C: secure == nil, Connect: true, Outgoing: 512,
		MaxBody: -1, MaxHead: http.DefaultMaxHeaderBytes, MaxRequestLine: http.DefaultMaxHeaderBytes, MaxFields: 10_000,
		HeadTimeout: config.ReadHeaderTimeout, IdleTimeout: config.IdleTimeout,
	}
	if config.MaxHeaderBytes != 0 {
		s.MaxHead = config.MaxHeaderBytes
	}
	if config.ErrorLog != nil {
		s.ErrorLog = slog.New(logTo{config})
	}
	shutdown = s.Shutdown
	runtime().Go(func() { ended <- s.Serve(ln) })
	return end, func() { s.Close() }
}

// A logTo is a slog.Handler that writes to the ErrorLog of an http.Server, which may be another one later.
type logTo struct{ config *http.Server }

func (t logTo) Enabled(context.Context, slog.Level) bool { return true }
func (t logTo) WithAttrs([]slog.Attr) slog.Handler       { return t }
func (t logTo) WithGroup(string) slog.Handler            { return t }

func (t logTo) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	t.config.ErrorLog.Print(line)
	return nil
}
