// Package access lets requests pass or refuses them, by the client's network, method, header and cookies, as the tables
// [[site.access]] of command knot say.
package access

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// Most is how many tables a site may have.
	Most = 1000
	// mostPattern is how long an expression may be, in bytes.
	mostPattern = 1000
)

// A Config is a table [[site.access]]. It is for requests for which all that it says holds; a zero field says nothing.
type Config struct {
	// Match is a pattern of paths; "": every path.
	Match string `toml:"match"`
	// From has networks as 10.0.0.0/8, addresses, and "unix:" for clients without one, on a Unix socket: the client is in one.
	From []string `toml:"from"`
	// NotFrom is like From: the client is in none.
	NotFrom []string `toml:"not-from"`
	// Methods has the method.
	Methods []string `toml:"methods"`
	// Headers are values of lines by name: the text as it is; "~" and an RE2 expression; "" for none.
	Headers map[string]string `toml:"headers"`
	// Cookies are like Headers, of cookies.
	Cookies map[string]string `toml:"cookies"`
	// Action is "allow" or "deny".
	Action string `toml:"action"`
	// Status of responses to requests that are denied, 400 to 498; 0: 403.
	Status int `toml:"status"`
}

// A rule is a Config that was read.
type rule struct {
	match         site.Pattern
	from, notFrom *knot.Trust // nil: nothing is said
	methods       []string
	values        []condition
	denies        bool
	status        knot.Status
}

// A condition is about the values of a header or cookie.
type condition struct {
	of   func(x *knot.Ctx, name string) iter.Seq[[]byte]
	name string
	text string
	re   *regexp.Regexp // nil: text counts; "" is no value
}

// Rules are those of a site. They are fixed.
type Rules []*rule

// New reads the tables of a site. wrong has what is wrong with each table, by its index.
func New(tables []Config) (rs Rules, wrong map[int][]site.Fault) {
	wrong = site.ReadTables(len(tables), Most, "action", "tables of access", func(i int) []site.Fault {
		r, faults := read(&tables[i])
		rs = append(rs, r)
		return faults
	})
	return rs, wrong
}

// read reads a table. A rule with faults is not used.
func read(c *Config) (r *rule, wrong []site.Fault) {
	r = &rule{methods: c.Methods, denies: c.Action == "deny", status: 403}
	note := site.NoteIn(&wrong)
	var err error
	r.match, err = site.OptionalPattern(c.Match)
	note("match", err)
	r.from, err = networks(c.From)
	note("from", err)
	r.notFrom, err = networks(c.NotFrom)
	note("not-from", err)
	for _, m := range c.Methods {
		note("methods", site.CheckMethod(m))
	}
	add := func(key string, given map[string]string, of func(*knot.Ctx, string) iter.Seq[[]byte], bad string) {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			one := condition{of: of, name: name, text: given[name]}
			if name == "" || strings.ContainsAny(name, bad) {
				note(key, fmt.Errorf("%q can't be a name", name))
			}
			if text, is := strings.CutPrefix(one.text, "~"); is {
				if one.re, err = regexp.Compile(text); err == nil && len(text) > mostPattern {
					err = fmt.Errorf("it has %d bytes; want at most %d", len(text), mostPattern)
				}
				note(key+"."+name, err)
			}
			r.values = append(r.values, one)
		}
	}
	add("headers", c.Headers, site.HeaderValues, " \t:")
	add("cookies", c.Cookies, site.CookieValues, " \t=;")
	switch {
	case c.Action == "":
		note("action", errors.New("say allow or deny"))
	case c.Action != "allow" && c.Action != "deny":
		note("action", fmt.Errorf("%q; want allow or deny", c.Action))
	}
	switch {
	case c.Status == 0:
	case c.Action == "allow":
		note("status", errors.New("it is for requests that are denied"))
	case c.Status < 400 || c.Status > 498: // nothing is sent with 499
		note("status", fmt.Errorf("%d; want 400 to 498", c.Status))
	default:
		r.status = knot.Status(c.Status)
	}
	return r, wrong
}

// networks reads a list of networks; nil: there is none.
func networks(given []string) (*knot.Trust, error) {
	if given == nil {
		return nil, nil
	}
	if len(given) == 0 {
		return nil, errors.New("the list is empty; without it all clients count")
	}
	t, err := knot.ParseTrust(given...)
	return &t, err
}

// Find implements site.Guard: the first rule all of whose conditions hold.
func (rs Rules) Find(x *knot.Ctx, path []byte) int {
	return slices.IndexFunc(rs, func(r *rule) bool { return r.holds(x, path) })
}

// Admit implements site.Guard.
func (rs Rules) Admit(_ *knot.Ctx, rule int) error {
	if r := rs[rule]; r.denies {
		return r.status
	}
	return nil
}

func (r *rule) holds(x *knot.Ctx, path []byte) bool {
	if !r.match.MatchBytes(path) {
		return false
	}
	if r.from != nil && !r.from.Names(x.ClientAddr()) || r.notFrom != nil && r.notFrom.Names(x.ClientAddr()) {
		return false
	}
	if r.methods != nil && !slices.Contains(r.methods, x.Method()) {
		return false
	}
	for i := range r.values {
		if !r.values[i].holds(x, r.denies) {
			return false
		}
	}
	return true
}

// holds reports whether one of several values fits, or, unless any is enough, all of them: backends differ in which one they
// take.
func (c *condition) holds(x *knot.Ctx, any bool) bool {
	fits, others := 0, 0
	for value := range c.of(x, c.name) {
		switch {
		case c.re != nil && c.re.Match(value), c.re == nil && string(value) == c.text:
			fits++
		default:
			others++
		}
	}
	if c.re == nil && c.text == "" && fits+others == 0 {
		return true
	}
	return fits > 0 && (any || others == 0)
}
