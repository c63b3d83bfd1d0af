//go:build linux

package sockaddr

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

// Resolve turns an address of package net's form into socket addresses. Literal ones
// are parsed in place; names are looked up on an ordinary goroutine while the task
// waits, so that no loop stops. The look-up ends with ctx, at the deadline, if it is not
// zero, or with the context of the calling task. An empty host is no address at all, which
// is the wildcard to listen on and this machine to connect to. There is at least one
// result if the error is nil.
func Resolve(ctx context.Context, network, address string, deadline time.Time) ([]Addr, error) {
	switch {
	case !IsNetwork(network):
		return nil, net.UnknownNetworkError(network)
	case strings.HasPrefix(network, "unix"):
		return []Addr{FromPath(address)}, nil
	case address == "": // to listen on
		address = ":0"
	}
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Zone() == "" {
		// An IPv4 address in IPv6 notation is one, also if it is the wildcard.
		ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		return fitting(network, address, []Addr{FromAddrPort(ap)})
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
	var found []Addr
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

// lookUpEnded is what package net makes of a look-up that a context Ended with err.
func lookUpEnded(host string, err error) error {
	err = Ended(err)
	timeout := err == ErrTimeout
	return &net.DNSError{UnwrapErr: err, Err: err.Error(), Name: host, IsTimeout: timeout, IsTemporary: timeout}
}

// IsNetwork reports whether package sockaddr knows the network.
func IsNetwork(network string) bool {
	switch network {
	case "tcp", "tcp4", "tcp6", "unix", "udp", "udp4", "udp6", "unixgram":
		return true
	}
	return false
}

// lookUp may block; it asks net.DefaultResolver.
func lookUp(ctx context.Context, network, host, service string) ([]Addr, error) {
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		// As in package net: to connect to it is to connect to 127.0.0.1.
		sa := Addr{Port: uint16(port), Family: unix.AF_INET}
		if network[len(network)-1] == '6' {
			sa.Family = unix.AF_INET6
		}
		return []Addr{sa}, nil
	}
	var found []Addr
	add := func(ip netip.Addr) { found = append(found, FromAddrPort(netip.AddrPortFrom(ip, uint16(port)))) }
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

// ErrNoSuitable means that none of the addresses can be used.
var ErrNoSuitable = errors.New("no suitable address found")

// fitting keeps the addresses that the network can carry. As in package net the IPv6
// wildcard stands for that of IPv4 too.
func fitting(network, address string, all []Addr) ([]Addr, error) {
	if len(all) == 1 && all[0].IP == netip.IPv6Unspecified() {
		all = append(all, Addr{IP: netip.IPv4Unspecified(), Port: all[0].Port, Family: unix.AF_INET})
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
	var fit []Addr
	for _, sa := range all {
		if int(sa.Family) == version {
			fit = append(fit, sa)
		}
	}
	if len(fit) == 0 {
		if host, _, err := net.SplitHostPort(address); err == nil {
			address = host
		}
		return nil, &net.AddrError{Err: ErrNoSuitable.Error(), Addr: address}
	}
	return fit, nil
}
