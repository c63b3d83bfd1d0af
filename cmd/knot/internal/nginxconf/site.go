package nginxconf

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
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

// serverRules translates rules of the server, or of all servers, that hold where no location has its own.
func (t *translation) serverRules(s *server, out *tables) {
	networks := s.all(nil, "allow", "deny")
	t.rules(s, &s.level, nil, &location{patterns: []string{"/**"}}, networks, false, slices.ContainsFunc(s.locations, t.passes), out)
}

// networks are the directives allow and deny for a location. closed: nothing else may be said of requests for its paths.
func (t *translation) networks(s *server, l *location, root string) (all []*Directive, closed bool) {
	all = l.all(&s.level, "allow", "deny")
	ofServer, lesser := s.all(nil, "allow", "deny"), s.lesser(l)
	if !l.hidesDots() && !t.answers(l, root) {
		opensLesser := l.admits() && slices.ContainsFunc(lesser, (*location).restricts)
		if opensLesser || len(all) == 0 && len(ofServer) > 0 && slices.ContainsFunc(lesser, (*location).admits) {
			t.leave(l.d, "Knot refuses requests for its paths, as it has other rules than the location whose responses Knot would send")
			return []*Directive{{Name: "deny", Args: []string{"all"}}}, true
		}
		return all, true
	}
	if len(all) > 0 || l.restricts() || l.hidesDots() {
		return all, true
	}
	all = ofServer
	if t.escapes(s, l, lesser) {
		return append(all, &Directive{Name: "allow", Args: []string{"all"}}), true
	}
	if slices.ContainsFunc(lesser, (*location).admits) {
		return all, false
	}
	return nil, false
}

// answers reports whether requests for a location get what nginx sends, as far as that can be told from the directives that
// are translated.
func (t *translation) answers(l *location, root string) bool {
	for _, d := range l.block {
		if slices.Contains(responding, d.Name) && !t.done[d] {
			return false
		}
	}
	if root == "" || t.passed(l) {
		return true
	}
	folder := l.all(nil, "root", "alias")
	return len(folder) > 0 && (t.done[folder[0]] && folder[0].Name == "alias" || folder[0].Name == "root" && strings.TrimSuffix(folder[0].arg(0), "/") == root)
}

// rules translates who may come, header lines and limits, of the levels from s up to until.
func (t *translation) rules(s *server, in, until *level, l *location, networks []*Directive, closed, proxied bool, out *tables) {
	patterns := l.patterns
	if len(networks)*len(patterns) > mostRules {
		s.unsafe(networks[0], "its networks and the patterns of its paths make more than %d tables", mostRules)
		networks = nil
	}
	ordered := t.accessRules(networks, patterns, closed)
	out.access = append(out.access, ordered...)
	out.limits = append(out.limits, t.limits(in.all(until, "limit_req"), patterns)...)
	out.passwords = append(out.passwords, t.passwords(s, in, until, patterns)...)
	if l.rewritten != "" { // lines of files go by their own path
		patterns = append(slices.Clone(patterns), l.rewritten)
	}
	headers := t.headerLines(s, in, until, patterns, proxied)
	out.headers = append(headers, out.headers...) // of two that set a line the later counts: the more exact one
}

// escapes reports whether nginx takes l, which has no rules of access, for paths that rules of less exact locations are for
// in Knot. An expression escapes the rules of location / and of the locations that it is written in alone.
func (t *translation) escapes(s *server, l *location, lesser []*location) bool {
	if l.kind != expression {
		return slices.ContainsFunc(lesser, (*location).restricts)
	}
	isAround := func(other *location) bool { return other == s.home() || other.hasWithin(l) }
	if !slices.ContainsFunc(lesser, func(other *location) bool { return other.restricts() && isAround(other) }) {
		return false
	}
	for _, other := range lesser {
		if other.restricts() && other.kind != expression && !isAround(other) {
			t.leave(l.d, "Knot applies the rules of less exact locations to its paths, as location %s is for some of them", other.text)
			return false
		}
	}
	return true
}

// accessRules translates allow and deny. closed: nothing else may be said of requests for these paths.
func (t *translation) accessRules(all []*Directive, patterns []string, closed bool) (tables []table) {
	if len(all) == 0 {
		return nil
	}
	for _, p := range patterns {
		open := true
		for i := 0; i < len(all); {
			var from []string
			name := all[i].Name
			for ; i < len(all) && all[i].Name == name; i++ {
				t.use(all[i])
				from = append(from, all[i].arg(0))
			}
			a := table{name: "[[site.access]]"}
			a.set("match", quote(p))
			if slices.Contains(from, "all") {
				open, i = false, len(all)
			} else {
				a.set("from", list(from))
			}
			a.set("action", quote(name))
			tables = append(tables, a)
		}
		t.use(all...)
		if open && closed { // nginx lets others pass, and does not look at the rules of the server
			a := table{name: "[[site.access]]"}
			a.set("match", quote(p))
			a.set("action", quote("allow"))
			tables = append(tables, a)
		}
	}
	return tables
}

var limitKeys = map[string]string{"$binary_remote_addr": "client", "$remote_addr": "client", "$uri": "path", "$request_uri": "path"}

// limits translates limit_req.
func (t *translation) limits(all []*Directive, patterns []string) (tables []table) {
	for _, d := range all {
		args := make(map[string]string)
		for _, a := range d.Args {
			name, value, _ := strings.Cut(a, "=")
			args[name] = value
		}
		zone := t.zones[args["zone"]]
		if zone == nil {
			t.leave(d, "there is no limit_req_zone of that name")
			continue
		}
		key, rate := limitKeys[zone.arg(0)], ""
		if name, ok := strings.CutPrefix(zone.arg(0), "$http_"); ok {
			key = "header:" + strings.ReplaceAll(name, "_", "-")
		} else if name, ok := strings.CutPrefix(zone.arg(0), "$cookie_"); ok {
			key = "cookie:" + name
		}
		for _, a := range zone.Args {
			if text, ok := strings.CutPrefix(a, "rate="); ok {
				rate = text
			}
		}
		n, err := strconv.Atoi(strings.TrimRight(rate, "r/sm"))
		burst, burstErr := strconv.Atoi(args["burst"])
		if args["burst"] == "" {
			burst, burstErr = 0, nil
		}
		unit := rate[max(0, len(rate)-1):]
		if key == "" || err != nil || n < 1 || burstErr != nil || burst < 0 || unit != "s" && unit != "m" {
			t.leave(d, "Knot has limits by client, path, header and cookie, as rate = \"10/s\"")
			continue
		}
		t.use(d, zone)
		for _, p := range patterns {
			l := table{name: "[[site.limit]]"}
			if _, ok := args["nodelay"]; !ok && burst > 0 {
				l.note("nginx has requests wait that come faster than the rate; Knot answers the first %d at once, the others with 429", burst+1)
			} else {
				l.note("requests beyond it get 429, where nginx has 503")
			}
			if p != "/**" {
				l.set("match", quote(p))
			}
			if key != "client" {
				l.set("key", list([]string{key}))
			}
			l.set("rate", quote(fmt.Sprintf("%d/%s", n, unit)))
			l.set("burst", fmt.Sprint(burst+1))
			tables = append(tables, l)
		}
	}
	return tables
}

// passwords translates auth_basic.
func (t *translation) passwords(s *server, in, until *level, patterns []string) (tables []table) {
	d := in.one(until, "auth_basic")
	if d == nil {
		return nil
	}
	if d.arg(0) == "off" {
		if until == nil {
			t.use(d)
		} else {
			t.leave(d, "Knot asks for a password on all paths that a pattern matches")
		}
		return nil
	}
	file := in.one(nil, "auth_basic_user_file")
	if file == nil || strings.Contains(file.arg(0)+d.arg(0), "$") {
		s.unsafe(d, "want auth_basic_user_file, without variables")
		return nil
	}
	t.use(d, file)
	for _, p := range patterns {
		w := table{name: "[[site.password]]"}
		w.note("Knot takes passwords hashed with bcrypt alone: knot hash NAME, or htpasswd -B")
		w.set("match", quote(p))
		w.set("realm", quote(d.arg(0)))
		w.set("users", quote(file.arg(0)))
		tables = append(tables, w)
	}
	return tables
}
