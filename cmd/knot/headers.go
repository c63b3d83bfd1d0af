package main

import (
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/headers"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// addHeaders has the headers of a site changed.
func addHeaders(s *site.Site, c *config.Site, wrong *mistakes) *headers.Rules {
	rules, faults := headers.New(c.Headers)
	wrong.tables("header", faults)
	if c.HSTS != "" {
		wrong.note("hsts", rules.AddHSTS(c.HSTS))
	}
	if c.CSP != "" {
		wrong.note("csp", rules.AddCSP(c.CSP))
	}
	s.Headers = rules.Prepared
	if rules.Any() {
		s.Prepare = append(s.Prepare, rules.Prepare)
	}
	return rules
}

// addCORS has pages of other sites use this one.
func addCORS(s *site.Site, c *config.Site, wrong *mistakes) {
	if len(c.CORS) == 0 {
		return
	}
	rules, faults := headers.NewCrossOrigin(c.CORS)
	wrong.tables("cors", faults)
	s.Prepare = append(s.Prepare, rules.Prepare)
	s.Steps = append(s.Steps, rules.Handle)
}
