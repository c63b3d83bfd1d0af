package redirect

import (
	"net/url"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
)

// longest is the number of redirects after which they count as endless: browsers follow 20.
const longest = 20

// samples stand for what the groups of a pattern match.
var samples = []string{"", "x", "1"}

// circle returns a path for which redirects by rule i and the others never end; "": none is known.
func (rs *Rules) circle(i int, hosts []string, secure bool) string {
	r := rs.all[i]
	from := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return strings.Contains(h, "*") || r.Host != "" && !strings.EqualFold(h, r.Host) })
	if len(from) == 0 {
		from = []string{r.Host}
	}
	for _, host := range from {
		host = strings.ToLower(host)
		for _, to := range samplesOf(r) {
			if at := rs.follow(host, to, hosts, secure); at != "" {
				return at
			}
		}
	}
	return ""
}

// samplesOf are targets of the rule.
func samplesOf(r *rule.Rule) (all []string) {
	switch {
	case r.Path != "":
		return []string{r.Target(r.Path, "", nil, "")}
	case r.Pattern == "":
		return []string{r.Target(r.Prefix+"/x", "", nil, "")}
	}
	for _, sample := range samples {
		all = append(all, r.Target("", "", slices.Repeat([]string{sample}, r.Groups()+1), ""))
	}
	return all
}

// follow is where a client that was sent to a target is in a circle; "": it comes to an end.
func (rs *Rules) follow(host, to string, hosts []string, secure bool) (at string) {
	for range longest {
		u, err := url.Parse(to)
		if err != nil || u.Scheme == "https" && !secure {
			return ""
		}
		if u.Host != "" {
			if host = strings.ToLower(u.Hostname()); !slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, host) }) {
				return "" // perhaps another site
			}
		}
		i, groups := rs.Find(host, u.Path)
		if i < 0 {
			return ""
		}
		at, to = to, rs.all[i].Target(u.Path, "", groups, "")
	}
	return at
}
