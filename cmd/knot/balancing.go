package main

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// balancing is what a table says of the choice among backends. proxy.New checks it, but for texts that take reads.
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
		wrong.note("mirror.max-body", err)
		if p.Mirror.MaxBody = int(n); n == 0 && m.MaxBody != "" {
			p.Mirror.MaxBody = -1
		}
	}
}

// fieldKeys are the keys of fields whose names are not those of the keys.
var fieldKeys = strings.NewReplacer("MaxInFlight", "in-flight", "Backends", "to", "SlowStart", "slow-start", "RetryShare", "retry-share", "PanicThreshold", "panic-threshold")

// noteFields notes the errors of proxy.New about the table at key, those about a field at the key for that.
func noteFields(key string, err error, wrong *mistakes) {
	for _, one := range each(err) {
		var of mistakes
		if field := (*proxy.FieldError)(nil); errors.As(one, &field) {
			of.note(strings.ToLower(fieldKeys.Replace(field.Field)), field.Err)
			wrong.within(key, of)
		} else {
			wrong.note(key, one)
		}
	}
}

// forCopies is how many connections the copies of requests may have.
func forCopies(m *config.Mirror) int {
	if m == nil {
		return 0
	}
	return max(0, cmp.Or(m.InFlight, proxy.DefaultMirrorInFlight))
}
