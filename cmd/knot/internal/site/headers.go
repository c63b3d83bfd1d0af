package site

import (
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// A HeaderRule adds header lines to the responses about paths that match. Of two rules that set the
// same header the later one counts.
type HeaderRule struct {
	Match Pattern
	Set   []knot.Header
	// Always: the lines are on every response of the site, by the path that was asked for, in place of those of a
	// backend. Otherwise they are on responses that carry a file (200, 206, 304), by the path of that file, which costs
	// nothing when it is served: they are prepared with the rest of its header.
	Always bool
}

// FileHeaders is FilesConfig.Header for rules.
func FileHeaders(rules []HeaderRule) func(name string) []knot.Header {
	return func(name string) (all []knot.Header) {
		for i := range rules {
			r := &rules[i]
			if !r.Match.Match(name) {
				continue
			}
			lines := r.Set
			if r.Always { // the response has its lines, but not where one of all takes their place
				lines = slices.DeleteFunc(slices.Clone(lines), func(h knot.Header) bool { return !sets(all, h.Name) })
			}
			all = setHeaders(all, lines)
		}
		return all
	}
}

// sets reports whether a line of all has this name.
func sets(all []knot.Header, name string) bool {
	return slices.ContainsFunc(all, func(h knot.Header) bool { return strings.EqualFold(h.Name, name) })
}

// setHeaders adds lines to all, in place of those with the same names.
func setHeaders(all, lines []knot.Header) []knot.Header {
	for _, line := range lines {
		all = slices.DeleteFunc(all, func(h knot.Header) bool { return strings.EqualFold(h.Name, line.Name) })
	}
	return append(all, lines...)
}

// always are the lines that are on every response.
func always(x *knot.Ctx, rules []HeaderRule) (all []knot.Header) {
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
	return all
}

// addAlways adds them.
func addAlways(x *knot.Ctx, rules []HeaderRule) {
	for _, h := range always(x, rules) {
		if knot.CheckHeader(h.Name, h.Value) == nil {
			ownctx.Of(x).(interface{ KeepHeader(name, value string) }).KeepHeader(h.Name, h.Value)
		}
	}
}
