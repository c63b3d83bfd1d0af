package nginxconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// needless are directives for which Knot needs none.
var needless = map[string]string{
	"worker_processes": "Knot has an event loop for each processor; the key loops sets another number",
	"events":           "Knot has no such settings",
	"pid":              "Knot writes no such file",
	"user":             "see the key user",
	"sendfile":         "Knot sends files so",
	"tcp_nopush":       "Knot does so",
	"tcp_nodelay":      "Knot does so",
	"types":            "Knot has a table of types, and the system's",
	"default_type":     "Knot has a table of types, and the system's",
	"access_log":       "see the key log",
	"error_log":        "Knot writes errors to the standard error",
	"log_format":       "see the key log-format",
	"server_tokens":    `see [[site.header]], remove = ["Server"]`,
	"proxy_buffering":  "Knot sends on at once what comes from a backend",
	"gzip_comp_level":  "Knot chooses it",
	"gzip_proxied":     "Knot compresses for proxies too",
	"gzip_disable":     "Knot goes by Accept-Encoding",
	"gzip_buffers":     "Knot has no such setting",
	"ssl_protocols":    "see the key tls-min; Knot speaks TLS 1.2 and 1.3",
	"ssl_ciphers":      "Knot takes those of Go's crypto/tls",
	"proxy_cache":      "see [[site.cache]]",
	"if":               "Knot has no conditions but host names that are redirected",
	"log_not_found":    "Knot does not log missing files as errors",
	"include":          "there is no such file",
}

// A Leftover is a directive that is not translated.
type Leftover struct {
	File string
	Line int
	Text string // what it is, and why
}

func (l Leftover) String() string { return fmt.Sprintf("%s:%d: %s", l.File, l.Line, l.Text) }

// A translation is under way.
type translation struct {
	done      map[*Directive]bool
	why       map[*Directive]string
	top       table
	upstreams map[string]*Directive
	zones     map[string]*Directive // limit_req_zone, by name
	servers   []*server
	listens   []table
	serving   []string        // addresses on which there are sites
	secure    map[string]bool // those with TLS
	sites     []table
}

// Translate makes a configuration of Knot's of one of nginx's, and says what it leaves out.
func Translate(conf []*Directive) (toml []byte, left []Leftover) {
	t := &translation{done: make(map[*Directive]bool), why: make(map[*Directive]string), upstreams: make(map[string]*Directive), zones: make(map[string]*Directive)}
	main := &level{block: conf}
	for _, d := range conf {
		if d.Name == "http" && d.HasBlock {
			t.use(d)
			t.http(&level{main, d.Block})
		}
	}
	if slices.ContainsFunc(conf, func(d *Directive) bool { return d.Name == "server" || d.Name == "upstream" }) {
		t.http(main) // a file of sites-enabled
	}
	t.write()
	var text strings.Builder
	t.top.write(&text)
	for _, all := range [][]table{t.listens, t.sites} {
		for i := range all {
			all[i].write(&text)
		}
	}
	t.walk(conf, &left)
	return []byte(text.String()), left
}

// skipped notes that what a server says is not translated after all.
func (t *translation) skipped(s *server) { s.dropped, t.done[s.d] = true, false }

// use notes that directives are translated.
func (t *translation) use(all ...*Directive) {
	for _, d := range all {
		t.done[d] = true
	}
}

// leave notes why a directive is not translated, wholly or in part.
func (t *translation) leave(d *Directive, format string, args ...any) {
	t.why[d] = fmt.Sprintf(format, args...)
}

// walk collects what is left out.
func (t *translation) walk(block []*Directive, left *[]Leftover) {
	for _, d := range block {
		why, left1 := t.why[d]
		if left1 || !t.done[d] {
			text := d.String()
			if d.HasBlock {
				text += " { }"
			}
			if why = cmp.Or(why, needless[d.Name]); why != "" {
				text += ": " + why
			}
			*left = append(*left, Leftover{d.File, d.Line, strings.Map(printable, text)})
		}
		if t.done[d] {
			t.walk(d.Block, left)
		}
	}
}

// A level is a block with those around it.
type level struct {
	outer *level
	block []*Directive
}

// own are the directives of the block itself by that name.
func (s *level) own(name string) (all []*Directive) {
	for _, d := range s.block {
		if d.Name == name {
			all = append(all, d)
		}
	}
	return all
}

// all are those that are in force: nginx takes those of the nearest block that has any. Levels from until on do not count.
func (s *level) all(until *level, names ...string) (all []*Directive) {
	for at := s; at != nil && at != until; at = at.outer {
		for _, d := range at.block {
			if slices.Contains(names, d.Name) {
				all = append(all, d)
			}
		}
		if len(all) > 0 {
			return all
		}
	}
	return nil
}

// one is the first of those; nil: there is none.
func (s *level) one(until *level, name string) *Directive {
	if all := s.all(until, name); len(all) > 0 {
		return all[0]
	}
	return nil
}

// value is the first argument of the directive that one returns, which then counts as translated; "": there is none.
func (t *translation) value(s *level, name string) string {
	d := s.one(nil, name)
	if d == nil {
		return ""
	}
	t.use(d)
	return d.arg(0)
}

func (t *translation) http(s *level) {
	for _, d := range s.block {
		switch d.Name {
		case "upstream":
			t.upstreams[d.arg(0)] = d
		case "limit_req_zone":
			for _, a := range d.Args {
				if name, ok := strings.CutPrefix(a, "zone="); ok {
					name, _, _ = strings.Cut(name, ":")
					t.zones[name] = d
				}
			}
		case "map":
			if d.arg(0) == "$http_upgrade" { // for the header Connection, which Knot sets
				t.use(d)
				t.use(d.Block...)
			}
		case "keepalive_timeout":
			if n, ok := seconds(d.arg(0)); ok && n > 0 {
				t.use(d)
				t.top.set("idle-timeout", quote(fmt.Sprintf("%ds", n)))
			}
		case "client_max_body_size":
			t.largestBody(d, "max-body", &t.top)
		case "server":
			if d.HasBlock {
				t.servers = append(t.servers, t.newServer(d, s))
			}
		}
	}
}

// write makes the tables of all servers.
func (t *translation) write() {
	t.dropEmpty()
	t.mergeAddresses()
	t.chooseAddresses()
	t.certificates()
	for _, s := range t.kept() {
		t.site(s)
	}
	t.listenTables()
}

// certificates are those of all servers, from which Knot chooses by the name that a client asks for.
func (t *translation) certificates() {
	var certs, keys []string
	for _, s := range t.servers {
		if slices.ContainsFunc(s.addresses, func(a address) bool { return a.tls }) && !s.dropped && len(s.all(nil, "ssl_certificate")) == 0 {
			s.unsafe(s.d, "it has no ssl_certificate")
		}
		all, some := s.all(nil, "ssl_certificate"), s.all(nil, "ssl_certificate_key")
		for i, d := range all {
			switch {
			case i >= len(some) || d.arg(0) == "" || some[i].arg(0) == "":
				t.leave(d, "it has no ssl_certificate_key")
			case strings.Contains(d.arg(0)+some[i].arg(0), "$"):
				t.leave(d, "Knot has no variables in paths")
			case strings.Contains(d.arg(0)+some[i].arg(0), ","):
				t.leave(d, "Knot takes no commas in such a path")
			default:
				t.use(d, some[i])
				if !slices.Contains(certs, d.arg(0)) {
					certs, keys = append(certs, d.arg(0)), append(keys, some[i].arg(0))
				}
			}
		}
	}
	if len(certs) > 0 {
		t.top.set("tls-cert", list(certs))
		t.top.set("tls-key", list(keys))
	}
}

// largestBody sets a key to what a client_max_body_size says, if there is one, and reports whether it did.
func (t *translation) largestBody(d *Directive, key string, to *table) bool {
	if d == nil {
		return false
	}
	text, ok := size(d.arg(0))
	if ok {
		t.use(d)
		to.set(key, quote(text))
	}
	return ok
}
