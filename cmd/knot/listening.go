package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/redirect"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// A listening is what is listened on at the moment, and how a reload changes that. Safe from anywhere.
type listening struct {
	server      *knot.Server
	secure      *tlsNow
	served      *running
	log         *slog.Logger
	predecessor <-chan struct{} // closed when sockets of UDP may be read; nil: they may

	opened chan struct{} // closed when the points of the start are open
	ended  chan struct{} // closed by stop
	stop   func()        // is called when nothing is served any more, any number of times

	mu     sync.Mutex
	points []*addresses.Point // guarded by mu
	rt     *task.Runtime      // where listeners are opened; set before opened is closed
}

// drainPatience is for how long clients that wait to be accepted at an address that is gone are served.
const drainPatience = 5 * time.Second

// serveOn has the server listen on the points, and serve what belongs to each.
func (set *settings) serveOn(served *running, secure *tlsNow, predecessor <-chan struct{}, log *slog.Logger) {
	server := set.server
	l := &listening{server: server, secure: secure, served: served, log: log, predecessor: predecessor, opened: make(chan struct{}), ended: make(chan struct{}), points: set.points}
	l.stop = sync.OnceFunc(func() { close(l.ended) })
	served.on.Store(l)
	one := len(set.points) == 1 && set.points[0].Proxies == nil && !set.points[0].HTTP3 // which costs its connections nothing
	if one {
		p := set.points[0]
		sites := served.at(p.Addr)
		server.Handler, server.ErrorPage = sites.Handle, sites.ErrorPage
		if p.TLS {
			server.TLS = sites.Handshakes(secure.config)
		}
	}
	server.Listeners = func() (all []net.Listener, err error) {
		endpoints, err := l.open(set, set.points)
		if err != nil {
			for _, p := range set.points {
				p.Close()
			}
			return nil, err
		}
		for _, e := range endpoints {
			if one {
				all = append(all, e.Listener)
			} else {
				all = append(all, e)
			}
		}
		for _, p := range set.points {
			p.Own()
		}
		l.rt = task.Default()
		close(l.opened)
		return all, nil
	}
}

// open listens on points of set. It must be called in a task. After an error some may be open.
func (l *listening) open(set *settings, points []*addresses.Point) (all []*knot.Endpoint, err error) {
	for _, p := range points {
		listeners, err := p.Listen(l.log)
		if err != nil && p.Optional {
			reportOptional(p, err, l.log)
			continue
		}
		if err != nil {
			return nil, &addressError{p.Addr, p.Key, err}
		}
		first := len(all)
		for _, ln := range listeners {
			all = append(all, l.endpoint(p, ln))
		}
		quic, err := l.openQUIC(set, p, all[first:])
		if err != nil {
			return nil, &addressError{p.Addr, p.Key, fmt.Errorf("HTTP/3: %w", err)}
		}
		if quic != nil {
			all = append(all, quic)
		}
	}
	return all, nil
}

// endpoint serves what belongs to p on ln.
func (l *listening) endpoint(p *addresses.Point, ln net.Listener) *knot.Endpoint {
	if p.Redirects {
		to := redirect.ToHTTPS{From: portOf(ln), To: l.securePort, Known: l.knows, Prove: l.secure.prover}
		return &knot.Endpoint{Listener: ln, Handler: to.Handle}
	}
	sites := l.served.at(p.Addr)
	e := &knot.Endpoint{Listener: ln, Handler: sites.Handle, ErrorPage: sites.ErrorPage}
	e.ProxyProtocol, _ = knot.ParseTrust(p.Proxies...) // that it can be read was found out with the table
	if p.TLS {
		e.TLS = sites.Handshakes(l.secure.config)
	}
	return e
}

// now are the points that are listened on.
func (l *listening) now() []*addresses.Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.points
}

// securePort is the port of HTTPS: that of the first address that has one.
func (l *listening) securePort() int {
	for _, p := range l.now() {
		if !p.TLS {
			continue
		}
		if port := addresses.Port(p.Addr); port != 0 {
			return port
		}
		for _, ln := range p.Listening() {
			if tcp, ok := ln.(*net.TCPAddr); ok {
				return tcp.Port
			}
		}
	}
	return redirect.HTTPS
}

func portOf(ln net.Listener) int {
	if tcp, ok := ln.Addr().(*net.TCPAddr); ok {
		return tcp.Port
	}
	return redirect.HTTP
}

// knows reports whether a site is served over HTTPS under the name of that host.
func (l *listening) knows(host []byte) bool {
	now := l.served.now.Load()
	return now != nil && slices.ContainsFunc(l.now(), func(p *addresses.Point) bool {
		hosts := now.hosts[p.Addr]
		return p.TLS && hosts != nil && hosts.Site(host) != nil
	})
}

// startACME starts to get certificates by ACME, if they are asked for: the authority connects to the first address with TLS, or to the
// first that redirects to it.
func (l *listening) startACME() {
	manager := l.secure.now.Load().acme
	if manager == nil {
		return
	}
	first := func(is func(*addresses.Point) bool) net.Addr {
		for _, p := range l.now() {
			if all := p.Listening(); is(p) && len(all) > 0 {
				return all[0]
			}
		}
		return nil
	}
	manager.Start(first(func(p *addresses.Point) bool { return p.TLS }), first(func(p *addresses.Point) bool { return p.Redirects }))
}

// urls are the addresses that are listened on, as something to click on.
func (l *listening) urls() (all []string) {
	for _, p := range l.now() {
		scheme, note := "http", ""
		switch {
		case p.TLS:
			scheme = "https"
		case p.Redirects:
			note = " (sends clients to HTTPS)"
		}
		for _, addr := range p.Listening() {
			all = append(all, address(scheme, addr)+note)
		}
	}
	return all
}

// sockets are those of all points, for a successor.
func (l *listening) sockets() (files []*os.File, sockets []addresses.Socket, err error) {
	points := l.now()
	for _, p := range points {
		some, of, err := p.AllFiles()
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, nil, err
		}
		files, sockets = append(files, some...), append(sockets, of...)
	}
	if len(points) == 1 && points[0].TakesAll {
		for i := range sockets {
			sockets[i].Addr = "" // the successor has no other either
		}
	}
	return files, sockets, nil
}

// stopListening ends what waits for addresses to be open.
func (r *running) stopListening() {
	if on := r.on.Load(); on != nil {
		on.stop()
	}
}

// A relisten is a change of the points that is prepared: what is new is open, and not served yet.
type relisten struct {
	l         *listening
	change    addresses.Change
	points    []*addresses.Point
	endpoints []*knot.Endpoint
}

// errNotListening is why addresses can't be changed yet, or any more.
var errNotListening = errors.New("nothing is listened on")

// prepare opens what fresh listens on and l does not yet. If that fails, everything is as before.
func (l *listening) prepare(fresh *settings) (*relisten, error) {
	select {
	case <-l.opened:
	case <-l.ended:
		return nil, errNotListening
	}
	change, err := addresses.Plan(l.now(), fresh.points)
	if err != nil {
		return nil, err
	}
	n := &relisten{l: l, change: change, points: fresh.points}
	for _, p := range change.Added {
		if err := p.NeedsSystemd(); err != nil {
			change.Undo()
			return nil, err
		}
		if err := p.RemoveStale(); err != nil && !p.Optional {
			change.Undo()
			return nil, &addressError{p.Addr, p.Key, err}
		}
	}
	if ended := l.rt.Go(func() { n.endpoints, err = l.open(fresh, change.Added) }).Join(); err == nil {
		err = ended
	}
	if err != nil {
		change.Undo()
		return nil, err
	}
	return n, nil
}

// apply serves what was opened, and stops serving the rest.
func (n *relisten) apply() {
	l := n.l
	l.mu.Lock()
	l.points = n.points
	l.mu.Unlock()
	for _, e := range n.endpoints {
		l.rt.Spawn(task.Options{Context: context.Background()}, func() {
			if err := l.server.Serve(e); !errors.Is(err, net.ErrClosed) && err != knot.ErrServerClosed {
				l.log.Error("knot: an address is not served any more", "addr", e.Addr(), "error", err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainPatience)
	defer cancel()
	n.change.Finish(ctx)
	for _, e := range n.endpoints {
		l.log.Info("knot: listening", "addr", e.Addr())
	}
	for _, p := range n.change.Gone {
		l.log.Info("knot: not listening any more", "addr", p.Addr)
	}
}
