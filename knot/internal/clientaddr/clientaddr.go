// Package clientaddr finds out which client a request is from where proxies stand in front of the server: which peers count as such
// proxies, and what they say in X-Forwarded-For and Forwarded (RFC 7239).
package clientaddr

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Peers are the proxies whose word counts. The zero value has none.
type Peers struct {
	nets []netip.Prefix
	unix bool // every peer on a Unix socket
}

// ParsePeers reads addresses, networks such as 10.0.0.0/8, and "unix:", which stands for every peer on a Unix socket.
func ParsePeers(peers ...string) (p Peers, err error) {
	for _, text := range peers {
		if text == "unix:" {
			p.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if addr, bad := netip.ParseAddr(text); bad == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return Peers{}, fmt.Errorf("%q is neither unix: nor an address nor a network like 10.0.0.0/8", text)
		}
		if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 { // peers are compared without these bits
			prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
		}
		p.nets = append(p.nets, prefix)
	}
	return p, nil
}

// IsZero reports whether there are none.
func (p *Peers) IsZero() bool { return !p.unix && len(p.nets) == 0 }

// HasPeer reports whether the peer of a connection is one of p.
func (p *Peers) HasPeer(peer net.Addr) bool {
	if addr, err := netip.ParseAddr(Host(peer)); err == nil {
		return p.HasAddr(addr.WithZone("").Unmap())
	}
	return p.unix && peer != nil && peer.Network() == "unix"
}

// HasAddr reports whether the peer with this address is one of p; without an address it is one on a Unix socket.
func (p *Peers) HasAddr(addr netip.Addr) bool {
	if !addr.IsValid() {
		return p.unix
	}
	return slices.ContainsFunc(p.nets, func(net netip.Prefix) bool { return net.Contains(addr) })
}

// A Client is the client that a request is from.
type Client struct {
	Addr    netip.Addr // not valid: it has no IP address
	Decided bool       // false: not known yet
	Trusted bool       // the peer is a proxy whose word counts
}

// NoHost is the text of Host for a peer without an address, as on a Unix socket.
const NoHost = "-"

// Host is the address of a peer without its port, NoHost if it has none.
func Host(remote net.Addr) string {
	if remote == nil {
		return NoHost
	}
	text := remote.String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	if text == "" || text == "@" {
		return NoHost
	}
	return text
}

// Decide returns the client of a request with this head, in text, that has come from the peer with this IP address, not valid if it
// has none. all and also are trusted.
func Decide(peer netip.Addr, remote net.Addr, all, also *Peers, head *h1.Head, text []byte) Client {
	trusted := func(addr netip.Addr) bool { return all.HasAddr(addr) || also.HasAddr(addr) }
	c := Client{Addr: peer, Decided: true}
	onUnix := !c.Addr.IsValid() && remote != nil && remote.Network() == "unix"
	c.Trusted = (c.Addr.IsValid() || onUnix) && trusted(c.Addr)
	if !c.Trusted {
		return c
	}
	for _, hop := range slices.Backward(hops(head, text)) {
		addr, known := hopAddr(hop)
		if !known {
			break
		}
		if addr.IsValid() {
			c.Addr = addr
		}
		if !trusted(addr) {
			break
		}
	}
	return c
}

// hops are the peers that proxies say that they forward for, the client first.
func hops(head *h1.Head, text []byte) (hops []string) {
	for _, one := range head.Fields {
		if h1.TokenIs(one.Name.Of(text), "x-forwarded-for") {
			for hop := range strings.SplitSeq(string(one.Value.Of(text)), ",") {
				hops = append(hops, strings.Trim(hop, " \t"))
			}
		}
	}
	if hops != nil {
		return hops
	}
	for _, one := range head.Fields {
		if h1.TokenIs(one.Name.Of(text), "forwarded") {
			for _, element := range splitQuoted(string(one.Value.Of(text)), ',') {
				hops = append(hops, forwardedFor(element))
			}
		}
	}
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
