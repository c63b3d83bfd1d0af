package main

import (
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/discovery"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// discover has p find the backends that a table names sources of. It returns nil if there are none.
func discover(c *config.Proxy, p *proxy.Config, take func(key, text string, into *time.Duration), wrong *mistakes) *discovery.Finder {
	var refresh time.Duration
	take("refresh", c.Refresh, &refresh)
	fixed, found, err := discovery.New(c.To, refresh, discovery.System(), p.Log)
	wrong.note("to", err)
	p.Backends = fixed
	if found != nil {
		p.Discover = found.Run
		if c.Weights != nil {
			wrong.note("weights", errors.New("they are of addresses that stand in the list, and some of its backends are found while knot runs"))
		}
	} else if c.Refresh != "" {
		wrong.note("refresh", errors.New("no backend is found while knot runs; want one like to = [\"dns+http://api.internal:8080\"]"))
	}
	if refresh < 0 {
		wrong.note("refresh", errors.New("want more than 0s"))
	}
	return found
}

// nameCertificates sets the name that certificates of backends have, whose addresses have none.
func nameCertificates(c *config.Proxy, p *proxy.Config, found *discovery.Finder, wrong *mistakes) {
	if found == nil || p.TLS != nil && p.TLS.ServerName != "" || !slices.ContainsFunc(c.To, func(to string) bool { return strings.Contains(to, "https://") }) {
		return
	}
	if p.TLS == nil {
		p.TLS = new(tls.Config)
	}
	if p.TLS.ServerName = found.ServerName(); p.TLS.ServerName == "" && !p.TLS.InsecureSkipVerify {
		wrong.note("to", errors.New("backends with https are found by address; say which name their certificates have, as server-name in [site.proxy.tls]"))
	}
}

// keep notes a proxy, and what finds its backends; nil: its backends are fixed.
func (b *built) keep(p *proxy.Proxy, found *discovery.Finder) {
	b.proxies = append(b.proxies, p)
	if found != nil {
		b.finders = append(b.finders, found)
	}
}

// startProxies starts the proxies, and waits a little for backends that are to be found. before may be nil.
func (b *built) startProxies(before *built) {
	for _, f := range b.finders {
		if before != nil {
			for _, old := range before.finders {
				f.Adopt(old)
			}
		}
	}
	for _, p := range b.proxies {
		p.Start()
	}
	for _, f := range b.finders {
		f.Wait()
	}
}
