package redirect

import (
	"fmt"
	"slices"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// A Config is a table [[site.redirect]].
type Config struct {
	Path    string `toml:"path"`
	Prefix  string `toml:"prefix"`
	Pattern string `toml:"pattern"`
	Host    string `toml:"host"`
	To      string `toml:"to"`
	Status  int    `toml:"status"`
	Query   *bool  `toml:"query"`
}

var statuses = []int{301, 302, 307, 308}

// read reads a table.
func read(c Config) (r *rule.Rule, status int, wrong []site.Fault) {
	r, wrong = rule.Read(rule.Table{Path: c.Path, Prefix: c.Prefix, Pattern: c.Pattern, Host: c.Host, To: c.To, Query: c.Query})
	switch {
	case c.Status == 0:
		return r, 302, wrong
	case !slices.Contains(statuses, c.Status):
		wrong = append(wrong, site.Fault{Key: "status", Err: fmt.Errorf("%d; want 301 or 308 for good, 302 or 307 for a while", c.Status)})
	}
	return r, c.Status, wrong
}

// Rules are the redirects of a site. They are fixed.
type Rules struct {
	rule.Rules
	all      []*rule.Rule
	statuses []int // of each
}

// New reads the tables of a site that has these hosts; secure: it is served by HTTPS. wrong has what is wrong with each table, by its index.
func New(tables []Config, hosts []string, secure bool) (rs *Rules, wrong map[int][]site.Fault) {
	rs = new(Rules)
	wrong = site.ReadTables(len(tables), rule.Most, "to", "redirects", func(i int) []site.Fault {
		r, status, faults := read(tables[i])
		rs.Add(r)
		rs.all, rs.statuses = append(rs.all, r), append(rs.statuses, status)
		return faults
	})
	if len(wrong) > 0 {
		return rs, wrong
	}
	for i := range rs.all {
		if at := rs.circle(i, hosts, secure); at != "" {
			wrong[i] = []site.Fault{{Key: "to", Err: fmt.Errorf("clients would be sent in a circle, by way of %s; want a target that no redirect of the site is for", at)}}
		}
	}
	return rs, wrong
}

// Handle answers a request that a rule is for, and reports whether there is one. It may park.
func (rs *Rules) Handle(x *knot.Ctx) (answered bool, err error) {
	i, to := rs.TargetOf(x)
	switch {
	case i < 0:
		return false, nil
	case len(to) > rule.MostTarget:
		return true, knot.Status(414)
	}
	return true, x.Redirect(rs.statuses[i], to)
}
