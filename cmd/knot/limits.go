package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

// addLimits limits how often requests for a site may come.
func (b *built) addLimits(s *site.Site, c *config.Site, wrong *mistakes) {
	rules, faults := limit.New(c.Limits)
	texts := make([]string, len(c.Limits)) // what makes a rule the same one on other servers
	for i := range c.Limits {
		texts[i] = fmt.Sprintf("%d %+v", i, c.Limits[i])
	}
	wrong.tables("limit", faults)
	if c.RequestsPerSecond == 0 && (c.Burst != 0 || c.MaxClients != 0) {
		wrong.add("requests-per-second", errors.New("it is missing, and burst and max-clients are about it; want one, as requests-per-second = 20"))
	} else if c.RequestsPerSecond != 0 {
		r, err := limit.PerClient(c.RequestsPerSecond, c.Burst, c.MaxClients)
		wrong.add("requests-per-second", err)
		rules = append(limit.Rules{r}, rules...)
		texts = append([]string{fmt.Sprint(c.RequestsPerSecond, " ", c.Burst)}, texts...)
	}
	if len(rules) > 0 {
		b.limits = append(b.limits, rules...)
		s.Steps = append(s.Steps, rules.Handle)
		if b.fleet != nil && len(*wrong) == 0 {
			for i, r := range rules {
				sum := sha256.Sum256([]byte(strings.Join(c.Hosts, " ") + "\n" + texts[i]))
				b.fleet.Add(hex.EncodeToString(sum[:8]), r)
			}
		}
	}
}
