// Package importance says how important the requests are that say nothing of it, as the tables [[importance]] of command knot do: the
// edge of a fleet decides by host and path, and the servers behind it go by what the edge has written into a header line.
package importance

import (
	"errors"
	"fmt"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/urgency"
	"github.com/capriccio-go/capriccio/knot"
)

// A Config is a table [[importance]].
type Config struct {
	Hosts   []string `toml:"hosts"`
	Match   string   `toml:"match"`
	Urgency *int     `toml:"urgency"`
}

// Rules are the tables, in their order. They do not change.
type Rules []rule

type rule struct {
	anyHost bool
	hosts   site.Hosts
	match   site.Pattern
	urgency int
}

// New reads the tables. What is wrong with them is by their index.
func New(configs []Config) (rules Rules, faults map[int][]site.Fault) {
	rules, faults = make(Rules, len(configs)), make(map[int][]site.Fault)
	for i := range configs {
		c, r := &configs[i], &rules[i]
		note := func(key string, err error) {
			if err != nil {
				faults[i] = append(faults[i], site.Fault{Key: key, Err: err})
			}
		}
		r.anyHost = len(c.Hosts) == 0
		note("hosts", r.hosts.Add(new(site.Site), c.Hosts...))
		var err error
		r.match, err = site.OptionalPattern(c.Match)
		note("match", err)
		switch {
		case c.Urgency == nil:
			note("urgency", errors.New("say how important these requests are: 0, the most important, to 7; others have 3"))
		case *c.Urgency < 0 || *c.Urgency > urgency.Least:
			note("urgency", fmt.Errorf("%d is not from 0, the most important, to 7", *c.Urgency))
		default:
			r.urgency = *c.Urgency
		}
	}
	return rules, faults
}

// inner has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type inner interface {
	Demand() (told ownctx.Demand, read bool)
	SetUrgency(u int)
	Priority() int
}

// Rank is knot.Server.Priority: what a trusted peer has said counts, then the first rule for the request. It never parks.
func (rules Rules) Rank(x *knot.Ctx) int {
	in := ownctx.Of(x).(inner)
	if told, _ := in.Demand(); !told.Urgent {
		for i := range rules {
			if r := &rules[i]; (r.anyHost || r.hosts.Site(x.HostBytes()) != nil) && site.Matches(x, r.match) {
				in.SetUrgency(r.urgency)
				break
			}
		}
	}
	return in.Priority()
}
