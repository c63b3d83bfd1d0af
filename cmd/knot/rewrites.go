package main

import (
	"errors"
	"slices"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/addresses"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/redirect"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/rewrite"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

func (set *settings) redirects(c *config.Site, wrong *mistakes) *redirect.Rules {
	secure := slices.ContainsFunc(set.points, func(p *addresses.Point) bool { return p.TLS && serves(p, c) })
	rules, faults := redirect.New(c.Redirects, c.Hosts, secure)
	wrong.tables("redirect", faults)
	return rules
}

// addRewrites has a site serve other paths than the clients' ones: by its tables, and by the files that exist.
func (b *built) addRewrites(s *site.Site, c *config.Site, wrong *mistakes) {
	if len(c.Rewrites) > 0 {
		rules, faults := rewrite.New(c.Rewrites)
		wrong.tables("rewrite", faults)
		s.Rewrite = rules.Target
	}
	if c.Try == nil {
		return
	}
	var err error
	s.Try, err = site.NewTry(c.Try)
	wrong.add("try", err)
	if c.Fallback != "" {
		wrong.add("fallback", errors.New("there is a list try too, whose last entry is the same; want one of them"))
	}
}
