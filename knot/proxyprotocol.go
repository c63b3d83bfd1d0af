package knot

import (
	"io"
	"net"
	"net/netip"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/proxyheader"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
)

// takeProxyHeader is the task that starts when something has come on a connection of a proxy that Endpoint.ProxyProtocol
// names: its header, which goes before everything else, TLS too.
func (c *conn) takeProxyHeader() {
	if !c.state.CompareAndSwap(connFresh, connActive) {
		c.finish()
		return
	}
	raw, opens, next := c.nc, opensByRequest, c.serveClient
	if secure := tlsin.Of(c.nc); secure != nil {
		raw, opens, next = secure.NetConn(), opensByHandshake, c.shakeHands
	}
	h, err := proxyheader.Read(raw)
	if err != nil {
		c.srv.reportProxy(c, err)
		c.finish()
		return
	}
	if h.Source.IsValid() {
		setAddrs(raw, h)
	}
	c.opens, c.whenReadable = opens, next
	c.since.Store(c.srv.clock.Now())
	c.clearRead()
	c.rest()
}

// setAddrs has everything that asks for the addresses of nc find those of h.
func setAddrs(nc net.Conn, h proxyheader.Header) {
	own := ownconn.Of(nc).(interface {
		SetAddrs(local, remote net.Addr)
		SetClient(addr netip.Addr)
	})
	own.SetAddrs(net.TCPAddrFromAddrPort(h.Destination), net.TCPAddrFromAddrPort(h.Source))
	own.SetClient(h.Source.Addr())
}

// reportProxy logs that a connection of a proxy had no header, but not that it was closed without a word, as checks of
// the port do.
func (s *Server) reportProxy(c *conn, err error) {
	if err == io.EOF {
		return
	}
	if untold, due := s.warned.unproxied.Due(s.clock.Now()); due {
		s.errorLog().Warn("knot: a connection of a trusted proxy is refused", "error", err, "proxy", c.nc.RemoteAddr(), "listener", c.nc.LocalAddr(), "unreported", untold)
	}
}
