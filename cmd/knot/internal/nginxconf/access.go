package nginxconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
