package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/discovery"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/regular"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/compress"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

var forwardedNames = map[string]proxy.Forwarded{
	"": proxy.ForwardedX, "x-forwarded": proxy.ForwardedX, "forwarded": proxy.ForwardedRFC, "both": proxy.ForwardedBoth, "none": proxy.ForwardedNone,
}

// addProxies makes the routes of a site that lead to other servers.
func (b *built) addProxies(s *site.Site, given []config.Proxy, caches cache.Set, lines func(x *knot.Ctx) []knot.Header, log *slog.Logger, wrong *mistakes) {
	for i := range given {
		c, key := &given[i], fmt.Sprint("proxy.", i+1)
		match, err := site.NewPattern(cmp.Or(c.Match, "/**"))
		settings, finders, of := proxyConfig(c, log)
		of.add("match", err)
		except := make([]site.Pattern, len(c.Except))
		for e := range c.Except {
			except[e], err = site.NewPattern(c.Except[e])
			of.add("except", err)
		}
		settings.Header = lines
		wrong.within(key, of)
		p, err := proxy.New(settings)
		if err != nil {
			addFieldErrors(key, err, wrong)
			continue
		}
		b.keep(p, finders)
		handler := p.Handle
		if len(caches) > 0 {
			handler = caches.Before(handler, settings.Trust, toCanary(c.Canary))
		}
		handler = s.Intercept(handler, c.Intercept)
		if c.Compress != nil {
			options, faults := c.Compress.Options(size)
			if len(faults) > 0 {
				wrong.faults(key+".compress", faults)
				continue
			}
			handler = compress.Handler(handler, options)
		}
		s.Routes = append(s.Routes, site.Route{Match: match, Except: except, Handler: handler, Missing: c.Missing})
	}
}

// proxyConfig is what a table says, and all that is wrong with its values.
func proxyConfig(c *config.Proxy, log *slog.Logger) (p proxy.Config, finders []*discovery.Finder, wrong mistakes) {
	p = proxy.Config{
		HTTP2: c.HTTP2, Strip: c.Strip, Host: c.Host, Log: log,
		MaxConns: c.MaxConns, Queue: c.Queue, KeepConns: c.KeepConns, Tries: c.Tries, MaxFails: c.MaxFails,
	}
	take := func(key, text string, into *time.Duration) {
		if text == "" {
			return
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil || d < 0:
			wrong.add(key, fmt.Errorf("%q is not a time; want one like \"30s\", or \"0s\" for none", text))
		case d == 0:
			*into = -1
		default:
			*into = d
		}
	}
	take("connect-timeout", c.ConnectTimeout, &p.ConnectTimeout)
	take("response-timeout", c.ResponseTimeout, &p.ResponseTimeout)
	take("idle-timeout", c.IdleTimeout, &p.IdleTimeout)
	take("total-timeout", c.TotalTimeout, &p.TotalTimeout)
	take("tunnel-timeout", c.TunnelTimeout, &p.TunnelTimeout)
	take("queue-timeout", c.QueueTimeout, &p.QueueTimeout)
	take("keep-timeout", c.KeepTimeout, &p.KeepTimeout)
	take("fail-time", c.FailTime, &p.FailTime)
	balancing(&c.Balancing, &p, take, &wrong)
	finders = discover(c, &p, take, &wrong)
	var known bool
	if p.Forwarded, known = forwardedNames[c.Forwarded]; !known {
		wrong.add("forwarded", fmt.Errorf("%q is unknown; want x-forwarded, forwarded, both or none", c.Forwarded))
	}
	var err error
	p.Trust, err = knot.ParseTrust(c.Trust...)
	wrong.add("trust", err)
	if t := c.TLS; t != nil {
		p.TLS = &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
		if t.CA != "" {
			text, err := regular.Read(t.CA)
			p.TLS.RootCAs = x509.NewCertPool()
			if err == nil && !p.TLS.RootCAs.AppendCertsFromPEM(text) {
				err = fmt.Errorf("%s has no certificate in PEM form", t.CA)
			}
			wrong.add("tls.ca", err)
		}
		to, canary, mirror := groups(c)
		if !slices.ContainsFunc(slices.Concat(to, canary, mirror), func(to string) bool { return strings.Contains(to, "https://") || strings.HasPrefix(to, "file:") }) {
			wrong.add("tls", errors.New("no backend begins with https://"))
		}
	}
	nameCertificates(c, &p, &wrong)
	if k := c.Check; k != nil {
		p.Check = &proxy.Check{Path: k.Path, Host: k.Host, Fall: k.Fall, Rise: k.Rise}
		take("check.every", k.Every, &p.Check.Every)
		take("check.timeout", k.Timeout, &p.Check.Timeout)
		if p.Check.Every < 0 || p.Check.Timeout < 0 {
			wrong.add("check", errors.New("every and timeout must be above 0"))
		}
	}
	if f := c.FastCGI; f != nil {
		p.FastCGI = &proxy.FastCGI{Root: f.Root, Index: f.Index, Split: f.Split, Set: f.Set, AnyScript: f.AnyScript}
	}
	return p, finders, wrong
}

// connsHTTP2 is about how many connections to a backend its requests in HTTP/2 share.
const connsHTTP2 = 10

// outgoing is how many connections the proxies of all sites may have to their backends, see Server.Outgoing.
func outgoing(sites []config.Site) (sum int) {
	for i := range sites {
		for _, p := range sites[i].Proxies {
			to, canary, _ := groups(&p)
			each := cmp.Or(p.MaxConns, proxy.DefaultMaxConns)
			switch {
			case p.HTTP2:
				each = connsHTTP2
			case each < 0:
				return -1
			}
			sum += min(each, knot.DefaultMaxConns) * mostBackends(slices.Concat(to, canary))
			sum += mirrorConns(p.Mirror)
		}
		for _, a := range sites[i].ForwardAuths {
			sum += proxy.DefaultMaxConns * mostBackends(a.To)
		}
	}
	return sum
}

// mostBackends is how many backends a list, which may name sources of them, comes to at most.
func mostBackends(to []string) int {
	if slices.ContainsFunc(to, discovery.IsSource) {
		return proxy.MaxBackends
	}
	return len(to)
}

// over reports whether its backends have nothing under way any more.
func (b *built) over() bool {
	return b.retired.Load() && !slices.ContainsFunc(b.proxies, func(p *proxy.Proxy) bool {
		return slices.ContainsFunc(p.Stats(), func(s proxy.BackendStats) bool { return s.Outstanding > 0 })
	})
}

// proxyStats are those of the backends of all sites, with what is under way since before a reload.
func (r *running) proxyStats() (all []proxy.BackendStats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now.Load(); now != nil {
		for _, p := range now.proxies {
			all = append(all, p.Stats()...)
		}
	}
	r.before = slices.DeleteFunc(r.before, (*built).over)
	for _, b := range r.before {
		for _, p := range b.proxies {
			for _, s := range p.Stats() {
				if s.Outstanding > 0 {
					gets := slices.ContainsFunc(all, func(o proxy.BackendStats) bool { return o.Name == s.Name && o.Up })
					all = append(all, proxy.BackendStats{
						Name: s.Name, Failures: make(map[string]uint64), Outstanding: s.Outstanding, Tunnels: s.Tunnels, Up: gets,
					})
				}
			}
		}
	}
	return all
}
