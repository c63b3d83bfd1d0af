package redirect

import (
	"net/url"
	"slices"
	"strings"
)

// longest is the number of redirects after which they count as endless: browsers follow 20.
const longest = 20

// samples stand for what the groups of a pattern match.
var samples = []string{"", "x", "1"}

// circle returns a path for which redirects by rule i and the others never end; "": none is known.
func (rs *Rules) circle(i int, hosts []string) string {
	r := rs.all[i]
	from := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return strings.Contains(h, "*") || r.Host != "" && !strings.EqualFold(h, r.Host) })
	if len(from) == 0 {
		from = []string{r.Host}
	}
	for _, host := range from {
		host = strings.ToLower(host)
		for _, to := range r.samples() {
			if at := rs.follow(host, to, hosts); at != "" {
				return at
			}
		}
	}
	return ""
}

// samples are targets of the rule.
func (r *rule) samples() (all []string) {
	switch {
	case r.Path != "":
		return []string{r.target(r.Path, nil, "")}
	case r.re == nil:
		return []string{r.target(r.Prefix+"/x", nil, "")}
	}
	for _, sample := range samples {
		all = append(all, r.target("", slices.Repeat([]string{sample}, r.re.NumSubexp()+1), ""))
	}
	return all
}

// follow is where a client that was sent to a target is in a circle; "": it comes to an end.
func (rs *Rules) follow(host, to string, hosts []string) (at string) {
	for range longest {
		u, err := url.Parse(to)
		if err != nil {
			return ""
		}
		if u.Host != "" {
			if host = strings.ToLower(u.Hostname()); !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
				return "" // perhaps another site
			}
		}
		r, groups := rs.find(host, u.Path)
		if r == nil {
			return ""
		}
		at, to = to, r.target(u.Path, groups, "")
	}
	return at
}
