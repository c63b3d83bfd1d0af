package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	redirectFlag = "-redirect-http"
	nowhere      = "none" // of that flag
)

// placePoints makes the points of the tables [[listen]], or of -addr, and those of -redirect-http.
func (set *settings) placePoints() (errs []error) {
	if n := len(set.listens); n > addresses.Most {
		errs = append(errs, fmt.Errorf("%s: there are %d tables [[listen]]; want at most %d", set.config, n, addresses.Most))
		set.listens = set.listens[:addresses.Most]
	}
	for i := range set.listens {
		p, wrong := set.pointOf(i)
		for _, m := range wrong {
			errs = append(errs, set.ofTable("listen", i, m))
		}
		set.points = append(set.points, p)
	}
	if len(set.points) == 0 {
		set.points = []*addresses.Point{{Addr: set.server.Addr, Key: "-addr", TLS: set.tls.isOn(), TakesAll: true}}
		set.points[0].HTTP3 = set.http3
	}
	return slices.Concat(errs, set.checkHTTP3(), set.checkNames(), set.placeRedirects(), set.checkAdmin())
}

// pointOf is the point of the table with that index, and what is wrong with it.
func (set *settings) pointOf(i int) (p *addresses.Point, wrong mistakes) {
	l := &set.listens[i]
	p = &addresses.Point{Addr: l.Addr, Key: fmt.Sprintf("listen.%d.addr", i+1), Sites: l.Sites, TLS: set.tls.isOn()}
	if l.TLS != nil {
		p.TLS = *l.TLS
	}
	if p.TLS && !set.tls.isOn() {
		wrong.add("tls", errors.New("there is no certificate; want tls-cert and tls-key, or acme, at the top of the file"))
	}
	if l.Addr == "" {
		wrong.add("addr", errors.New(`say where to listen, as ":443", "unix:/path" or "systemd:NAME"`))
	} else if err := addresses.Check(l.Addr); err != nil {
		wrong.add("addr", errors.New(explain(&addressError{l.Addr, p.Key, err}, set)))
	}
	for _, before := range set.points {
		wrong.add("addr", beside(before, p.Addr))
	}
	p.Proxies = l.ProxyProtocol
	if _, err := knot.ParseTrust(l.ProxyProtocol...); err != nil {
		wrong.add("proxy-protocol", err)
	} else if l.ProxyProtocol != nil && len(l.ProxyProtocol) == 0 {
		wrong.add("proxy-protocol", errors.New(`say which proxies send it, as ["10.0.0.0/8"]; their word counts for who the client is`))
	}
	p.HTTP3 = set.http3 && lacksForHTTP3(p) == nil
	if l.HTTP3 != nil {
		if p.HTTP3 = *l.HTTP3; p.HTTP3 {
			wrong.add("http3", lacksForHTTP3(p))
		}
	}
	if l.Sites != nil && len(l.Sites) == 0 {
		wrong.add("sites", errors.New("the list is empty; without it all sites are served"))
	}
	for _, name := range l.Sites {
		var known []string
		for i := range set.sites {
			known = append(known, namesOf(&set.sites[i])...)
		}
		if slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("no [[site]] has the name %q, nor such a host", name)
		if near := flaghelp.Nearest(name, known); near != "" {
			text += fmt.Sprintf("; did you mean %s?", near)
		}
		wrong.add("sites", errors.New(text))
	}
	return p, wrong
}

// beside is an error if addr can't be listened on beside p.
func beside(p *addresses.Point, addr string) error {
	switch {
	case addresses.Same(p.Addr, addr):
		return fmt.Errorf("%s is listened on already: %s = %q", addr, p.Key, p.Addr)
	case addresses.Overlap(p.Addr, addr):
		return fmt.Errorf("%s can't be listened on beside %s = %q: one of them is every address of this machine; leave the other out, or name a host in each", addr, p.Key, p.Addr)
	}
	return nil
}

// namesOf are what a site may be called by in a table [[listen]].
func namesOf(c *config.Site) (names []string) {
	if c.Name != "" {
		names = append(names, c.Name)
	}
	return append(names, c.Hosts...)
}

// placeRedirects makes the points of -redirect-http, or the default ones.
func (set *settings) placeRedirects() (errs []error) {
	secure := slices.ContainsFunc(set.points, func(p *addresses.Point) bool { return p.TLS })
	given := set.redirectHTTP
	if len(given) == 1 && given[0] == nowhere {
		return nil
	}
	if len(given) > 0 && !secure {
		return []error{fmt.Errorf("%s: there is no HTTPS to send clients to; want -tls-cert and -tls-key, or -acme", redirectFlag)}
	}
	byDefault := len(given) == 0 && set.tls.acme.IsOn()
	for _, p := range set.points {
		if byDefault && p.TLS && addresses.Port(p.Addr) == 443 {
			given = append(given, addresses.WithPort(p.Addr, 80))
		}
	}
	for _, addr := range given {
		err := addresses.Check(addr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", redirectFlag, explain(&addressError{addr, redirectFlag, err}, set)))
			continue
		}
		taken := false
		for _, p := range set.points {
			if err := beside(p, addr); err != nil && !byDefault {
				errs = append(errs, fmt.Errorf("%s: %w", redirectFlag, err))
				taken = true
			}
			taken = taken || addresses.Same(p.Addr, addr)
		}
		if !taken {
			set.points = append(set.points, &addresses.Point{Addr: addr, Key: redirectFlag, Redirects: true, Optional: byDefault})
		}
	}
	return errs
}

// checkAdmin reports an admin address that can't be listened on beside the points.
func (set *settings) checkAdmin() (errs []error) {
	if set.admin == "" {
		return nil
	}
	for _, p := range set.points {
		isReplaceable := p.TakesAll && p.Addr == knot.DefaultAddr // by a socket of systemd's
		if err := beside(p, fullAdmin(set.admin)); err != nil && !p.Optional && !isReplaceable {
			errs = append(errs, fmt.Errorf("%s: %w", adminFlag, err))
		}
	}
	return errs
}

// checkNames reports names of sites that two have.
func (set *settings) checkNames() (errs []error) {
	at := make(map[string]int)
	for i := range set.sites {
		name := set.sites[i].Name
		if before, twice := at[name]; name != "" && twice {
			m := mistake{"name", fmt.Errorf("name: site %d is called %q too", before+1, name)}
			errs = append(errs, set.ofSite(i, m))
		}
		at[name] = i
	}
	return errs
}

// serves reports whether a site is served on p.
func serves(p *addresses.Point, c *config.Site) bool {
	return !p.Redirects && (p.Sites == nil || slices.ContainsFunc(namesOf(c), func(name string) bool { return slices.Contains(p.Sites, name) }))
}

// addTo adds a site to the hosts of each point that serves it.
func (set *settings) addTo(hosts map[string]*site.Hosts, s *site.Site, c *config.Site, names []string) (first error) {
	on := 0
	for _, p := range set.points {
		if !serves(p, c) {
			continue
		}
		on++
		if err := hosts[p.Addr].Add(s, names...); err != nil && first == nil {
			first = err
		}
	}
	if on == 0 && len(set.listens) > 0 {
		return errors.New("no [[listen]] serves this site; want its name or one of its hosts in sites of one")
	}
	return first
}

// systemdSockets is the end of a message that names the sockets which systemd has to pass; "" if there are none.
func (set *settings) systemdSockets() string {
	var names []string
	for _, p := range set.points {
		if name, ok := strings.CutPrefix(p.Addr, "systemd:"); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; systemd has to pass sockets named " + strings.Join(names, ", ")
}

// assign gives inherited sockets to the addresses that knot listens on, and closes the sockets that no address wants. Files of Unix
// sockets that a process has left behind are removed.
func (set *settings) assign(sockets []addresses.Socket, log *slog.Logger) error {
	unused, err := addresses.Assign(set.points, sockets)
	for _, s := range unused {
		log.Warn("knot: an inherited socket is not in the configuration, and is closed", "name", s.Name, "addr", s.Addr)
		unix.Close(s.FD)
	}
	if err != nil {
		return err
	}
	for _, p := range set.points {
		if err := p.RemoveStale(); err != nil && !p.Optional {
			return &addressError{p.Addr, p.Key, err}
		}
	}
	return nil
}

// reportOptional says that an address that is there by default can't be listened on.
func reportOptional(p *addresses.Point, err error, log *slog.Logger) {
	log.Warn("knot: clients that speak HTTP are not sent to HTTPS; -redirect-http none says that they need not be", "addr", p.Addr, "error", err)
}
