package main

import (
	"errors"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// addLimits limits how often requests for a site may come.
func (b *built) addLimits(s *site.Site, c *config.Site, wrong *mistakes) {
	rules, faults := limit.New(c.Limits)
	wrong.tables("limit", faults)
	if c.RequestsPerSecond == 0 && (c.Burst != 0 || c.MaxClients != 0) {
		wrong.note("requests-per-second", errors.New("it is missing, and burst and max-clients are about it; want one, as requests-per-second = 20"))
	} else if c.RequestsPerSecond != 0 {
		r, err := limit.PerClient(c.RequestsPerSecond, c.Burst, c.MaxClients)
		wrong.note("requests-per-second", err)
		rules = append(limit.Rules{r}, rules...)
	}
	if len(rules) > 0 {
		b.limits = append(b.limits, rules...)
		s.Steps = append(s.Steps, rules.Handle)
	}
}
