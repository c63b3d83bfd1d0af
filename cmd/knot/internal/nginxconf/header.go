package nginxconf

import (
	"fmt"
	"slices"
	"strings"
)

// headerLines translates add_header, expires and proxy_hide_header.
func (t *translation) headerLines(s *server, in, until *level, patterns []string, proxied bool) (tables []table) {
	added := in.all(until, "add_header")
	lines, always := t.addedHeaders(added)
	if len(added)*len(patterns) > mostRules {
		for _, d := range added {
			t.leave(d, "the lines and the patterns of their paths make more than %d tables", mostRules)
		}
		lines, always = nil, nil
	}
	if d := in.one(until, "expires"); d != nil {
		if value, ok := cacheControl(d); ok {
			t.use(d)
			if value != "" {
				lines = withCacheControl(lines, value)
			}
		} else {
			t.leave(d, "Knot has a time, max, epoch and off")
		}
	}
	var hidden []string
	for _, d := range in.all(until, "proxy_hide_header", "fastcgi_hide_header") {
		t.use(d)
		hidden = append(hidden, d.arg(0))
	}
	both := until != nil && len(added) > 0 && len(s.all(nil, "add_header")) > 0
	sent, sentAlways := byOccurrence(lines), byOccurrence(always)
	for _, p := range patterns {
		for i, some := range slices.Concat(sent, sentAlways) {
			h := table{name: "[[site.header]]"}
			if both {
				h.note("nginx does not send the add_header lines of the server here; Knot sends both")
			}
			h.set("match", quote(p))
			isAlways := i >= len(sent)
			switch {
			case proxied || i > 0 && i != len(sent):
				if !isAlways {
					h.set("statuses", list([]string{"2xx", "3xx"}))
				}
				h.set("add", inline(some))
			case isAlways:
				h.set("set", inline(some))
				h.set("always", "true")
			default:
				h.set("set", inline(some))
			}
			tables = append(tables, h)
		}
		if len(hidden) > 0 {
			h := table{name: "[[site.header]]"}
			h.set("match", quote(p))
			h.set("remove", list(hidden))
			tables = append([]table{h}, tables...) // before lines of that name are set
		}
	}
	return tables
}

// byOccurrence has the first lines of all names, then the second ones, and so on: a name twice needs another table.
func byOccurrence(lines [][2]string) (groups [][][2]string) {
	count := make(map[string]int)
	for _, line := range lines {
		n := count[strings.ToLower(line[0])]
		count[strings.ToLower(line[0])]++
		if n == len(groups) {
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], line)
	}
	return groups
}

// ownLines are the header lines that a server writes itself.
var ownLines = []string{"content-length", "transfer-encoding", "connection", "date", "upgrade", "te", "trailer", "keep-alive", "content-type"}

// addedHeaders are the lines of add_header: those of responses that are right, and of all.
func (t *translation) addedHeaders(all []*Directive) (lines, always [][2]string) {
	for _, d := range all {
		name, value := d.arg(0), d.arg(1)
		switch {
		case strings.Contains(value, "$"):
			t.leave(d, "Knot has no variables here")
		case slices.Contains(ownLines, strings.ToLower(name)) || name == "" || strings.ContainsFunc(name, isNoTokenRune):
			t.leave(d, "Knot writes that line itself")
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > 0x7e }):
			t.leave(d, "the value has characters that a header has not")
		case value == "":
			t.use(d)
		case d.arg(2) == "always":
			t.use(d)
			always = append(always, [2]string{name, value})
		default:
			t.use(d)
			lines = append(lines, [2]string{name, value})
		}
	}
	return lines, always
}

func isNoTokenRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
}

// cacheControl is the value of Cache-Control for an expires; "": none.
func cacheControl(d *Directive) (string, bool) {
	text := d.arg(0)
	switch {
	case len(d.Args) != 1:
		return "", false
	case text == "off":
		return "", true
	case text == "max":
		return "max-age=315360000", true
	case text == "epoch", strings.HasPrefix(text, "-"):
		return "no-cache", true
	}
	n, ok := seconds(strings.TrimPrefix(text, "+"))
	return fmt.Sprintf("max-age=%d", n), ok
}

// withCacheControl adds what expires says to what add_header says of the same line.
func withCacheControl(lines [][2]string, value string) [][2]string {
	for i := range lines {
		if strings.EqualFold(lines[i][0], "Cache-Control") {
			lines[i][1] = value + ", " + lines[i][1]
			return lines
		}
	}
	return append(lines, [2]string{"Cache-Control", value})
}

// files translates what a folder is shown by, and compression of files.
func (t *translation) files(home *location, root string, st *table) {
	if root == "" {
		return
	}
	st.set("root", quote(root))
	if d := home.one(nil, "index"); d != nil {
		var names []string
		for _, name := range d.Args {
			if name == "" || strings.ContainsAny(name, "/$") {
				t.leave(d, "%s: Knot has names of files here", name)
				continue
			}
			names = append(names, name)
		}
		t.use(d)
		if len(names) > 0 && !slices.Equal(names, []string{"index.html"}) {
			st.set("index", list(names))
		}
	}
	if d := home.one(nil, "autoindex"); d != nil {
		t.use(d)
		if d.arg(0) == "on" {
			st.set("listing", "true")
		}
	}
	for _, name := range []string{"gzip", "gzip_types", "gzip_min_length", "gzip_vary", "gzip_static"} { // Knot compresses files by default
		t.use(home.all(nil, name)...)
	}
	if d := home.one(nil, "gzip"); d != nil && d.arg(0) == "off" {
		st.set("compress", "false")
	}
}

// compressed has the responses of a backend compressed where gzip is on.
func (t *translation) compressed(l *location, out *table) {
	on, types, least := l.one(nil, "gzip"), l.one(nil, "gzip_types"), l.one(nil, "gzip_min_length")
	t.use(l.all(nil, "gzip_vary", "gzip_static")...)
	if on == nil {
		return
	}
	t.use(on)
	if on.arg(0) != "on" {
		return
	}
	var keys []string
	names := []string{"text/html"}
	if types != nil {
		t.use(types)
		names = append(names, types.Args...)
	}
	if slices.Contains(names, "*") {
		names = nil
	}
	if names = slices.DeleteFunc(names, func(n string) bool { return strings.Count(n, "/") != 1 }); len(names) > 0 {
		slices.Sort(names)
		keys = append(keys, "types = "+list(slices.Compact(names)))
	}
	if least != nil {
		if text, ok := size(least.arg(0)); ok && text != "0" {
			t.use(least)
			keys = append(keys, "min = "+quote(text))
		}
	}
	out.set("compress", "{ "+strings.Join(keys, ", ")+" }")
}

// errorPages translates error_page of the server and of location /.
func (t *translation) errorPages(s *server, home *location, root string, st *table) {
	var pages [][2]string
	for _, d := range home.all(nil, "error_page") {
		n := len(d.Args) - 1
		if n < 1 {
			continue
		}
		path, statuses := d.Args[n], d.Args[:n]
		last := statuses[len(statuses)-1]
		switch {
		case root == "":
			t.leave(d, "Knot's pages of errors lie below root")
			continue
		case last == "=200" && len(statuses) == 2 && statuses[0] == "404" && strings.HasPrefix(path, "/"):
			t.use(d)
			st.set("fallback", quote(path))
			continue
		case strings.HasPrefix(last, "=") || !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "$?"):
			t.leave(d, "Knot has a file below root as the page of a status, which stays")
			continue
		}
		if l := s.find(path); l != nil && (t.passes(l) || slices.ContainsFunc(l.own("root"), func(r *Directive) bool { return strings.TrimSuffix(r.arg(0), "/") != root })) {
			t.leave(d, "Knot's pages of errors are files below root")
			continue
		}
		t.use(d)
		for _, status := range statuses {
			if len(status) == 3 && isDigits(status) && status >= "400" && !slices.ContainsFunc(pages, func(p [2]string) bool { return p[0] == status }) {
				pages = append(pages, [2]string{status, path})
			}
		}
	}
	if len(pages) > 0 {
		st.set("error-pages", inline(pages))
	}
}
