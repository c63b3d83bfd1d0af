package knot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A Trust names the peers, proxies in front of a server, whose word about the clients that they forward for counts.
// The zero value names none.
type Trust struct {
	nets []netip.Prefix
	unix bool // every peer on a Unix socket
}

// ParseTrust makes a Trust of addresses, networks such as 10.0.0.0/8, and "unix:", which stands for every peer on a
// Unix socket.
func ParseTrust(peers ...string) (t Trust, err error) {
	for _, text := range peers {
		if text == "unix:" {
			t.unix = true
			continue
		}
		net, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil {
			net, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return Trust{}, fmt.Errorf("%q is neither unix: nor an address nor a network like 10.0.0.0/8", text)
		}
		if addr := net.Addr(); addr.Is4In6() && net.Bits() >= 96 { // peers are compared without that prefix
			net = netip.PrefixFrom(addr.Unmap(), net.Bits()-96)
		}
		t.nets = append(t.nets, net)
	}
	return t, nil
}

// names reports whether the peer with this address is one of t; without an address it is one on a Unix socket.
func (t *Trust) names(addr netip.Addr) bool {
	if !addr.IsValid() {
		return t.unix
	}
	return slices.ContainsFunc(t.nets, func(net netip.Prefix) bool { return net.Contains(addr) })
}

func (t *Trust) isZero() bool { return !t.unix && len(t.nets) == 0 }

// A client is who a request is from.
type client struct {
	addr    netip.Addr // if decided
	decided bool
	trusted bool // the peer is a proxy whose word counts
}

// ClientAddr is the address of the client that the request is from: that of the connection's peer; or, if Server.Trust
// or TrustPeers names the peer, the last address in X-Forwarded-For that they do not name. A request without such
// lines has Forwarded (RFC 7239) in their place: a trusted proxy that writes only Forwarded must drop X-Forwarded-For. An entry that is no address ends the search: then the client is the
// proxy that has written it. ClientAddr is not valid for a client without an IP address. The access log and the
// shares of clients in the admission of requests go by it; the RemoteAddr of net/http stays the peer's.
func (x *Ctx) ClientAddr() netip.Addr {
	if !x.client.decided {
		x.decideClient(Trust{})
	}
	return x.client.addr
}

// TrustPeers has the word of peers that t names count for this request too, besides those of Server.Trust. It reports
// whether the peer of the connection is one of either.
func (x *Ctx) TrustPeers(t Trust) bool {
	if !x.client.decided || !t.isZero() {
		x.decideClient(t)
	}
	return x.client.trusted
}

// decideClient decides who the client is. It is the only place that does.
func (x *Ctx) decideClient(also Trust) {
	peer, onUnix := x.c.peer()
	trusted := func(addr netip.Addr) bool { return x.srv.Trust.names(addr) || also.names(addr) }
	x.client = client{addr: peer, decided: true, trusted: (peer.IsValid() || onUnix) && trusted(peer)}
	if !x.client.trusted {
		return
	}
	for _, hop := range slices.Backward(x.hops()) {
		addr, known := hopAddr(hop)
		if !known {
			return
		}
		if addr.IsValid() {
			x.client.addr = addr
		}
		if !trusted(addr) {
			return
		}
	}
}

// countForClient has the connection of a proxy that Server.Trust names count for the client of this request, when
// requests are admitted: who the next request is from is not known before it is let in and read.
func (x *Ctx) countForClient() {
	if !x.srv.Trust.isZero() && x.TrustPeers(Trust{}) {
		x.c.setClient(x.client.addr)
	}
}

// clientText is ClientAddr for logs; without an address it is the text of RemoteHost.
func (x *Ctx) clientText() string {
	if addr := x.ClientAddr(); x.client.trusted && addr.IsValid() {
		return addr.String()
	}
	return x.c.remoteHost()
}

// peer is the address at the other end of the connection; not valid if it has none, as on a Unix socket.
func (c *conn) peer() (addr netip.Addr, onUnix bool) {
	addr, err := netip.ParseAddr(c.remoteHost())
	if err == nil {
		return addr.WithZone("").Unmap(), false
	}
	remote := c.nc.RemoteAddr()
	return netip.Addr{}, remote != nil && remote.Network() == "unix"
}

// hops are the peers that proxies say that they forward for, the client first.
func (x *Ctx) hops() (hops []string) {
	x.EachHeader(func(name, value []byte) bool {
		if h1.TokenIs(name, "x-forwarded-for") {
			for hop := range strings.SplitSeq(string(value), ",") {
				hops = append(hops, strings.Trim(hop, " \t"))
			}
		}
		return true
	})
	if hops != nil {
		return hops
	}
	x.EachHeader(func(name, value []byte) bool {
		if h1.TokenIs(name, "forwarded") {
			for _, element := range splitQuoted(string(value), ',') {
				hops = append(hops, forwardedFor(element))
			}
		}
		return true
	})
	return hops
}

// forwardedFor is the node that an element of Forwarded is about; "" if it has none.
func forwardedFor(element string) string {
	for _, pair := range splitQuoted(element, ';') {
		if name, value, _ := strings.Cut(pair, "="); strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// splitQuoted splits a list whose elements may have quoted strings. If the last of these does not end there is one
// empty element: a client may have sent the beginning of it, so that the text of a proxy looks like the rest.
func splitQuoted(text string, separator byte) (parts []string) {
	from, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case quoted && text[i] == '\\':
			i++
		case !quoted && text[i] == separator:
			parts = append(parts, strings.Trim(text[from:i], " \t"))
			from = i + 1
		}
	}
	if quoted {
		return []string{""}
	}
	return append(parts, strings.Trim(text[from:], " \t"))
}

// hopAddr reads an entry: an address, maybe with a port; or unix:, as nginx names a peer on a Unix socket, which is
// known and has no valid address.
func hopAddr(text string) (addr netip.Addr, known bool) {
	if text == "unix:" {
		return addr, true
	}
	if port, err := netip.ParseAddrPort(text); err == nil {
		addr = port.Addr()
	} else if addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")); err != nil {
		return addr, false
	}
	return addr.WithZone("").Unmap(), true
}
