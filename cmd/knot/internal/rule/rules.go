package rule

import (
	"net/url"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// Rules are those of a site, in order. They are fixed.
type Rules struct {
	all   []*Rule
	exact map[string][]int // indexes of those with Path
	other []int            // indexes of all others
}

// Add adds a rule behind the others.
func (rs *Rules) Add(r *Rule) {
	if r.Path == "" {
		rs.other = append(rs.other, len(rs.all))
	} else {
		if rs.exact == nil {
			rs.exact = make(map[string][]int)
		}
		rs.exact[r.Path] = append(rs.exact[r.Path], len(rs.all))
	}
	rs.all = append(rs.all, r)
}

// Find is the first rule for a request, by index, and what the groups of its pattern are; -1: there is none.
func (rs *Rules) Find(host, path string) (found int, groups []string) {
	first := len(rs.all)
	for _, i := range rs.exact[path] {
		if _, ok := rs.all[i].matches(host, path); ok {
			first = i
			break
		}
	}
	for _, i := range rs.other {
		if i > first {
			break
		}
		if g, ok := rs.all[i].matches(host, path); ok {
			return i, g
		}
	}
	if first == len(rs.all) {
		return -1, nil
	}
	return first, nil
}

// TargetOf is the target of the first rule for a request, by index; -1: there is none.
func (rs *Rules) TargetOf(x *knot.Ctx) (found int, to string) {
	if path := x.PathBytes(); len(path) == 0 || path[0] != '/' {
		return -1, ""
	}
	i, groups := rs.Find(strings.ToLower(string(site.BareHost(x.HostBytes()))), x.Path())
	if i < 0 {
		return -1, ""
	}
	return i, rs.all[i].Target(x.Path(), string(x.RawPath()), groups, x.Query())
}

// Escape is a decoded path as a URL has it. It begins with one slash: with two it would be the name of a host.
func Escape(path string) string { return "/" + escape(strings.TrimLeft(path, "/")) }

func escape(text string) string { return (&url.URL{Path: text}).EscapedPath() }
