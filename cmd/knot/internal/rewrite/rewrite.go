// Package rewrite has a site serve requests as if clients had asked for another path: by the tables [[site.rewrite]] of command
// knot. Clients do not notice.
package rewrite

import (
	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// A Config is a table [[site.rewrite]]. One of Path, Prefix, Pattern and Host has to be there, or a Host with one of the others.
type Config struct {
	Path    string `toml:"path"`    // this path, whole
	Prefix  string `toml:"prefix"`  // this path and all below it; what follows it is added to To
	Pattern string `toml:"pattern"` // RE2 expression that matches somewhere in the path, up to 1000 bytes
	Host    string `toml:"host"`    // only requests for this host, without port; "": for every host
	To      string `toml:"to"`      // path that is served, perhaps with a query; with a pattern $1 and ${name} are its groups
	Query   *bool  `toml:"query"`   // keep the query of the request, behind that of To; nil: true
}

// Rules are the rewrites of a site. They are fixed.
type Rules struct{ rules rule.Rules }

// New reads the tables of a site. wrong has what is wrong with each table, by its index.
func New(tables []Config) (rs *Rules, wrong map[int][]site.Fault) {
	rs = new(Rules)
	wrong = site.ReadTables(len(tables), rule.Most, "to", "rewrites", func(i int) []site.Fault {
		c := &tables[i]
		r, faults := rule.Read(rule.Table{Path: c.Path, Prefix: c.Prefix, Pattern: c.Pattern, Host: c.Host, To: c.To, Query: c.Query, Inside: true})
		rs.rules.Add(r)
		return faults
	})
	return rs, wrong
}

// Target is what a request is to be served as by the first rule that is for it; "": none is. There is no second one for the
// new path, so that there are no circles. It is site.Site.Rewrite.
func (rs *Rules) Target(x *knot.Ctx) (to string, err error) {
	i, to := rs.rules.TargetOf(x)
	if i >= 0 && len(to) > rule.MostTarget {
		return "", knot.Status(414)
	}
	return to, nil
}
