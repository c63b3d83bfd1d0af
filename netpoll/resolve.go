//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/task"
)

// resolve turns an address of package net's form into socket addresses. Literal ones
// are parsed in place; names are looked up on an ordinary goroutine while the task
// waits, so that no loop stops. The look-up ends with ctx, at the deadline, if it is not
// zero, or with the context of the calling task. An empty host is the wildcard. There
// is at least one result if the error is nil.
func resolve(ctx context.Context, network, address string, deadline time.Time) ([]sockaddr, error) {
	if err := ctx.Err(); err != nil {
		return nil, ended(err)
	}
	if !deadline.IsZero() && time.Until(deadline) <= 0 {
		return nil, errDialTimeout
	}
	switch network {
	case "unix", "unixgram":
		return []sockaddr{unixSockaddr(address)}, nil
	case "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	if ap, err := netip.ParseAddrPort(address); err == nil && ap.Addr().Zone() == "" {
		return fitting(network, address, []sockaddr{ipSockaddr(ap)})
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if task.Current() != nil {
		// The look-up is not a wait of the task, which its context would end.
		bounded, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		own := task.Context()
		defer context.AfterFunc(own, func() { cancel(context.Cause(own)) })()
		ctx = bounded
	}
	if !deadline.IsZero() {
		bounded, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		ctx = bounded
	}
	var found []sockaddr
	task.Offload(func() { found, err = lookUp(ctx, network, host, service) })
	switch {
	case err == nil:
		return fitting(network, address, found)
	case ctx.Err() != nil:
		return nil, ended(ctx.Err())
	}
	return nil, err
}

// lookUp may block; it asks net.DefaultResolver.
func lookUp(ctx context.Context, network, host, service string) ([]sockaddr, error) {
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		ip := netip.IPv6Unspecified()
		if network[len(network)-1] == '4' || !haveIPv6() {
			ip = netip.IPv4Unspecified()
		}
		return []sockaddr{ipSockaddr(netip.AddrPortFrom(ip, uint16(port)))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	found := make([]sockaddr, 0, len(ips))
	for _, ip := range ips {
		found = append(found, ipSockaddr(netip.AddrPortFrom(ip.Unmap(), uint16(port))))
	}
	return found, nil
}

var errNoSuitableAddress = errors.New("no suitable address found")

// fitting keeps the addresses that the network can carry.
func fitting(network, address string, all []sockaddr) ([]sockaddr, error) {
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
		if sa.ip.Is4In6() && version == unix.AF_INET {
			sa.ip, sa.family = sa.ip.Unmap(), unix.AF_INET
		}
		if int(sa.family) == version {
			fit = append(fit, sa)
		}
	}
	if len(fit) == 0 {
		return nil, &net.AddrError{Err: errNoSuitableAddress.Error(), Addr: address}
	}
	return fit, nil
}
