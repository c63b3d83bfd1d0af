package main

import (
	"cmp"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// balancing sets in p what a table says of the choice among backends. proxy.New checks it, but for texts that take reads.
func balancing(c *config.Balancing, p *proxy.Config, take func(key, text string, into *time.Duration), wrong *mistakes) {
	p.Weights, p.Balance, p.Bound, p.RetryShare, p.Hedge = c.Weights, c.Balance, c.Bound, c.RetryShare, c.Hedge
	p.PanicThreshold, p.Zone, p.Zones = c.PanicThreshold, c.Zone, c.Zones
	take("slow-start", c.SlowStart, &p.SlowStart)
	if s := c.Sticky; s != nil {
		p.Sticky = &proxy.Sticky{Cookie: s.Cookie, Secret: s.Secret}
	}
	if k := c.Canary; k != nil {
		p.Canary = &proxy.Canary{Backends: k.To, Weights: k.Weights, Share: k.Share, Header: k.Header, Cookie: k.Cookie}
	}
	if m := c.Mirror; m != nil {
		p.Mirror = &proxy.Mirror{Backends: m.To, Share: m.Share, MaxInFlight: m.InFlight}
		n, err := size(m.MaxBody)
		wrong.add("mirror.max-body", err)
		if p.Mirror.MaxBody = int(n); n == 0 && m.MaxBody != "" {
			p.Mirror.MaxBody = -1
		}
	}
}

// toCanary returns a function that reports whether a request has the header line or the cookie that sends it to the canary k. If k
// is nil it reports false. It ignores quotes around the value of a cookie, which the proxy compares: at worst a request
// bypasses the cache needlessly.
func toCanary(k *config.Canary) func(x *knot.Ctx) bool {
	if k == nil {
		return func(*knot.Ctx) bool { return false }
	}
	header, line, _ := strings.Cut(k.Header, ":")
	cookie, value, _ := strings.Cut(k.Cookie, "=")
	line, value = strings.Trim(line, " \t"), strings.Trim(value, `"`)
	has := func(values iter.Seq[[]byte], want string) bool {
		for v := range values {
			if want == "" || string(v) == want {
				return true
			}
		}
		return false
	}
	return func(x *knot.Ctx) bool {
		return header != "" && has(site.HeaderValues(x, header), line) || cookie != "" && has(site.CookieValues(x, cookie), value)
	}
}

// fieldKeys are the keys of fields whose names are not those of the keys.
var fieldKeys = strings.NewReplacer("MaxInFlight", "in-flight", "Backends", "to", "SlowStart", "slow-start", "RetryShare", "retry-share", "PanicThreshold", "panic-threshold")

// addFieldErrors adds the errors of proxy.New about the table at key. An error about a field gets the key of that field.
func addFieldErrors(key string, err error, wrong *mistakes) {
	for _, one := range each(err) {
		var of mistakes
		if field := (*proxy.FieldError)(nil); errors.As(one, &field) {
			of.add(strings.ToLower(fieldKeys.Replace(field.Field)), field.Err)
			wrong.within(key, of)
		} else {
			wrong.add(key, one)
		}
	}
}

// mirrorConns returns how many connections the requests copied to the mirror may take; 0 without a mirror.
func mirrorConns(m *config.Mirror) int {
	if m == nil {
		return 0
	}
	return max(0, cmp.Or(m.InFlight, proxy.DefaultMirrorInFlight))
}
