package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/discovery"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// canaryMost is how many backends are taken for a canary, where those of the proxy are found too: together they are proxy.MaxBackends
// at most.
const canaryMost = 16

// groups are the lists of backends of a table; nil: there is no such group.
func groups(c *config.Proxy) (to, canary, mirror []string) {
	if c.Canary != nil {
		canary = c.Canary.To
	}
	if c.Mirror != nil {
		mirror = c.Mirror.To
	}
	return c.To, canary, mirror
}

// room is how many backends a group may have beside the group other, which has found backends at most if it is discovered.
func room(other []string, found int) int {
	if slices.ContainsFunc(other, discovery.IsSource) {
		return proxy.MaxBackends - found
	}
	return proxy.MaxBackends - len(other)
}

// discover has p find the backends that a table names sources of, in each of its groups.
func discover(c *config.Proxy, p *proxy.Config, take func(key, text string, into *time.Duration), wrong *mistakes) (finders []*discovery.Finder) {
	var refresh time.Duration
	take("refresh", c.Refresh, &refresh)
	find := func(key string, to []string, weights []int, most int) (fixed []string, run func(context.Context, func([]string, []int) error)) {
		fixed, found, err := discovery.New(to, most, refresh, discovery.System(), p.Log)
		wrong.add(key+"to", err)
		if found == nil {
			return fixed, nil
		}
		for _, one := range to {
			wrong.add(key+"to", speaks(one, c.FastCGI != nil))
		}
		if weights != nil {
			wrong.add(key+"weights", errors.New("they are of addresses that stand in the list, and some of its backends are found while knot runs"))
		}
		finders = append(finders, found)
		if c.FastCGI == nil {
			return fixed, found.Run
		}
		return fixed, func(ctx context.Context, set func([]string, []int) error) {
			found.Run(ctx, func(backends []string, weights []int) error {
				for i, b := range backends {
					backends[i] = strings.TrimPrefix(b, "http://") // which targets of a file have without a word about it
				}
				return set(backends, weights)
			})
		}
	}
	to, canary, mirror := groups(c)
	p.Backends, p.Discover = find("", to, c.Weights, room(canary, canaryMost))
	if p.Canary != nil {
		p.Canary.Backends, p.Canary.Discover = find("canary.", canary, c.Canary.Weights, room(to, proxy.MaxBackends-canaryMost))
	}
	if p.Mirror != nil {
		p.Mirror.Backends, p.Mirror.Discover = find("mirror.", mirror, nil, proxy.MaxBackends)
	}
	if c.Refresh != "" && len(finders) == 0 {
		wrong.add("refresh", errors.New("no backend is found while knot runs; want one like to = [\"dns+http://api.internal:8080\"]"))
	}
	if refresh < 0 {
		wrong.add("refresh", errors.New("want more than 0s"))
	}
	return finders
}

// speaks is an error if a source finds backends whose protocol is another than that of the proxy. In a file each target has its own.
func speaks(to string, fastCGI bool) error {
	switch named := strings.Contains(to, "://"); {
	case !discovery.IsSource(to) || strings.HasPrefix(to, "file:"):
	case named && fastCGI:
		return fmt.Errorf("%q: want it without http:// or https:// for FastCGI, like dns+php:9000", to)
	case !named && !fastCGI:
		return fmt.Errorf("%q: want http:// or https:// behind the plus, like dns+http://api.internal:8080", to)
	}
	return nil
}

// nameCertificates sets the name that certificates of backends have, whose addresses have none. It is one for all groups.
func nameCertificates(c *config.Proxy, p *proxy.Config, wrong *mistakes) {
	var secure []string // groups with https
	to, canary, mirror := groups(c)
	for _, group := range [][]string{to, canary, mirror} {
		if slices.ContainsFunc(group, func(to string) bool { return strings.Contains(to, "https://") }) {
			secure = append(secure, group...)
		}
	}
	_, found, err := discovery.New(secure, proxy.MaxBackends, 0, discovery.System(), p.Log)
	if err != nil || found == nil || p.TLS != nil && p.TLS.ServerName != "" {
		return
	}
	if p.TLS == nil {
		p.TLS = new(tls.Config)
	}
	if p.TLS.ServerName = found.ServerName(); p.TLS.ServerName == "" && !p.TLS.InsecureSkipVerify {
		wrong.add("to", errors.New("backends with https are found by address; say which name their certificates have, as server-name in [site.proxy.tls]"))
	}
}

// keep notes a proxy, and what finds its backends.
func (b *built) keep(p *proxy.Proxy, finders []*discovery.Finder) {
	b.proxies = append(b.proxies, p)
	b.finders = append(b.finders, finders...)
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
	var all sync.WaitGroup // together, they wait no longer than one of them
	for _, f := range b.finders {
		all.Go(f.Wait)
	}
	all.Wait()
}
