package main

import (
	"fmt"
	"log/slog"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/bodies"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/maintenance"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// limitBodies bounds the bodies of requests to a site, by -max-body if it does not say otherwise.
func (set *settings) limitBodies(s *site.Site, c *config.Site, wrong *mistakes) {
	most := set.maxBody
	if c.MaxBody != "" {
		var err error
		most, err = size(c.MaxBody)
		wrong.add("max-body", err)
	}
	limits, faults := bodies.New(most, c.Bodies, size)
	wrong.tables("body", faults)
	s.Steps = append(s.Steps, limits.Handle)
}

// checkIntercepts notes what is wrong with the statuses of backends' responses that get the pages of the site.
func checkIntercepts(c *config.Site, wrong *mistakes) {
	for i := range c.Proxies {
		var of mistakes
		of.add("intercept", site.CheckIntercept(c.Proxies[i].Intercept, c.ErrorPages))
		wrong.within(fmt.Sprint("proxy.", i+1), of)
	}
}

// addMaintenance has a file take a site out of service.
func addMaintenance(s *site.Site, c *config.Site, log *slog.Logger, wrong *mistakes) {
	if c.Maintenance == nil {
		return
	}
	off, faults := maintenance.New(c.Maintenance, log)
	wrong.faults("maintenance", faults)
	s.Steps = append(s.Steps, off.Handle)
}
