package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/knot"
)

// A change is a part of a reload that is prepared: it is applied or undone.
type change struct{ apply, undo func() }

// parts are what a reload changes besides sites and addresses.
type parts struct {
	server *knot.Server
	secure *tlsNow
	logs   *accessLog
	admin  *adminNow
	ranks  *ranking
}

// prepare opens what fresh wants. After an error everything is as before.
func (p *parts) prepare(fresh *settings, errorLog *slog.Logger) (all change, err error) {
	var changes []change
	undo := func() {
		for _, c := range changes {
			c.undo()
		}
	}
	for _, prepare := range []func(*settings, *slog.Logger) (change, error){p.secure.prepare, p.logs.prepare, p.admin.prepare} {
		c, err := prepare(fresh, errorLog)
		if err != nil {
			undo()
			return change{}, err
		}
		changes = append(changes, c)
	}
	return change{undo: undo, apply: func() {
		p.server.Reconfigure(fresh.server) // before the log that it had is closed
		p.ranks.set(fresh)
		for _, c := range changes {
			c.apply()
		}
	}}, nil
}

// A tlsNow is what addresses that speak TLS serve with at the moment. Safe from anywhere.
type tlsNow struct {
	config  *tls.Config // fixed: it asks now
	now     atomic.Pointer[secured]
	tickets *tls.Config // has the keys of session tickets that servers share; nil: config has its own. Set before handshakes
}

// openTLS opens what t says.
func openTLS(t *tlsSettings, errorLog *slog.Logger) (*tlsNow, error) {
	s, err := t.open(errorLog)
	if err != nil {
		return nil, err
	}
	return newTLS(&s), nil
}

// newTLS returns a tlsNow that serves with s until a reload. Its config stays the same: it asks for the present one at each
// handshake.
func newTLS(s *secured) *tlsNow {
	n := new(tlsNow)
	n.now.Store(s)
	// Session tickets have keys of this Config, and outlive a reload.
	n.config = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		config := n.now.Load().config // not nil: addresses speak TLS only where there are certificates
		if config.GetConfigForClient == nil {
			return n.withTickets(config), nil
		}
		special, err := config.GetConfigForClient(hello)
		if special != nil && special.NextProtos == nil {
			special = special.Clone()
			special.NextProtos = config.NextProtos
		}
		return n.withTickets(special), err
	}}
	return n
}

// withTickets is c, which may be nil, with tickets of shared keys. Keys that are set later in n.config would not be seen: a
// server works with a copy of it.
func (n *tlsNow) withTickets(c *tls.Config) *tls.Config {
	if n.tickets == nil || c == nil {
		return c
	}
	c = c.Clone()
	c.WrapSession, c.UnwrapSession = n.tickets.EncryptTicket, n.tickets.DecryptTicket
	return c
}

// prepare opens what fresh says about TLS, if that is something else.
func (n *tlsNow) prepare(fresh *settings, errorLog *slog.Logger) (change, error) {
	if reflect.DeepEqual(n.now.Load().from, fresh.tls) {
		return change{func() {}, func() {}}, nil
	}
	if err := fresh.tls.checkCache(); err != nil {
		return change{}, err
	}
	next, err := fresh.tls.open(errorLog)
	if err != nil {
		return change{}, err
	}
	next.load()
	return change{undo: next.close, apply: func() {
		if next.config == nil {
			next.config = n.now.Load().config // for handshakes that have begun
		}
		n.now.Swap(&next).close()
	}}, nil
}

// prover answers an authority that asks by HTTP; nil: none does.
func (n *tlsNow) prover() knot.Handler {
	if manager := n.now.Load().acme; manager != nil {
		return knot.AdaptHTTP(knot.OffloadHTTP(manager))
	}
	return nil
}

// reload reads the files of certificates again.
func (n *tlsNow) reload() {
	if reload := n.now.Load().reload; reload != nil {
		reload()
	}
}

func (n *tlsNow) close() { n.now.Load().close() }

// An adminNow is the server of the admin address, if there is one at the moment. Safe from anywhere; nil never has one.
type adminNow struct {
	listen func(addr string, socket *os.File) (*adminServer, error)

	mu      sync.Mutex
	addr    string       // as it is configured; guarded by mu
	now     *adminServer // nil: there is none; guarded by mu
	stopped bool         // there will be none; guarded by mu
}

// open is for the start: socket may listen already, or be nil.
func (a *adminNow) open(addr string, socket *os.File) (err error) {
	if addr == "" {
		socket.Close() // else clients would wait there for ever
		return nil
	}
	a.addr = addr
	a.now, err = a.listen(addr, socket)
	return err
}

// prepare listens where fresh says, if that is another address.
func (a *adminNow) prepare(fresh *settings, errorLog *slog.Logger) (c change, err error) {
	if fullAdmin(a.configured()) == fullAdmin(fresh.admin) {
		return change{func() {}, func() {}}, nil
	}
	var next *adminServer
	if fresh.admin != "" {
		if next, err = a.listen(fresh.admin, nil); err != nil {
			return change{}, err
		}
	}
	return change{undo: next.stop, apply: func() {
		a.mu.Lock()
		old, stopped := a.now, a.stopped
		a.addr, a.now = fresh.admin, next
		a.mu.Unlock()
		old.stop()
		if stopped {
			next.stop()
		} else if next != nil {
			errorLog.Info("knot: admin pages", "addr", next.addr)
		}
	}}, nil
}

func (a *adminNow) configured() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.addr
}

// get returns nil if there is none.
func (a *adminNow) get() *adminServer {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// stop stops it for good.
func (a *adminNow) stop() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.stopped = true
	now := a.now
	a.mu.Unlock()
	now.stop()
}
