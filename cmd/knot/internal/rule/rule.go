// Package rule has what redirects and rewrites of command knot have in common: which requests a table is for, by path, prefix,
// pattern or host, and the target that it makes of their path and query.
package rule

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
)

const (
	// Most is how many tables of a kind a site may have.
	Most = 10_000
	// MostTarget is how long a target may be, in bytes: longer ones than most clients take.
	MostTarget = 8 << 10
	// mostPattern is how long a pattern may be, in bytes: it is compiled to a program some ten times as large.
	mostPattern = 1000
)

// A Table is what such tables say. At least one of Path, Prefix, Pattern and Host is there, and at most one of the first three.
type Table struct {
	Path    string // this path, whole
	Prefix  string // this path and all below it
	Pattern string // RE2 expression that matches somewhere in the path
	Host    string // requests for this host alone; "": for all
	To      string // target
	Query   *bool  // add the query of the request; nil: true
	Inside  bool   // the target is on the site
}

// A Rule is a Table that was read.
type Rule struct {
	Table
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

// Read reads a table. A Rule with faults is not to be used.
func Read(t Table) (r *Rule, wrong []site.Fault) {
	r = &Rule{Table: t}
	note := func(key, format string, args ...any) {
		wrong = append(wrong, site.Fault{Key: key, Err: fmt.Errorf(format, args...)})
	}
	given := 0
	for key, text := range map[string]string{"path": t.Path, "prefix": t.Prefix} {
		if text == "" {
			continue
		}
		given++
		if text[0] != '/' {
			note(key, "%q does not begin with a slash; want /%s", text, text)
		}
	}
	if t.Pattern != "" {
		given++
		var err error
		if len(t.Pattern) > mostPattern {
			note("pattern", "it has %d bytes; want at most %d", len(t.Pattern), mostPattern)
		} else if r.re, err = regexp.Compile(t.Pattern); err != nil {
			note("pattern", "%w", err)
		}
	}
	switch {
	case given > 1:
		note("to", "path, prefix and pattern exclude each other; want one of them")
	case given == 0 && t.Host == "":
		note("to", "say which requests it is for, by path, prefix, pattern or host")
	case given == 0:
		r.Prefix = "/"
	}
	r.Prefix = strings.TrimSuffix(r.Prefix, "/")
	r.Host = strings.ToLower(t.Host)
	if strings.ContainsAny(t.Host, "*/:@ ") {
		note("host", "%q is not the name of a host; want one like www.example.org, without a port", t.Host)
	}
	if err := r.readTarget(t.To); err != nil {
		note("to", "%w", err)
	}
	return r, wrong
}

// readTarget reads where clients are sent.
func (r *Rule) readTarget(to string) error {
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
	case to == "" && r.Inside:
		return errors.New("say which path is served, as /index.php")
	case to == "":
		return errors.New("say where clients are sent, as /new or https://example.org")
	case r.Inside && (r.scheme != "" || rest[0] != '/' || strings.Contains(to, "#")):
		return fmt.Errorf("%q; want a path of this site, as /new, perhaps with a query. [[site.redirect]] sends clients elsewhere", to)
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
func (r *Rule) parts(text string) (all []part, err error) {
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

// Groups is how many groups its pattern has.
func (r *Rule) Groups() int { return r.re.NumSubexp() }

// matches reports whether the rule is for a request, and what the groups of its pattern are.
func (r *Rule) matches(host, path string) (groups []string, ok bool) {
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

// Target is where a request for path is sent, that the rule matches. raw is the path with the escapes of the client; "": they are
// not known.
func (r *Rule) Target(path, raw string, groups []string, query string) string {
	var to, asked strings.Builder
	for _, p := range r.path {
		if p.text != "" {
			to.WriteString(p.text)
		} else {
			group := groups[p.group]
			if strings.HasSuffix(to.String(), "/") {
				group = strings.TrimLeft(group, "/")
			}
			to.WriteString(escape(group))
		}
	}
	end := to.String()
	if r.re == nil && r.Path == "" {
		end = strings.TrimSuffix(end, "/") + r.rest(path, raw)
	}
	end = "/" + strings.TrimLeft(end, "/") // two slashes would begin the name of a host
	for _, p := range r.query {
		if p.text != "" {
			asked.WriteString(p.text)
		} else {
			asked.WriteString(url.QueryEscape(groups[p.group]))
		}
	}
	if query != "" && (r.Table.Query == nil || *r.Table.Query) {
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

var slashes = regexp.MustCompile("/+")

// rest is what follows the prefix in path. It is as in raw, where an escaped slash may mean something to the target, unless
// raw has segments of dots, or bytes that a URL does not have.
func (r *Rule) rest(path, raw string) string {
	rest := path[len(r.Prefix):]
	came := strings.TrimPrefix(raw, r.Prefix)
	decoded, err := url.PathUnescape(came)
	if err != nil || !strings.HasPrefix(came, "/") || slashes.ReplaceAllString(decoded, "/") != rest {
		return escape(rest)
	}
	return (&url.URL{Path: decoded, RawPath: came}).EscapedPath()
}
