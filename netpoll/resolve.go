//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// resolve turns an address of package net's form into socket addresses. Literal ones
// are parsed in place; names are looked up on an ordinary goroutine while the task
// waits, so that no loop stops. The look-up ends with ctx, at the deadline, if it is not
// zero, or with the context of the calling task. An empty host is no address at all, which
// is the wildcard to listen on and this machine to connect to. There is at least one
// result if the error is nil.
func resolve(ctx context.Context, network, address string, deadline time.Time) ([]sockaddr, error) {
	switch {
	case !isNetwork(network):
		return nil, net.UnknownNetworkError(network)
	case strings.HasPrefix(network, "unix"):
		return []sockaddr{unixSockaddr(address)}, nil
	case address == "": // to listen on
		address = ":0"
	}
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Zone() == "" {
		// An IPv4 address in IPv6 notation is one, also if it is the wildcard.
		ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		return fitting(network, address, []sockaddr{ipSockaddr(ap)})
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if !deadline.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		ctx = bounded
	}
	var found []sockaddr
	err = engine.OffloadContext(ctx, func(ctx context.Context) (err error) {
		found, err = lookUp(ctx, network, host, service)
		return err
	})
	switch cancelled := engine.Err(); {
	case err == nil:
		return fitting(network, address, found)
	case cancelled != nil:
		return nil, lookUpEnded(host, cancelled)
	case ctx.Err() != nil:
		return nil, lookUpEnded(host, ctx.Err())
	}
	return nil, err
}

// lookUpEnded is what package net makes of a look-up that a context ended with err.
func lookUpEnded(host string, err error) error {
	err = ended(err)
	timeout := err == errDialTimeout
	return &net.DNSError{UnwrapErr: err, Err: err.Error(), Name: host, IsTimeout: timeout, IsTemporary: timeout}
}

// isNetwork reports whether the network is one of those that package netpoll has.
func isNetwork(network string) bool {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix", "udp", "udp4", "udp6", "unixgram":
		return true
	}
	return false
}

// lookUp may block; it asks net.DefaultResolver.
func lookUp(ctx context.Context, network, host, service string) ([]sockaddr, error) {
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		// As in package net: to connect to it is to connect to 127.0.0.1.
		sa := sockaddr{port: uint16(port), family: unix.AF_INET}
		if network[len(network)-1] == '6' {
			sa.family = unix.AF_INET6
		}
		return []sockaddr{sa}, nil
	}
	var found []sockaddr
	add := func(ip netip.Addr) { found = append(found, ipSockaddr(netip.AddrPortFrom(ip, uint16(port)))) }
	if network[len(network)-1] == '4' { // no server is asked for IPv6 addresses
		ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
		for _, ip := range ips {
			add(ip.Unmap())
		}
		return found, err
	}
	ips, err := net.DefaultResolver.LookupIPAddr(ctx, host) // LookupNetIP loses zones
	for _, a := range ips {
		ip, _ := netip.AddrFromSlice(a.IP)
		add(ip.Unmap().WithZone(a.Zone))
	}
	return found, err
}

var (
	errNoSuitableAddress = errors.New("no suitable address found")
	errMissingAddress    = errors.New("missing address")
)

// fitting keeps the addresses that the network can carry. As in package net the IPv6
// wildcard stands for that of IPv4 too.
func fitting(network, address string, all []sockaddr) ([]sockaddr, error) {
	if len(all) == 1 && all[0].ip == netip.IPv6Unspecified() {
		all = append(all, sockaddr{ip: netip.IPv4Unspecified(), port: all[0].port, family: unix.AF_INET})
	}
	var version int
	switch network[len(network)-1] {
	case '4':
		version = unix.AF_INET
	case '6':
		version = unix.AF_INET6
	default:
		return all, nil
	}
	var fit []sockaddr
	for _, sa := range all {
		if int(sa.family) == version {
			fit = append(fit, sa)
		}
	}
	if len(fit) == 0 {
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		return nil, &net.AddrError{Err: errNoSuitableAddress.Error(), Addr: address}
	}
	return fit, nil
}
