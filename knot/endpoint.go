package knot

import (
	"crypto/tls"
	"errors"
	"math"
	"net"
	"slices"

	"github.com/capriccio-go/capriccio/knot/internal/clientaddr"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/netpoll"
)

// An Endpoint is a listener with settings of its own, for Server.Listeners and Serve: one of several addresses, of
// which some speak TLS and others do not, or answer otherwise. Its fields must not be changed once it is served.
type Endpoint struct {
	net.Listener
	// ProxyProtocol names proxies whose connections begin with a header of the PROXY protocol, version 1 or 2, which says
	// between which addresses the client has connected. RemoteAddr and LocalAddr then return these addresses everywhere. The
	// header has HeadTimeout to come; a connection of such a proxy without a header is closed, and logged. Connections of other
	// peers are served as they are, and must not begin with a header. The Listener must be a *netpoll.Listener. The zero value
	// names none.
	ProxyProtocol Trust
	// TLS has the server speak TLS on its connections, as Server.TLS does elsewhere; nil: they speak HTTP.
	TLS *tls.Config
	// Handler answers the requests; nil: that of the server.
	Handler Handler
	// ErrorPage makes the pages of errors, as Server.ErrorPage does; nil: that of the server.
	ErrorPage func(x *Ctx, status int) (ctype string, page []byte)
}

// An entry is how connections of a listener are served.
type entry struct {
	config   *tls.Config // nil: they speak HTTP
	endpoint uint16
	proxies  *clientaddr.Peers // Endpoint.ProxyProtocol; nil: none
}

var errManyEndpoints = errors.New("knot: too many endpoints were served; want at most 65535 in the life of a server")

var errForeignProxied = errors.New("knot: an Endpoint with ProxyProtocol needs a *netpoll.Listener")

// bare is ln, or the Listener of ln if that is an Endpoint.
func bare(ln net.Listener) net.Listener {
	if e, ok := ln.(*Endpoint); ok {
		return e.Listener
	}
	return ln
}

// entryOf returns how to serve ln: over TLS if config is not nil, or as ln says if it is an Endpoint.
func (s *Server) entryOf(ln net.Listener, config *tls.Config) (entry, error) {
	e, ok := ln.(*Endpoint)
	if !ok {
		return entry{config: config}, nil
	}
	if e.TLS != nil {
		if err := tlsin.Check(e.TLS); err != nil {
			return entry{}, err
		}
	}
	on := entry{config: s.serverTLS(e.TLS)}
	if !e.ProxyProtocol.peers.IsZero() {
		if _, own := e.Listener.(*netpoll.Listener); !own {
			return entry{}, errForeignProxied
		}
		on.proxies = &e.ProxyProtocol.peers
	}
	s.adding.Lock()
	defer s.adding.Unlock()
	var all []*Endpoint
	if before := s.endpoints.Load(); before != nil {
		all = *before
	}
	if len(all) == math.MaxUint16 {
		return entry{}, errManyEndpoints
	}
	all = append(slices.Clip(all), e)
	s.endpoints.Store(&all)
	on.endpoint = uint16(len(all))
	return on, nil
}

// endpointOf is the Endpoint that c came to, nil if it is that of a plain listener.
func (s *Server) endpointOf(c *conn) *Endpoint {
	if c.endpoint == 0 {
		return nil
	}
	return (*s.endpoints.Load())[c.endpoint-1]
}

// handlerOf returns the handler of the request.
func (x *Ctx) handlerOf() Handler {
	if e := x.srv.endpointOf(x.c); e != nil && e.Handler != nil {
		return e.Handler
	}
	return x.srv.handler
}

// errorPage returns the page of the program's own for a status; nil: there is none, or its function has panicked.
func (x *Ctx) errorPage(status int) (ctype string, page []byte) {
	pages := x.srv.ErrorPage
	if e := x.srv.endpointOf(x.c); e != nil && e.ErrorPage != nil {
		pages = e.ErrorPage
	}
	if pages == nil {
		return "", nil
	}
	defer func() {
		if p := recover(); p != nil {
			x.logPanic("ErrorPage panicked", p)
		}
	}()
	return pages(x, status)
}
