// Package bodies bounds the bodies of requests, by site and by path.
package bodies

import (
	"errors"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// Most is how many tables a site may have: each is compared with every request that has a body.
const Most = 100

// A Config is a table [[site.body]].
type Config struct {
	// Match is a pattern of paths; required.
	Match string `toml:"match"`
	// Max is the size of the largest body, as "2GB"; "0": any; required.
	Max string `toml:"max"`
}

type rule struct {
	match site.Pattern
	max   int64 // bytes
}

// Limits are those of a site. They are fixed.
type Limits struct {
	max   int64 // bytes, where no rule matches
	rules []rule
}

// New reads the tables of a site whose bodies have max bytes elsewhere. size reads sizes; that of "0" is 0, and no limit. wrong
// has what is wrong with each table, by its index.
func New(max int64, tables []Config, size func(text string) (int64, error)) (l *Limits, wrong map[int][]site.Fault) {
	l = &Limits{max: orAny(max)}
	wrong = site.ReadTables(len(tables), Most, "match", "limits on bodies", func(i int) (faults []site.Fault) {
		c, note := &tables[i], site.NoteIn(&faults)
		match, err := site.NewPattern(c.Match)
		note("match", err)
		n, err := size(c.Max)
		if c.Max == "" {
			err = errors.New(`say how large a body may be, as max = "64MB"; "0" is any size`)
		}
		note("max", err)
		l.rules = append(l.rules, rule{match, orAny(n)})
		return faults
	})
	return l, wrong
}

// orAny is a limit as Ctx.LimitBody has it.
func orAny(max int64) int64 {
	if max <= 0 {
		return 1 << 62
	}
	return max
}

// of is the limit for a path.
func (l *Limits) of(path []byte) int64 {
	for i := range l.rules {
		if r := &l.rules[i]; r.match.MatchBytes(path) {
			return r.max
		}
	}
	return l.max
}

// Handle refuses a request whose body is too large, and bounds a body whose length is not known yet. Where a backend may see
// another path than the clean one, the smaller limit counts.
func (l *Limits) Handle(x *knot.Ctx) (answered bool, err error) {
	if x.ContentLength() == 0 {
		return false, nil
	}
	max := l.of(x.PathBytes())
	if other := site.OtherPath(x); other != nil {
		max = min(max, l.of(other))
	}
	err = x.LimitBody(max)
	return err != nil, err
}
