package main

import (
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/headers"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/requestid"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// addHeaders has the headers of a site changed.
func addHeaders(s *site.Site, c *config.Site, wrong *mistakes) *headers.Rules {
	rules, faults := headers.New(c.Headers)
	wrong.tables("header", faults)
	if c.HSTS != "" {
		wrong.add("hsts", rules.AddHSTS(c.HSTS))
	}
	if c.CSP != "" {
		wrong.add("csp", rules.AddCSP(c.CSP))
	}
	s.Headers = rules.Prepared
	if rules.Any() {
		s.Prepare = append(s.Prepare, rules.Prepare)
	}
	return rules
}

// addRequestIDs gives the requests to a site ids; nil: they have none.
func addRequestIDs(s *site.Site, c *config.Site, wrong *mistakes) *requestid.IDs {
	if c.RequestID == "" {
		return nil
	}
	ids, err := requestid.New(c.RequestID)
	wrong.add("request-id", err)
	if err != nil {
		return nil
	}
	s.Prepare = append(s.Prepare, ids.Prepare)
	return ids
}

// linesForBackends returns what backends get besides the lines of clients, by rules and ids that may be nil; nil: nothing.
func linesForBackends(rules *headers.Rules, ids *requestid.IDs) (lines func(x *knot.Ctx) []knot.Header) {
	if rules != nil {
		lines = rules.Backend()
	}
	if ids != nil {
		lines = ids.Backend(lines)
	}
	return lines
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
