package headers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// Most is how many tables of a kind a site may have: each is compared with every request.
const Most = 100

// A Config is a table [[site.header]].
type Config struct {
	Match  string            `toml:"match"`
	Set    map[string]string `toml:"set"`
	Always bool              `toml:"always"`

	Methods  []string          `toml:"methods"`
	Statuses []string          `toml:"statuses"`
	Add      map[string]string `toml:"add"`
	Replace  map[string]string `toml:"replace"`
	Default  map[string]string `toml:"default"`
	Remove   []string          `toml:"remove"`

	BackendSet    map[string]string `toml:"backend-set"`
	BackendRemove []string          `toml:"backend-remove"`
}

// aboutAll reports whether the table has a key that makes it one about all responses, and not about those of files.
func (c *Config) aboutAll() bool {
	return len(c.Methods)+len(c.Statuses)+len(c.Add)+len(c.Replace)+len(c.Default)+len(c.Remove) > 0
}

// about is which requests a rule is for.
type about struct {
	match   site.Pattern
	methods []string // empty: all
}

func (a *about) matches(x *knot.Ctx) bool {
	return a.match.MatchBytes(x.PathBytes()) && (len(a.methods) == 0 || slices.Contains(a.methods, x.Method()))
}

// A rule is a Config that was read, and a knot.Filter. It is fixed.
type rule struct {
	about
	statuses                   []string // as "404" or "4xx"; empty: all
	set, add, replace, missing []knot.Header
	remove                     []string
	secure                     bool // only for clients that have come by TLS
}

// FilterHead implements knot.Filter.
func (r *rule) FilterHead(x *knot.Ctx, h knot.ResponseHead) {
	if len(r.statuses) > 0 && !site.HasStatus(r.statuses, x.Status()) {
		return
	}
	for _, name := range r.remove {
		h.Del(name)
	}
	for _, l := range r.set {
		h.Set(l.Name, l.Value)
	}
	for _, l := range r.replace {
		if h.Get(l.Name) != "" {
			h.Set(l.Name, l.Value)
		}
	}
	for _, l := range r.missing {
		if h.Get(l.Name) == "" {
			h.Set(l.Name, l.Value)
		}
	}
	for _, l := range r.add {
		h.Add(l.Name, l.Value)
	}
}

// backendRule has the lines of requests to backends.
type backendRule struct {
	about
	lines []knot.Header // without a value: to be removed
}

// Rules are those of a site. They are fixed.
type Rules struct {
	// Prepared are of tables about files, and those with always before the first one about all responses: the site adds them
	// itself, before there is a response.
	Prepared []site.HeaderRule

	filters  []*rule
	backends []backendRule
}

// New reads the tables of a site, and its keys hsts and csp. wrong has what is wrong with each table, by its index.
func New(tables []Config) (rs *Rules, wrong map[int][]site.Fault) {
	rs = new(Rules)
	return rs, site.ReadTables(len(tables), Most, "match", "tables of headers", func(i int) []site.Fault { return rs.read(&tables[i]) })
}

func (rs *Rules) read(c *Config) (wrong []site.Fault) {
	note := site.NoteIn(&wrong)
	match, err := site.NewPattern(c.Match)
	note("match", err)
	for _, m := range c.Methods {
		note("methods", site.CheckMethod(m))
	}
	for _, status := range c.Statuses {
		if n, err := strconv.Atoi(strings.Replace(status, "xx", "00", 1)); err != nil || n < 200 || n > 599 || len(status) != 3 {
			note("statuses", fmt.Errorf("%q is not the status of a response; want 200 to 599, or 2xx to 5xx", status))
		}
	}
	of := about{match, c.Methods}
	lines := func(key string, table map[string]string, ctype bool, check func(name, value string) error) (all []knot.Header) {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			if slices.ContainsFunc(all, func(before knot.Header) bool { return strings.EqualFold(before.Name, name) }) {
				note(key+"."+name, errors.New("the header is set twice"))
			}
			if err := check(name, table[name]); err != nil && !(ctype && strings.EqualFold(name, "Content-Type")) {
				note(key+"."+name, errors.New(strings.TrimPrefix(err.Error(), "knot: ")))
			}
			all = append(all, knot.Header{Name: name, Value: table[name]})
		}
		return all
	}
	aboutAll := c.aboutAll()
	late := aboutAll || c.Always && len(rs.filters) > 0 || len(c.Set) > 0 && len(c.BackendSet)+len(c.BackendRemove) > 0
	set := lines("set", c.Set, late || !c.Always, checkLine)
	if !late {
		if len(set) > 0 || len(c.BackendSet)+len(c.BackendRemove) == 0 {
			rs.Prepared = append(rs.Prepared, site.HeaderRule{Match: match, Set: set, Always: c.Always})
		}
	} else {
		r := &rule{about: of, statuses: c.Statuses, set: set, remove: c.Remove}
		r.add = lines("add", c.Add, false, checkLine)
		r.replace = lines("replace", c.Replace, true, checkLine)
		r.missing = lines("default", c.Default, true, checkLine)
		for _, name := range c.Remove {
			if err := checkLine(name, ""); err != nil && !strings.EqualFold(name, "Content-Type") {
				note("remove", errors.New(strings.TrimPrefix(err.Error(), "knot: ")))
			}
		}
		if len(r.set)+len(r.add)+len(r.replace)+len(r.missing)+len(r.remove)+len(c.BackendSet)+len(c.BackendRemove) == 0 {
			note("match", errors.New("the table changes nothing; want set, add, replace, default, remove, backend-set or backend-remove"))
		}
		rs.filters = append(rs.filters, r)
	}
	b := backendRule{about: of, lines: lines("backend-set", c.BackendSet, false, proxy.CheckHeader)}
	for _, l := range b.lines {
		if l.Value == "" {
			note("backend-set."+l.Name, errors.New("the value is empty; want one, or the name in backend-remove"))
		}
	}
	for _, name := range c.BackendRemove {
		note("backend-remove", proxy.CheckHeader(name, ""))
		b.lines = append(b.lines, knot.Header{Name: name})
	}
	if len(b.lines) > 0 {
		rs.backends = append(rs.backends, b)
	}
	if len(c.Statuses) > 0 && len(b.lines) > 0 {
		note("statuses", errors.New("a request to a backend has no status yet; want a table of its own for it"))
	}
	return wrong
}

// perConnection are names that are about one connection (RFC 9110, 7.6.1).
var perConnection = []string{"keep-alive", "proxy-connection", "te", "trailer", "upgrade"}

// checkLine reports what is wrong with a line of a response.
func checkLine(name, value string) error {
	if slices.Contains(perConnection, strings.ToLower(name)) {
		return fmt.Errorf("header %s is about one connection, and the server's own", name)
	}
	return knot.CheckHeader(name, value)
}

// Any reports whether there is a rule for Prepare to see to.
func (rs *Rules) Any() bool { return len(rs.filters) > 0 }

// Prepare has the response to a request changed by all rules that are for it, the later ones last. A second call changes
// nothing.
func (rs *Rules) Prepare(x *knot.Ctx) {
	for _, r := range slices.Backward(rs.filters) { // the first one added is called last
		if r.matches(x) && (!r.secure || bySecure(x)) {
			x.Filter(r)
		}
	}
}

// bySecure reports whether the client has come by TLS, to this server or to a proxy that it trusts.
func bySecure(x *knot.Ctx) bool {
	return x.TLS() != nil || x.TrustPeers(knot.Trust{}) && strings.EqualFold(x.Header("X-Forwarded-Proto"), "https")
}

// Backend is proxy.Config.Header; nil if there is no rule for that.
func (rs *Rules) Backend() func(x *knot.Ctx) []knot.Header {
	if len(rs.backends) == 0 {
		return nil
	}
	return func(x *knot.Ctx) (all []knot.Header) {
		for i := range rs.backends {
			if b := &rs.backends[i]; b.matches(x) {
				for _, l := range b.lines {
					all = slices.DeleteFunc(all, func(before knot.Header) bool { return strings.EqualFold(before.Name, l.Name) })
				}
				all = append(all, b.lines...)
			}
		}
		return all
	}
}

// everywhere matches every path.
var everywhere, _ = site.NewPattern("/**")

// AddHSTS adds Strict-Transport-Security to responses to clients that come by TLS: others must not get it (RFC 6797, 7.2).
func (rs *Rules) AddHSTS(value string) error {
	age, subdomains, preload := int64(-1), false, false
	for part := range strings.SplitSeq(value, ";") {
		name, text, has := strings.Cut(strings.TrimSpace(part), "=")
		switch n, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 64); {
		case strings.EqualFold(name, "max-age") && err == nil && n >= 0 && age < 0:
			age = n
		case strings.EqualFold(name, "includeSubDomains") && !has:
			subdomains = true
		case strings.EqualFold(name, "preload") && !has:
			preload = true
		default:
			return fmt.Errorf(`%q: %q is not known there; want seconds, as "max-age=63072000; includeSubDomains"`, value, strings.TrimSpace(part))
		}
	}
	const year = 365 * 24 * 3600
	switch {
	case age < 0:
		return fmt.Errorf(`%q has no max-age; want seconds, as "max-age=63072000"`, value)
	case preload && (!subdomains || age < year):
		return fmt.Errorf("%q: browsers preload only with includeSubDomains and a max-age of a year (%d) or more", value, year)
	}
	rs.filters = append(rs.filters, &rule{about: about{match: everywhere}, set: []knot.Header{{Name: "Strict-Transport-Security", Value: value}}, secure: true})
	return nil
}

// directives of a Content-Security-Policy (CSP Level 3, and those of other specifications).
var directives = strings.Fields(`child-src connect-src default-src fenced-frame-src font-src frame-src img-src manifest-src media-src
	object-src prefetch-src script-src script-src-elem script-src-attr style-src style-src-elem style-src-attr worker-src base-uri sandbox
	form-action frame-ancestors report-to report-uri require-trusted-types-for trusted-types upgrade-insecure-requests block-all-mixed-content`)

// AddCSP adds Content-Security-Policy to responses that have none: a backend knows better what its pages need.
func (rs *Rules) AddCSP(value string) error {
	if err := knot.CheckHeader("Content-Security-Policy", value); err != nil {
		return errors.New("it has control characters")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(value), ";"), ";") {
		name, _, _ := strings.Cut(strings.TrimSpace(part), " ")
		if !slices.Contains(directives, strings.ToLower(name)) {
			return fmt.Errorf(`there is no directive %q; want a policy like "default-src 'self'; img-src *"`, name)
		}
	}
	rs.filters = append(rs.filters, &rule{about: about{match: everywhere}, missing: []knot.Header{{Name: "Content-Security-Policy", Value: value}}})
	return nil
}
