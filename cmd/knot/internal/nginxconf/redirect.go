package nginxconf

import (
	"regexp"
	"slices"
	"strings"
)

// A target is where a client is sent, or what path is served.
type target struct {
	text     string
	wholeURI bool // the path that was asked for is added
	query    bool // the query that was asked for is kept
	note     string
}

var group = regexp.MustCompile(`\$(\d)`)

// tails are ways to add the query that was asked for.
var tails = []string{"$is_args$args", "$is_args$query_string", "?$args", "?$query_string", "&$args", "&$query_string"}

// targetOf reads a URL with variables; groups are how many $1 there may be. why tells what Knot does not have.
func (s *server) targetOf(url string, groups int) (to target, why string) {
	if rest, ok := strings.CutSuffix(url, "$request_uri"); ok {
		url, to.wholeURI, to.query = rest, true, true
	}
	for _, tail := range tails {
		if rest, ok := strings.CutSuffix(url, tail); ok {
			url, to.query = rest, true
		}
	}
	if rest, ok := strings.CutSuffix(url, "$uri"); ok && !to.wholeURI {
		url, to.wholeURI = rest, true
	}
	for _, host := range []string{"$host", "$http_host", "$server_name"} {
		if rest, ok := strings.CutPrefix(url, "$scheme://"+host); ok {
			url = "/" + strings.TrimPrefix(rest, "/")
		}
		if (len(s.names) == 1 || len(s.names) > 0 && host == "$server_name") && !strings.HasPrefix(s.names[0], "*") {
			url = strings.Replace(url, "://"+host, "://"+s.names[0], 1)
		}
	}
	if rest, ok := strings.CutPrefix(url, "$scheme:"); ok {
		scheme := "http:"
		if slices.ContainsFunc(s.addresses, func(a address) bool { return a.tls }) {
			scheme = "https:"
			if slices.ContainsFunc(s.addresses, func(a address) bool { return !a.tls }) {
				to.note = "nginx keeps the scheme; Knot sends all clients to HTTPS"
			}
		}
		url = scheme + rest
	}
	to.text = url
	for _, m := range group.FindAllStringSubmatch(url, -1) {
		if int(m[1][0]-'0') > groups {
			return to, "there is no group $" + m[1]
		}
	}
	if strings.Contains(group.ReplaceAllString(url, ""), "$") {
		return to, "Knot has no such variables"
	}
	return to, ""
}

// inPattern writes groups as Knot does where a digit follows.
var inPattern = regexp.MustCompile(`\$(\d)(\d)`)

// returns translates a return of a location, or of the server.
func (t *translation) returns(s *server, l *location, d *Directive, out *tables) {
	status, url := statusAndURL(d)
	if url == "" || !strings.HasPrefix(status, "3") {
		if status >= "400" && status <= "498" {
			out.access = append(out.access, denials(l.patterns, status, "")...)
			t.use(d)
			if url != "" {
				t.leave(d, "Knot refuses without a text")
			}
			return
		}
		t.leave(d, "Knot has redirects (301, 302, 307, 308) and refusals (400 to 498)")
		if status > "498" {
			s.unsafe(d, "Knot has refusals of 400 to 498")
		}
		return
	}
	if !slices.Contains([]string{"301", "302", "307", "308"}, status) {
		t.leave(d, "Knot has 301, 302, 307 and 308")
		return
	}
	if s.toHTTPS && strings.HasPrefix(url, "https://$h") { // $host or $http_host
		t.toSameHosts(s, d, status, out)
		return
	}
	groups := 0
	if l.kind == expression {
		re, err := regexp.Compile(l.text)
		if err != nil {
			t.leave(d, "%v", err)
			return
		}
		groups = re.NumSubexp()
	}
	to, why := s.targetOf(url, groups)
	if other := firstOther(s, l); why == "" && other != nil {
		why = "Knot redirects before all else, and location " + strings.Join(other.d.Args, " ") + " has paths of this one"
	}
	if l.kind == expression && l.folder() != "" {
		why = "Knot has expressions of redirects for the whole site"
	}
	if to.wholeURI && l.kind == expression {
		why = "Knot has no $uri beside a pattern"
	}
	if why != "" {
		t.leave(d, "%s", why)
		return
	}
	r := table{name: "[[site.redirect]]"}
	if to.note != "" {
		r.note("%s", to.note)
	}
	switch {
	case l.text == "/" && l.kind == prefix && to.wholeURI:
		r.set("prefix", quote("/"))
		if to.text == "" || to.text == "/" {
			t.leave(d, "it leads to itself")
			return
		}
	case l.kind == exact && !to.wholeURI:
		r.set("path", quote(l.text))
	case to.wholeURI:
		r.set("pattern", quote(l.pattern(true)))
		to.text = strings.TrimSuffix(to.text, "/") + "/$1"
	default:
		r.set("pattern", quote(l.pattern(false)))
		to.text = inPattern.ReplaceAllString(to.text, "$${$1}$2")
	}
	t.use(d)
	r.set("to", quote(to.text))
	r.set("status", status)
	if !to.query {
		r.set("query", "false")
	}
	out.redirects = append(out.redirects, r)
}

// toSameHosts sends clients to the same host of HTTPS, by a table for each.
func (t *translation) toSameHosts(s *server, d *Directive, status string, out *tables) {
	t.use(d)
	for _, name := range s.names {
		if strings.Contains(name, "*") {
			t.leave(d, "Knot redirects to hosts that the configuration has in full, and not to those of %s", name)
			continue
		}
		r := table{name: "[[site.redirect]]"}
		r.set("host", quote(name))
		r.set("to", quote("https://"+name))
		r.set("status", status)
		out.redirects = append(out.redirects, r)
	}
}

// firstOther is a more exact location that is not for redirects or refusals; nil: there is none.
func firstOther(s *server, l *location) *location {
	for _, other := range s.before(l) {
		if len(other.own("return")) == 0 && !other.refuses() {
			return other
		}
	}
	return nil
}

// hostRedirect translates if ($host = name) { return 301 URL; }.
func (t *translation) hostRedirect(s *server, d *Directive, out *tables) {
	if len(d.Args) != 3 || d.arg(0) != "($host" && d.arg(0) != "($http_host" || d.arg(1) != "=" || len(d.Block) != 1 {
		return
	}
	host := strings.ToLower(strings.TrimSuffix(d.arg(2), ")"))
	status, url := statusAndURL(d.Block[0])
	to, why := s.targetOf(strings.Replace(url, "://$host", "://"+host, 1), 0)
	if why != "" || !to.wholeURI || !strings.Contains(to.text, "://") || !slices.Contains([]string{"301", "302", "307", "308"}, status) {
		return
	}
	t.use(d, d.Block[0])
	r := table{name: "[[site.redirect]]"}
	if to.note != "" {
		r.note("%s", to.note)
	}
	r.set("host", quote(host))
	r.set("to", quote(to.text))
	r.set("status", status)
	out.redirects = append(out.redirects, r)
}

// rewrite translates a directive of that name.
func (t *translation) rewrite(s *server, l *location, d *Directive, out *tables) {
	expr, url, flag := d.arg(0), d.arg(1), d.arg(2)
	re, err := regexp.Compile(expr)
	if err != nil {
		t.leave(d, "an expression that Go does not have: %v", err)
		return
	}
	if l.d != nil && (l.kind == expression || l.text != "/" && !strings.HasPrefix(expr, "^"+regexp.QuoteMeta(l.text))) {
		t.leave(d, "Knot has rewrites for the whole site: begin the expression with ^ and the path of the location")
		return
	}
	url, dropsQuery := strings.CutSuffix(url, "?")
	to, why := s.targetOf(url, re.NumSubexp())
	leaves := strings.Contains(to.text, "://") || flag == "permanent" || flag == "redirect"
	switch {
	case why == "" && to.wholeURI:
		why = "Knot has no $uri here: put it into a group"
	case why == "" && !leaves && !strings.HasPrefix(to.text, "/") && strings.HasPrefix(to.text, "$1") && re.NumSubexp() > 0:
		// the group begins with the slash, and Knot adds one where there is none
		to.text = "/" + to.text
	}
	if why != "" {
		t.leave(d, "%s", why)
		return
	}
	t.use(d)
	r := table{name: "[[site.rewrite]]"}
	if leaves {
		r.name = "[[site.redirect]]"
	}
	r.set("pattern", quote(expr))
	r.set("to", quote(inPattern.ReplaceAllString(to.text, "$${$1}$2")))
	if leaves && flag == "permanent" {
		r.set("status", "301")
	}
	if dropsQuery {
		r.set("query", "false")
	}
	if leaves {
		out.redirects = append(out.redirects, r)
		return
	}
	if flag == "" && len(out.rewrites) == 0 {
		r.note("nginx goes on with the rewrites behind this one; Knot takes the first that fits")
	}
	out.rewrites = append(out.rewrites, r)
}
