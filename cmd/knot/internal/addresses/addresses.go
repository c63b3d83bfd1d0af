// Package addresses is where command knot listens: the tables [[listen]] of its configuration, which of the sockets that
// systemd or a predecessor has handed over belong to which of them, and opening the rest.
package addresses

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/netpoll"
)

// Most is how many addresses a server may have.
const Most = 256

const (
	ofUnix    = "unix:"    // begins an address that is the path of a Unix socket
	ofSystemd = "systemd:" // begins an address that is the name of sockets of systemd's
)

// A Listen is a table [[listen]].
type Listen struct {
	Addr  string   `toml:"addr"`
	TLS   *bool    `toml:"tls"`
	Sites []string `toml:"sites"`
	// HTTP3 has HTTP/3 served too, on the port of UDP that has the same number. nil: as -http3 says.
	HTTP3 *bool `toml:"http3"`
	// ProxyProtocol are the addresses and networks of proxies whose connections begin with a header of the PROXY protocol,
	// and "unix:" for every peer on a Unix socket. nil: none.
	ProxyProtocol []string `toml:"proxy-protocol"`
}

// A Point is an address that is listened on, and how its connections are served.
type Point struct {
	Addr      string   // host:port, unix:/path or systemd:NAME; a successor finds its sockets by it
	Key       string   // where it is configured, as listen.2.addr or -addr
	TLS       bool     // they speak TLS
	Sites     []string // names and hosts of the sites that are served; nil: all
	Redirects bool     // no site is served, clients are sent to HTTPS
	Optional  bool     // it is there by default, and need not be possible
	TakesAll  bool     // it has the sockets that belong to no other Point
	Proxies   []string // Listen.ProxyProtocol
	HTTP3     bool     // HTTP/3 is served too

	sockets  []Socket
	datagram *Socket // of UDP; nil: none was handed over, or it is in use
	opened   []*netpoll.Listener
	copied   bool  // another Point has the same sockets, or the predecessor, and serves; Own ends that
	quic     *QUIC // nil: none is served
}

// A Socket listens already.
type Socket struct {
	FD     int
	Shared bool   // systemd goes on listening on it
	Name   string // that systemd has given it; "": it is not from there
	Addr   string // Point.Addr of the predecessor's; "": it has not said
}

// Check reports what is wrong with the form of an address. Names of hosts are not looked up.
func Check(addr string) error {
	if path, ok := strings.CutPrefix(addr, ofUnix); ok {
		if path == "" {
			return errors.New("unix: names no socket; want unix:/path")
		}
		return nil
	}
	if name, ok := strings.CutPrefix(addr, ofSystemd); ok {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ':' || r >= 0x7f }) {
			return fmt.Errorf("%q is not the name of a socket of systemd; want systemd:NAME, as FileDescriptorName= says or the socket unit is called", name)
		}
		return nil
	}
	return CheckTCP(addr)
}

// CheckTCP is Check for host:port alone.
func CheckTCP(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil && port != "" {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// Port is that of host:port; 0: it has none, or a free one is taken.
func Port(addr string) int {
	if strings.HasPrefix(addr, ofUnix) || strings.HasPrefix(addr, ofSystemd) {
		return 0
	}
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	port, _ := net.LookupPort("tcp", text)
	return port
}

// Same reports whether two addresses can't both be listened on, as far as can be told without looking up names.
func Same(a, b string) bool {
	if Port(a) == 0 || Port(b) == 0 {
		_, port, _ := net.SplitHostPort(a)
		return a == b && (Port(a) != 0 || port != "0")
	}
	hostA, _, _ := net.SplitHostPort(a)
	hostB, _, _ := net.SplitHostPort(b)
	return Port(a) == Port(b) && (hostA == hostB || anyHost(hostA) && anyHost(hostB))
}

// Overlap reports whether one of two addresses with the same port is every address of this machine. Then the system opens one of
// them, although a reload may go from one to the other.
func Overlap(a, b string) bool {
	hostA, _, _ := net.SplitHostPort(a)
	hostB, _, _ := net.SplitHostPort(b)
	return Port(a) != 0 && Port(a) == Port(b) && (anyHost(hostA) || anyHost(hostB))
}

func anyHost(host string) bool { return host == "" || host == "0.0.0.0" || host == "::" }

// WithPort is the address with the same host and another port.
func WithPort(addr string, port int) string {
	host, _, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// Assign gives the sockets to the points that they belong to: by the address that a predecessor has said, by the name that
// systemd has given, by the address that they are bound to, and the rest to the Point that takes all. It returns those
// that no Point has.
func Assign(points []*Point, sockets []Socket) (unused []Socket, err error) {
	var names []string
	for _, s := range sockets {
		if s.Name != "" && !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		switch p := ownerOf(points, s); {
		case p == nil, isDatagram(s.FD) && (!p.HTTP3 || p.datagram != nil):
			unused = append(unused, s)
		case isDatagram(s.FD):
			p.datagram = &s
		default:
			p.sockets = append(p.sockets, s)
			p.copied = s.Name == "" // it is the predecessor's
		}
	}
	passed := "it has passed none: knot must be started by a socket unit"
	if len(names) > 0 {
		passed = fmt.Sprintf("it has passed %s", strings.Join(names, ", "))
	}
	var errs []error
	for _, p := range points {
		errs = append(errs, p.lacks(passed))
	}
	return unused, errors.Join(errs...)
}

// lacks is an error if p has none of the sockets that systemd should have passed. passed says what it has.
func (p *Point) lacks(passed string) error {
	if name, ok := strings.CutPrefix(p.Addr, ofSystemd); ok && len(p.sockets) == 0 {
		return fmt.Errorf("%s: there is no socket named %q from systemd; %s", p.Key, name, passed)
	}
	return nil
}

// NeedsSystemd is an error if p can't be opened because systemd passes sockets at a start alone.
func (p *Point) NeedsSystemd() error { return p.lacks("it passes sockets when knot is started") }

func ownerOf(points []*Point, s Socket) *Point {
	for _, p := range points {
		if s.Addr != "" && s.Addr == p.Addr || s.Name != "" && p.Addr == ofSystemd+s.Name {
			return p
		}
	}
	if s.Addr != "" {
		return nil
	}
	for _, p := range points {
		if p.bindsTo(s.FD) {
			return p
		}
	}
	for _, p := range points {
		if p.TakesAll && !strings.HasPrefix(p.Addr, ofSystemd) {
			return p
		}
	}
	return nil
}

// bindsTo reports whether the socket is bound to the address of p.
func (p *Point) bindsTo(fd int) bool {
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	port, ip := 0, netip.Addr{}
	switch bound := bound.(type) {
	case *unix.SockaddrUnix:
		return p.Addr == ofUnix+bound.Name
	case *unix.SockaddrInet4:
		port, ip = bound.Port, netip.AddrFrom4(bound.Addr)
	case *unix.SockaddrInet6:
		port, ip = bound.Port, netip.AddrFrom16(bound.Addr).Unmap()
	}
	if port == 0 || port != Port(p.Addr) {
		return false
	}
	host, _, _ := net.SplitHostPort(p.Addr)
	if anyHost(host) {
		return ip.IsUnspecified()
	}
	want, err := netip.ParseAddr(host)
	return err == nil && want.Unmap() == ip || host == "localhost" && ip.IsLoopback()
}

// Listen makes listeners of the sockets, or opens one. After an error none of the sockets is open. It must be called in a task.
func (p *Point) Listen(log *slog.Logger) ([]*netpoll.Listener, error) {
	if len(p.sockets) == 0 {
		network, addr := networkOf(p.Addr)
		ln, err := netpoll.ListenConfig{Log: log}.Listen(context.Background(), network, addr)
		if err != nil {
			return nil, err
		}
		p.opened = []*netpoll.Listener{ln}
		return p.opened, nil
	}
	for _, s := range p.sockets {
		ln, err := netpoll.ListenOn(s.FD, s.Shared)
		if err != nil {
			for _, rest := range p.sockets[len(p.opened):] {
				unix.Close(rest.FD)
			}
			p.sockets = nil
			p.Close()
			return nil, fmt.Errorf("a socket that was handed over: %w", err)
		}
		p.opened = append(p.opened, ln)
	}
	if !p.copied {
		p.Own()
	}
	return p.opened, nil
}

// Own has the files of Unix sockets removed in the end, except those of systemd's. It is for when everything is listened on:
// until then the files are those of whoever had the sockets before.
func (p *Point) Own() {
	p.copied = false
	for i, s := range p.sockets {
		ln := p.opened[i]
		ln.SetUnlinkOnClose(!s.Shared && p.Addr == ofUnix+ln.Addr().String())
	}
}

// Close closes what Listen has returned.
func (p *Point) Close() {
	for _, ln := range p.opened {
		ln.Close()
	}
	p.opened = nil
	p.endQUIC()
}

// Listening are the addresses that are listened on.
func (p *Point) Listening() (all []net.Addr) {
	for _, ln := range p.opened {
		all = append(all, ln.Addr())
	}
	return all
}

// Files are duplicates of the sockets, as a successor gets them in Assign, by place. The caller closes them.
func (p *Point) Files() (files []*os.File, sockets []Socket, err error) {
	for i, ln := range p.opened {
		some, err := ln.Files()
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, nil, err
		}
		shared := i < len(p.sockets) && p.sockets[i].Shared
		for _, f := range some {
			files = append(files, f)
			sockets = append(sockets, Socket{Shared: shared, Addr: p.Addr})
		}
	}
	return files, sockets, nil
}

// AllFiles is Files with the socket of UDP, if there is one.
func (p *Point) AllFiles() (files []*os.File, sockets []Socket, err error) {
	files, sockets, err = p.Files()
	if err != nil || p.quic == nil {
		return files, sockets, err
	}
	f, err := p.quic.socket.File()
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		return nil, nil, err
	}
	return append(files, f), append(sockets, Socket{Addr: p.Addr}), nil
}

func networkOf(addr string) (network, rest string) {
	if path, ok := strings.CutPrefix(addr, ofUnix); ok {
		return "unix", path
	}
	return "tcp", addr
}
