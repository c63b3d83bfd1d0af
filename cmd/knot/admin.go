package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
	"github.com/capriccio-go/capriccio/knot"
)

// An adminServer shows operators what knot is doing. It is a server of net/http on
// plain goroutines, so that it answers when all event loops are stuck.
type adminServer struct {
	server *http.Server
	ln     net.Listener
	addr   net.Addr
	cancel context.CancelFunc // ends the requests that wait for time to pass
	log    *slog.Logger
	begun  sync.Once
	ended  chan struct{}
}

const (
	adminHead  = 5 * time.Second // for a request head
	adminWrite = 6 * time.Minute // for an answer: the longest difference takes 5
	adminIdle  = time.Minute
)

var adminGrace = time.Second // for tests to change

// An addressError is an error of listening on an address.
type addressError struct {
	addr string
	key  string // where the address is configured: a flag, or listen.1.addr
	err  error
}

const adminFlag = "-admin"

func (e *addressError) Error() string { return e.err.Error() }
func (e *addressError) Unwrap() error { return e.err }

// listenAdmin starts serving on addr. Without a host that is this machine only.
// socket, if not nil, listens on it already: then the process that it comes from answers until start is
// called. stats is what the page shows of the caches; more adds pages.
func listenAdmin(addr string, socket *os.File, log *slog.Logger, stats func() knot.FilesStats, more ...func(*http.ServeMux)) (*adminServer, error) {
	addr = fullAdmin(addr)
	listen := func() (net.Listener, error) { return net.Listen("tcp", addr) }
	if socket != nil {
		defer socket.Close()
		listen = func() (net.Listener, error) { return net.FileListener(socket) }
	}
	ln, err := listen()
	if err != nil {
		return nil, &addressError{addr, adminFlag, err}
	}
	a := &adminServer{ln: ln, addr: ln.Addr(), log: log, ended: make(chan struct{})}
	pages := adminPages(stats)
	for _, add := range more {
		add(pages)
	}
	var handler http.Handler = pages
	if local, ok := ln.Addr().(*net.TCPAddr); ok && local.IP.IsLoopback() {
		handler = onlyByAddress(handler)
	} else {
		handler = publicPages(handler)
		log.Info("knot: the admin address can be reached from other machines; they get health and metrics only", "addr", ln.Addr().String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: adminHead,
		ReadTimeout:       2 * adminHead,
		WriteTimeout:      adminWrite,
		IdleTimeout:       adminIdle,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	if socket == nil {
		a.start()
	}
	return a, nil
}

// fullAdmin is an admin address with its host.
func fullAdmin(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

// start starts serving unless that has been done. a may be nil, as for stop.
func (a *adminServer) start() {
	if a == nil {
		return
	}
	a.begun.Do(func() {
		go func() {
			defer close(a.ended)
			if err := a.server.Serve(a.ln); !errors.Is(err, net.ErrClosed) {
				a.log.Error("knot: the admin server has ended", "error", err)
			}
		}()
	})
}

// socket is a duplicate of the listening socket.
func (a *adminServer) socket() (*os.File, error) {
	ln, ok := a.ln.(*net.TCPListener)
	if !ok {
		return nil, errors.New("the admin address has no socket to hand over")
	}
	return ln.File()
}

// stop ends the server; requests under way have a moment to end. It may be called more than once.
func (a *adminServer) stop() {
	if a == nil {
		return
	}
	a.begun.Do(func() { close(a.ended) })
	a.ln.Close() // what is accepted is served; Shutdown alone may pass over the last one
	<-a.ended
	a.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		a.server.Close()
	}
}

var adminIndex = template.Must(template.New("admin").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Knot</title>
<style>body { font: 16px/1.5 system-ui, sans-serif; margin: 2em }</style>
<h1>Knot</h1>
<p>What this server is doing:</p>
<ul>
<li><a href="debug/bgraph/">blocking graph</a>: where tasks wait, and what they do in between
<li><a href="metrics">metrics</a>, for Prometheus
<li><a href="readyz">whether it wants new requests</a>, and in which state its resources are; <a href="healthz">whether it is alive</a>
<li><a href="debug/pprof/">profiles</a> of the Go runtime: CPU, memory, goroutines
</ul>
<p>For a live view: <code>bgdump -http :8000 http://{{.Host}}</code>
<p>The files that it keeps (<a href="debug/files">as JSON</a>):</p>
<table>
{{range .Rows}}<tr><td>{{.Name}}<td align="right">{{.Value}}<td>{{.Note}}
{{end}}</table>
</html>
`))

type cacheRow struct{ Name, Value, Note string }

// cacheRows puts the counters of the caches into words.
func cacheRows(s knot.FilesStats) []cacheRow {
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	all := s.Hits + s.OpenHits + s.Misses
	share := func(n uint64) string {
		if all == 0 {
			return ""
		}
		return fmt.Sprintf("%.1f %% of the requests for files", 100*float64(n)/float64(all))
	}
	kept := fmt.Sprintf("of %s, %d files", byteSize(s.MaxBytes), s.Files)
	return []cacheRow{
		{"from memory", count(s.Hits), share(s.Hits)},
		{"from a file that was open", count(s.OpenHits), share(s.OpenHits)},
		{"file opened, or not found", count(s.Misses), share(s.Misses)},
		{"read into memory", count(s.Loads), ""},
		{"bytes in memory", strconv.FormatInt(s.Bytes, 10), kept},
		{"dropped from memory for others", count(s.Evictions), ""},
		{"not kept: others are asked for more", count(s.Refused), ""},
		{"open files", strconv.Itoa(s.Open), fmt.Sprintf("of %d", s.MaxOpen)},
		{"closed for others", count(s.OpenEvictions), ""},
		{"changed on disk", count(s.Stale), ""},
	}
}

func adminPages(stats func() knot.FilesStats) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		adminIndex.Execute(w, map[string]any{"Host": r.Host, "Rows": cacheRows(stats())})
	})
	mux.HandleFunc("GET /debug/files", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		json.NewEncoder(w).Encode(stats())
	})
	mux.Handle("/debug/bgraph/", graphhttp.Handler(nil))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// publicPages serves health and metrics to all clients, and the other pages only to clients on this machine: profiles and
// the blocking graph show how the program works, and cost processors and memory.
func publicPages(h http.Handler) http.Handler {
	own := onlyByAddress(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		switch {
		case r.URL.Path == "/healthz", r.URL.Path == "/readyz", r.URL.Path == "/metrics":
			h.ServeHTTP(w, r)
		case err == nil && peer.Addr().Unmap().IsLoopback():
			own.ServeHTTP(w, r)
		default:
			http.Error(w, "other machines get /healthz, /readyz and /metrics; all else is for this machine (ssh -L, kubectl port-forward)", http.StatusForbidden)
		}
	})
}

// onlyByAddress refuses requests for a host that is a name: a web page in a browser on
// this machine may have got that name to mean this machine (DNS rebinding), and would
// read the answer.
func onlyByAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
			http.Error(w, fmt.Sprintf("this server is called by its address or as localhost, not as %q", host), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
