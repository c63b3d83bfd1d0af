package nginxconf

import (
	"net/url"
	"slices"
	"strings"
)

// site makes the tables of a server.
func (t *translation) site(s *server) {
	for _, name := range untranslated {
		if d := s.one(nil, name); d != nil && d.arg(0) != "off" {
			s.unsafe(d, "no table is made of it")
		}
	}
	if d := protects(s.block, untranslated); d != nil { // of a location
		s.unsafe(d, "no table is made of it")
	}
	st := table{name: "[[site]]"}
	if len(t.serving) > 1 {
		st.set("name", quote(t.nameOf(s)))
	}
	st.set("hosts", list(s.names))
	t.largestBody(s.one(s.outer, "client_max_body_size"), "max-body", &st)
	around := &location{level: level{&s.level, nil}, kind: prefix, text: "/", patterns: []string{"/**"}}
	home := s.home()
	if home == nil { // the server stands for all paths that have no location
		home = around
	}
	all := s.locations
	if s.home() == nil {
		all = append(slices.Clone(all), home)
	}
	var out tables
	proxied := t.passes(home)
	root := t.root(s, home, all, proxied, &out)
	t.files(home, root, &st)
	tries := t.try(s, home, all, root, proxied, &st, &out)
	for _, d := range s.own("if") {
		t.hostRedirect(s, d, &out)
	}
	t.location(s, around, root, &out) // first, as in nginx
	ofServer := len(out.redirects)
	for _, l := range s.locations {
		t.location(s, l, root, &out)
	}
	for _, tried := range tries { // named locations, for what is no file
		if d := protects(tried.block, append([]string{"allow"}, protecting...)); d != nil {
			s.unsafe(d, "Knot has no rules for a named location")
		}
		if home.admits() && s.one(nil, "deny") != nil {
			s.unsafe(tried.d, "nginx applies the rules of the server to it, and Knot would apply those of location /")
		}
		for _, d := range tried.own("proxy_pass") {
			t.use(tried.d)
			tried.kind, tried.text = prefix, "/"
			tried.patterns = home.patterns
			t.proxyPass(s, tried, d, t.except(s, home), true, &out)
			t.backendHeaders(tried, &out)
		}
	}
	for _, l := range s.unmatched {
		isRestricted := slices.ContainsFunc(l.all(nil, "allow", "deny"), func(d *Directive) bool { return d.Name == "deny" })
		if isRestricted && slices.ContainsFunc(s.locations, func(other *location) bool { return other.own("allow") != nil }) {
			s.unsafe(l.d, "%v, and an allow of another location would let more clients pass", l.err)
		}
	}
	t.requestTables(s, &out)
	t.serverRules(s, &out)
	t.refuseLost(s, root, &out)
	t.errorPages(s, home, root, &st)
	isEmpty := root == "" && len(out.redirects)+len(out.proxies) == 0
	out.redirects = slices.Insert(out.redirects, ofServer, s.slashes()...)
	over := out.bound(s)
	if s.unsound != nil {
		t.leave(s.unsound, "%s", s.why)
		t.leave(s.d, "the site is left out, as more would be open than in nginx without line %d, %s: %s", s.unsound.Line, s.unsound, s.why)
		t.use(s.unsound)
		t.skipped(s)
		return
	}
	if isEmpty {
		t.leave(s.d, "there is no root, no redirect and no backend that Knot can serve")
		t.skipped(s)
		return
	}
	if len(s.names) == 0 { // without hosts the site would be for every host
		t.leave(s.d, "nginx takes it for the hosts of server_name alone, and Knot has none of them")
		t.skipped(s)
		return
	}
	if over != "" {
		t.leave(s.d, "%s", over)
	}
	t.sites = append(t.sites, st)
	for _, some := range [][]table{out.redirects, out.rewrites, out.bodies, out.limits, out.access, out.passwords, out.headers, out.backend, out.proxies} {
		t.sites = append(t.sites, some...)
	}
}

// passes reports whether a location is for a backend.
func (t *translation) passes(l *location) bool {
	return l.own("proxy_pass") != nil || l.own("fastcgi_pass") != nil
}

// passed reports whether Knot passes requests for a location on.
func (t *translation) passed(l *location) bool {
	d := l.pass()
	return d != nil && t.done[d]
}

// refuseLost refuses paths whose requests nginx passes on, or answers with a certain file, and Knot can't, as they would be
// served as files of the root.
func (t *translation) refuseLost(s *server, root string, out *tables) {
	if root == "" {
		return
	}
	const why = "nginx passes these requests on, and Knot would serve files of the root"
	var refusals []table
	for _, l := range s.locations {
		try := diverts(l.block)
		switch {
		case l.pass() == nil && l.kind == exact && try != nil && slices.Contains(try.Args, l.text): // the file at the path
		case l.pass() == nil && l != s.home() && try != nil:
			refusals = append(refusals, denials(l.patterns, "404", "nginx serves other files for these paths, by try_files")...)
		case l.pass() == nil || t.passed(l):
		case l == s.home():
			s.unsafe(l.pass(), why)
		default:
			refusals = append(refusals, denials(l.patterns, "404", why)...)
		}
	}
	if home := s.home(); len(s.lost) > 0 && (home == nil || !t.passed(home)) {
		s.unsafe(s.lost[0], why)
	}
	out.access = append(refusals, out.access...) // before rules that let some clients pass
}

// denials refuse all requests for paths; note may be "".
func denials(patterns []string, status, note string) (all []table) {
	for _, p := range patterns {
		a := table{name: "[[site.access]]"}
		if note != "" {
			a.note("%s", note)
		}
		a.set("match", quote(p))
		a.set("action", quote("deny"))
		a.set("status", status)
		all = append(all, a)
	}
	return all
}

// slashes are redirects from the path of a location without the slash at its end, as nginx makes them for locations that pass
// requests on. Without them that path would get another location's backend, past the password of this one.
func (s *server) slashes() (all []table) {
	for _, l := range s.locations {
		path, ends := strings.CutSuffix(l.text, "/")
		if !ends || path == "" || l.kind == exact || l.kind == expression || l.pass() == nil {
			continue
		}
		if slices.ContainsFunc(s.locations, func(other *location) bool { return other.kind != expression && other.text == path }) {
			continue
		}
		r := table{name: "[[site.redirect]]"}
		r.set("path", quote(path))
		r.set("to", quote((&url.URL{Path: l.text}).EscapedPath()))
		r.set("status", "301")
		all = append(all, r)
	}
	return all
}

// root is the folder of the site. Other locations may have another one only where that is the same file.
func (t *translation) root(s *server, home *location, all []*location, proxied bool, out *tables) (root string) {
	if d := home.one(nil, "root"); d != nil && !strings.Contains(d.arg(0), "$") && !(proxied && d.arg(0) == "html") {
		root = strings.TrimSuffix(d.arg(0), "/")
		t.use(d)
	}
	if d := home.own("alias"); len(d) == 1 && !strings.Contains(d[0].arg(0), "$") {
		root = strings.TrimSuffix(d[0].arg(0), "/")
		t.use(d[0])
	}
	for _, l := range all {
		for _, d := range slices.Concat(l.own("root"), l.own("alias")) {
			if t.done[d] {
				continue
			}
			folder := strings.TrimSuffix(d.arg(0), "/")
			same := d.Name == "root"
			if d.Name == "alias" && l.kind != expression {
				folder, same = strings.CutSuffix(folder, strings.TrimSuffix(l.text, "/"))
			}
			switch {
			case strings.Contains(folder, "$"):
				t.leave(d, "Knot has no variables in paths")
			case same && (folder == root || root == "" && (proxied || home.own("return") != nil || s.own("return") != nil)):
				t.use(d)
				root = folder
			case d.Name == "alias" && l.kind != expression && root != "" && strings.HasPrefix(folder, root+"/") && protects(l.block, passing) == nil:
				t.use(d)
				l.rewritten = strings.TrimPrefix(folder, root) + "/**"
				r := table{name: "[[site.rewrite]]"}
				if l.kind == exact {
					r.set("path", quote(l.text))
				} else {
					r.set("prefix", quote(strings.TrimSuffix(l.text, "/")))
				}
				r.set("to", quote(strings.TrimPrefix(folder, root)))
				out.rewrites = append(out.rewrites, r)
			default:
				t.leave(d, "a site of Knot's has one folder")
			}
		}
	}
	return root
}

// try translates try_files. It returns the locations, by name, that get what is no file.
func (t *translation) try(s *server, home *location, all []*location, root string, proxied bool, st *table, out *tables) (named []*location) {
	for _, l := range all {
		d := l.own("try_files")
		if l.d == nil {
			d = home.all(nil, "try_files")
		}
		if len(d) == 0 {
			continue
		}
		if text := strings.Join(d[0].Args, " "); l != home && slices.Contains([]string{"$uri =404", "$uri $uri/ =404", "$fastcgi_script_name =404"}, text) {
			t.use(d[0]) // as Knot does
			continue
		}
		if l != home {
			t.leave(d[0], "a site of Knot's has one list, that of location /")
			continue
		}
		if root == "" || proxied {
			t.leave(d[0], "there are no files that could be tried")
			continue
		}
		entries, why := s.entries(d[0])
		if why != "" {
			if diverts(d) != nil {
				s.unsafe(d[0], "%s, and files would be served in its place", why)
			}
			t.leave(d[0], "%s", why)
			continue
		}
		t.use(d[0])
		if last := d[0].Args[len(d[0].Args)-1]; strings.HasPrefix(last, "@") {
			named = append(named, s.named[last])
			if text := strings.Join(entries, " "); text == "$path" || text == "$path $path/" {
				continue // files go before proxies with missing = true
			}
			entries = append(entries, "$path")
		}
		if strings.Join(entries, " ") != "$path $path/ =404" {
			st.set("try", list(entries))
		}
	}
	return named
}

// entries are those of a try_files as Knot writes them, but for the name of a location at the end.
func (s *server) entries(d *Directive) (all []string, why string) {
	if len(d.Args) < 2 || len(d.Args) > 16 {
		return nil, "want 2 to 16 entries"
	}
	for i, a := range d.Args {
		last := i == len(d.Args)-1
		if last && strings.HasPrefix(a, "@") {
			if l := s.named[a]; l == nil || len(l.own("proxy_pass")) != 1 {
				return nil, "Knot has no location " + a + " with a proxy_pass"
			}
			return all, ""
		}
		if last {
			for _, tail := range tails {
				a = strings.TrimSuffix(a, tail)
			}
		}
		if status, ok := strings.CutPrefix(a, "="); ok {
			if !last || status < "400" || status > "599" || len(status) != 3 {
				return nil, "Knot has a status of 400 to 599 at the end"
			}
			all = append(all, a)
			continue
		}
		a = strings.ReplaceAll(a, "$uri", "$path")
		if strings.Contains(strings.ReplaceAll(a, "$path", ""), "$") || !strings.HasPrefix(a, "$path") && !strings.HasPrefix(a, "/") {
			return nil, "Knot knows $uri and paths here"
		}
		all = append(all, a)
	}
	return all, ""
}

// location translates what a location says, besides files.
func (t *translation) location(s *server, l *location, root string, out *tables) {
	in := l.level.block
	if l.d == nil {
		in = s.level.block
	}
	for _, d := range in {
		switch d.Name {
		case "return":
			t.returns(s, l, d, out)
		case "rewrite":
			if !t.done[d] && !(l.own("proxy_pass") != nil && strips(l, d)) {
				t.rewrite(s, l, d, out)
			}
		}
	}
	for _, d := range l.own("proxy_pass") {
		t.proxyPass(s, l, d, t.except(s, l), false, out)
		t.backendHeaders(l, out)
	}
	for _, d := range l.own("fastcgi_pass") {
		t.fastcgiPass(s, l, d, root, out)
	}
	if l.d != nil {
		for _, p := range l.patterns {
			b := table{name: "[[site.body]]"}
			b.set("match", quote(p))
			if t.largestBody(l.one(&s.level, "client_max_body_size"), "max", &b) {
				out.bodies = append(out.bodies, b)
			}
		}
		for _, d := range l.all(&s.level, "internal") { // before rules that let some clients pass
			t.use(d)
			out.access = append(out.access, denials(l.patterns, "404", "")...)
		}
		networks, closed := t.networks(s, l, root)
		t.rules(s, &l.level, &s.level, l, networks, closed, t.passes(l), out)
	}
}
