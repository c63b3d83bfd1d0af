package knot

import (
	"net/netip"

	"github.com/capriccio-go/capriccio/knot/internal/clientaddr"
)

// A Trust names peers of a server, such as proxies in front of it, that are believed about the client of a request. The
// zero value names none.
type Trust struct{ peers clientaddr.Peers }

// ParseTrust makes a Trust of addresses, networks such as 10.0.0.0/8, and "unix:", which stands for every peer on a
// Unix socket.
func ParseTrust(peers ...string) (t Trust, err error) {
	t.peers, err = clientaddr.ParsePeers(peers...)
	return t, err
}

// Names reports whether t names the peer with this address, which is not valid for one on a Unix socket.
func (t Trust) Names(addr netip.Addr) bool { return t.peers.HasAddr(addr.WithZone("").Unmap()) }

// ClientAddr is the address of the client that has sent the request: the address of the connection's peer, or, if
// Server.Trust or TrustPeers names the peer, the last address in X-Forwarded-For that they do not name. For a request
// without such lines Forwarded (RFC 7239) takes their place: a trusted proxy that writes only Forwarded must drop
// X-Forwarded-For. An entry that is no address ends the search: then the client is the proxy that has written it.
// ClientAddr is not valid for a client without an IP address. The access log and the shares of clients in the admission
// of requests go by it; the RemoteAddr of net/http stays the peer's.
func (x *Ctx) ClientAddr() netip.Addr {
	if !x.client.Decided {
		x.decideClient(Trust{})
	}
	return x.client.Addr
}

// TrustPeers makes the peers that t names trusted for this request, besides those of Server.Trust. It reports
// whether the peer of the connection is one of either. It never parks.
func (x *Ctx) TrustPeers(t Trust) bool {
	if !x.client.Decided || !t.peers.IsZero() {
		x.decideClient(t)
	}
	return x.client.Trusted
}

// decideClient decides which address the client has. No other function does. Peers in also are trusted besides those of
// Server.Trust.
func (x *Ctx) decideClient(also Trust) {
	x.client = clientaddr.Decide(x.c.peer().addr, x.c.nc.RemoteAddr(), &x.srv.settings().trust.peers, &also.peers, &x.head, x.headBytes())
}

// countForClient has the connection of a proxy that Server.Trust names count for the client of this request, when
// requests are admitted: the client of the next request is not known before it is admitted and read.
func (x *Ctx) countForClient() {
	if !x.srv.settings().trust.peers.IsZero() && x.TrustPeers(Trust{}) {
		x.c.setClient(x.client.Addr)
	}
}

// clientText is ClientAddr for logs; without an address it is the host of the peer.
func (x *Ctx) clientText() string {
	if addr := x.ClientAddr(); x.client.Trusted && addr.IsValid() {
		return addr.String()
	}
	return x.c.remoteHost()
}
