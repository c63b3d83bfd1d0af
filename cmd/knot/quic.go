package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/http3"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// Where HTTP/3 is served, and what tells clients of it.

func (set *settings) http3Flags(flags *flag.FlagSet) {
	flags.BoolVar(&set.http3, "http3", false, "serve HTTP/3 too, on the UDP ports with the same numbers as those of HTTPS (experimental); see docs/knot-http3.md")
	flags.IntVar(&set.http3Conns, "http3-conns", http3.DefaultMaxConns, "`number` of connections of HTTP/3 at a time on an address; further ones are refused, and their clients take HTTP/2")
}

// lacksForHTTP3 is why HTTP/3 can't be served at p.
func lacksForHTTP3(p *addresses.Point) error {
	switch {
	case !p.TLS:
		return errors.New("HTTP/3 needs TLS; want tls = true, and a certificate at the top of the file")
	case strings.HasPrefix(p.Addr, "unix:"):
		return errors.New("a Unix socket has no port of UDP; want a host:port")
	case len(p.Proxies) > 0:
		return errors.New("clients come through proxies of proxy-protocol, which pass on TCP alone; want one of the two")
	}
	return nil
}

// checkHTTP3 reports -http3 where it has no effect.
func (set *settings) checkHTTP3() (errs []error) {
	if set.http3Conns < 1 {
		errs = append(errs, fmt.Errorf("-http3-conns %d; want at least 1", set.http3Conns))
	}
	if !set.http3 || len(set.points) == 0 {
		return errs
	}
	lacks := lacksForHTTP3(set.points[0])
	if !set.tls.isOn() {
		lacks = errors.New("HTTP/3 needs TLS; want -tls-cert and -tls-key, or -acme")
	}
	if lacks != nil && !slices.ContainsFunc(set.points, func(p *addresses.Point) bool { return lacksForHTTP3(p) == nil }) {
		errs = append(errs, fmt.Errorf("-http3: %w", lacks))
	}
	return errs
}

// openQUIC serves HTTP/3 at p, which listens already, with the limits of set; nil if it is not to. What beside serves tells its clients
// so.
func (l *listening) openQUIC(set *settings, p *addresses.Point, beside []*knot.Endpoint) (*knot.Endpoint, error) {
	if !p.HTTP3 {
		return nil, nil
	}
	socket, err := p.ListenQUIC()
	if err != nil {
		return nil, err
	}
	s, e := set.server, beside[0]
	over := http3.Listen(socket, http3.Config{
		TLS: e.TLS, MaxHead: s.MaxHead, IdleTimeout: max(s.IdleTimeout, 0), HeadTimeout: max(s.HeadTimeout, 0), MaxConns: set.http3Conns, Log: l.log, After: l.predecessor,
	})
	p.ServeQUIC(socket, over.Drain)
	handle := e.Handler
	// A day is how long a client may go on trying when HTTP/3 is not served any more.
	line := fmt.Sprintf(`h3=":%d"; ma=86400`, socket.LocalAddr().(*net.UDPAddr).Port)
	for _, e := range beside {
		e.Handler = func(x *knot.Ctx) error {
			ownctx.Of(x).(interface{ KeepHeader(name, value string) }).KeepHeader("Alt-Svc", line)
			return handle(x)
		}
	}
	return &knot.Endpoint{Listener: over, Handler: handle, ErrorPage: e.ErrorPage}, nil
}

// predecessorEnd is closed when the process that this one follows has ended; nil: there is none. That process reads the UDP
// sockets until then: the kernel gives each packet to any of the processes that read.
func predecessorEnd(in *inheritance) <-chan struct{} {
	if in.answer == nil {
		return nil
	}
	pid, err := unix.PidfdOpen(os.Getppid(), 0)
	if err != nil {
		return nil
	}
	// If the other end of the pipe is closed, the predecessor was killed, and the parent may be another process.
	if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(descriptor(in.answer))}}, 0); n > 0 {
		unix.Close(pid)
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer unix.Close(pid)
		for {
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(pid), Events: unix.POLLIN}}, -1); err != unix.EINTR {
				return
			}
		}
	}()
	return ended
}
