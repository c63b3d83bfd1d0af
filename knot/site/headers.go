package site

import (
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/knot"
)

// A HeaderRule adds header lines to the responses about paths that match. Of two rules that set the
// same header the later one counts.
type HeaderRule struct {
	Match Pattern
	Set   []knot.Header
	// Always: the lines are on every response of the site but those of 500 and above, by the
	// path that was asked for. Otherwise they are on those that carry a file (200, 206, 304), by the path of that file, which costs
	// nothing when it is served: they are prepared with the rest of its header.
	Always bool
}

// FileHeaders is FilesConfig.Header for rules.
func FileHeaders(rules []HeaderRule) func(name string) []knot.Header {
	return func(name string) (all []knot.Header) {
		for i := range rules {
			if r := &rules[i]; !r.Always && r.Match.Match(name) {
				all = setHeaders(all, r.Set)
			}
		}
		return all
	}
}

// setHeaders adds lines to all, in place of those with the same names.
func setHeaders(all, lines []knot.Header) []knot.Header {
	for _, line := range lines {
		all = slices.DeleteFunc(all, func(h knot.Header) bool { return strings.EqualFold(h.Name, line.Name) })
	}
	return append(all, lines...)
}

// addAlways adds the lines that are on every response.
func addAlways(x *knot.Ctx, rules []HeaderRule) {
	var all []knot.Header
	matched := 0
	for i := range rules {
		if r := &rules[i]; r.Always && r.Match.MatchBytes(x.PathBytes()) {
			if matched++; matched == 1 {
				all = r.Set // nothing is copied for one rule
				continue
			}
			all = setHeaders(slices.Clone(all), r.Set)
		}
	}
	for _, h := range all {
		if knot.CheckHeader(h.Name, h.Value) == nil {
			x.AddHeader(h.Name, h.Value)
		}
	}
}
