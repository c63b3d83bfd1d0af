package redirect

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// Most is how many tables a site may have.
	Most = 10_000
	// mostPattern is how long a pattern may be, in bytes: it is compiled to a program some ten times as large.
	mostPattern = 1000
	// mostTarget is how long what a client is sent to may be, in bytes: longer ones than most clients take.
	mostTarget = 8 << 10
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

// rule is a Config that was read.
type rule struct {
	Config
	re     *regexp.Regexp // of Pattern
	scheme string         // of the target with "://"; "": it stays on the site
	host   string         // of the target; only with a scheme
	path   []part         // of the target
	query  []part
	end    string // of the target, from its # on
}

// part is a piece of a target: text as it is, or what a group of the pattern has matched.
type part struct {
	text  string
	group int // used if text is ""
}

var statuses = []int{301, 302, 307, 308}

// read reads a table. A rule with faults is not used.
func read(c Config) (r *rule, wrong []site.Fault) {
	r = &rule{Config: c}
	note := func(key, format string, args ...any) {
		wrong = append(wrong, site.Fault{Key: key, Err: fmt.Errorf(format, args...)})
	}
	given := 0
	for key, text := range map[string]string{"path": c.Path, "prefix": c.Prefix} {
		if text == "" {
			continue
		}
		given++
		if text[0] != '/' {
			note(key, "%q does not begin with a slash; want /%s", text, text)
		}
	}
	if c.Pattern != "" {
		given++
		var err error
		if len(c.Pattern) > mostPattern {
			note("pattern", "it has %d bytes; want at most %d", len(c.Pattern), mostPattern)
		} else if r.re, err = regexp.Compile(c.Pattern); err != nil {
			note("pattern", "%w", err)
		}
	}
	switch {
	case given > 1:
		note("to", "path, prefix and pattern exclude each other; want one of them")
	case given == 0 && c.Host == "":
		note("to", "say which requests it is for, by path, prefix, pattern or host")
	case given == 0:
		r.Prefix = "/"
	}
	r.Prefix = strings.TrimSuffix(r.Prefix, "/")
	r.Host = strings.ToLower(c.Host)
	if strings.ContainsAny(c.Host, "*/:@ ") {
		note("host", "%q is not the name of a host; want one like www.example.org, without a port", c.Host)
	}
	if r.Status == 0 {
		r.Status = 302
	} else if !slices.Contains(statuses, r.Status) {
		note("status", "%d; want 301 or 308 for good, 302 or 307 for a while", c.Status)
	}
	if err := r.readTarget(c.To); err != nil {
		note("to", "%w", err)
	}
	return r, wrong
}

// readTarget reads where clients are sent.
func (r *rule) readTarget(to string) error {
	rest := to
	for _, scheme := range []string{"https://", "http://"} {
		if after, ok := strings.CutPrefix(to, scheme); ok {
			r.scheme = scheme
			end := strings.IndexAny(after, "/?#")
			if end < 0 {
				end = len(after)
			}
			r.host, rest = after[:end], after[end:]
			if rest == "" || rest[0] != '/' {
				rest = "/" + rest
			}
		}
	}
	switch {
	case to == "":
		return errors.New("say where clients are sent, as /new or https://example.org")
	case strings.ContainsFunc(to, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }):
		return fmt.Errorf("%q has characters that a URL has only with escapes, as %%20", to)
	case r.scheme != "" && (r.host == "" || strings.ContainsAny(r.host, "$@")):
		return fmt.Errorf("%q: the host has to be there as it is, without parts of the request: else anybody could have clients sent anywhere", to)
	case strings.HasPrefix(rest, "//"):
		return fmt.Errorf("%q is the name of another host for clients; want https://%s for that, or one slash", to, strings.TrimLeft(to, "/"))
	case rest[0] != '/':
		return fmt.Errorf("%q; want a path, as /%s, or a URL that begins with https:// or http://", to, to)
	}
	rest, fragment, has := strings.Cut(rest, "#")
	if has {
		r.end = "#" + fragment
	}
	path, query, _ := strings.Cut(rest, "?")
	var err error
	if r.path, err = r.parts(path); err == nil {
		r.query, err = r.parts(query)
	}
	return err
}

var groups = regexp.MustCompile(`\$(\d+|\{\w+\}|.?)`)

// parts splits a target at its groups: $1, ${name}, and $$ for a dollar.
func (r *rule) parts(text string) (all []part, err error) {
	add := func(text string) {
		if text != "" {
			all = append(all, part{text: text})
		}
	}
	at := 0
	if r.Pattern == "" { // a dollar is one
		add(text)
		return all, nil
	}
	for _, m := range groups.FindAllStringSubmatchIndex(text, -1) {
		add(text[at:m[0]])
		at = m[1]
		name := text[m[2]:m[3]]
		group := -1
		switch {
		case name == "$":
			add("$")
			continue
		case r.re == nil: // that has been told
			continue
		case strings.HasPrefix(name, "{"):
			name = strings.Trim(name, "{}")
			group = r.re.SubexpIndex(name)
		}
		if n, err := strconv.Atoi(name); err == nil && n <= r.re.NumSubexp() {
			group = n
		}
		if group < 0 {
			return nil, fmt.Errorf("the pattern has no group $%s; it has %d. A dollar is $$", name, r.re.NumSubexp())
		}
		all = append(all, part{group: group})
	}
	add(text[at:])
	return all, nil
}

// matches reports whether the rule is for a request, and what the groups of its pattern are.
func (r *rule) matches(host, path string) (groups []string, ok bool) {
	if r.Host != "" && r.Host != host {
		return nil, false
	}
	switch {
	case r.re != nil:
		groups = r.re.FindStringSubmatch(path)
		return groups, groups != nil
	case r.Path != "":
		return nil, r.Path == path
	}
	rest, ok := strings.CutPrefix(path, r.Prefix)
	return nil, ok && (rest == "" || rest[0] == '/')
}

// target is where a request for path is sent, that the rule matches.
func (r *rule) target(path string, groups []string, query string) string {
	var to, asked strings.Builder
	for _, p := range r.path {
		if p.text != "" {
			to.WriteString(p.text)
		} else {
			to.WriteString(escape(groups[p.group])[1:])
		}
	}
	end := to.String()
	if r.re == nil && r.Path == "" {
		end = strings.TrimSuffix(end, "/") + strings.TrimSuffix(escape(path[len(r.Prefix):]), "/")
		if strings.HasSuffix(path, "/") || end == "" {
			end += "/"
		}
	}
	end = "/" + strings.TrimLeft(end, "/") // two slashes would begin the name of a host
	for _, p := range r.query {
		if p.text != "" {
			asked.WriteString(p.text)
		} else {
			asked.WriteString(url.QueryEscape(groups[p.group]))
		}
	}
	if query != "" && (r.Query == nil || *r.Query) {
		if asked.Len() > 0 {
			asked.WriteByte('&')
		}
		asked.WriteString(query)
	}
	if asked.Len() > 0 {
		end += "?" + asked.String()
	}
	return r.scheme + r.host + end + r.end
}

// Rules are the redirects of a site. They are fixed.
type Rules struct {
	all   []*rule
	exact map[string][]int // indexes of those with Path
	other []int            // indexes of all others
}

// New reads the tables of a site that has these hosts. wrong has what is wrong with each table, by its index.
func New(tables []Config, hosts []string) (rs *Rules, wrong map[int][]site.Fault) {
	rs, wrong = &Rules{exact: make(map[string][]int)}, make(map[int][]site.Fault)
	if len(tables) > Most {
		wrong[Most] = []site.Fault{{Key: "to", Err: fmt.Errorf("a site may have %d redirects, and this one has %d; a pattern stands for many", Most, len(tables))}}
		return rs, wrong
	}
	for i, c := range tables {
		r, faults := read(c)
		if len(faults) > 0 {
			wrong[i] = faults
		}
		rs.all = append(rs.all, r)
		if r.Path != "" {
			rs.exact[r.Path] = append(rs.exact[r.Path], i)
		} else {
			rs.other = append(rs.other, i)
		}
	}
	if len(wrong) > 0 {
		return rs, wrong
	}
	for i := range rs.all {
		if at := rs.circle(i, hosts); at != "" {
			wrong[i] = []site.Fault{{Key: "to", Err: fmt.Errorf("clients would be sent in a circle, by way of %s; want a target that no redirect of the site is for", at)}}
		}
	}
	return rs, wrong
}

// find is the first rule for a request; nil: there is none.
func (rs *Rules) find(host, path string) (found *rule, groups []string) {
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
			return rs.all[i], g
		}
	}
	if first == len(rs.all) {
		return nil, nil
	}
	return rs.all[first], nil
}

// Handle answers a request that a rule is for, and reports whether there is one. It may park.
func (rs *Rules) Handle(x *knot.Ctx) (answered bool, err error) {
	path := x.PathBytes()
	if len(path) == 0 || path[0] != '/' {
		return false, nil
	}
	r, groups := rs.find(strings.ToLower(string(site.BareHost(x.HostBytes()))), x.Path())
	if r == nil {
		return false, nil
	}
	to := r.target(x.Path(), groups, x.Query())
	if len(to) > mostTarget {
		return true, knot.Status(414)
	}
	return true, x.Redirect(r.Status, to)
}
