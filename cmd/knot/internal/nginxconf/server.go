package nginxconf

import (
	"fmt"
	"slices"
	"strings"
)

// A server is a block of that name.
type server struct {
	level
	d         *Directive
	names     []string // hosts, as Knot writes them
	addresses []address
	locations []*location // in the order in which nginx looks at them
	named     map[string]*location
	unmatched []*location  // left out, as no pattern says which paths they are for
	lost      []*Directive // the locations with a backend that the import could not translate
	toHTTPS   bool         // it only sends clients to HTTPS
	dropped   bool         // no site is made of it
	unsound   *Directive   // without which more would be open than in nginx; nil: there is none
	why       string
}

// An address is one that a server listens on.
type address struct {
	d         *Directive // nil: it is nginx's default
	text      string     // as Knot writes it
	tls       bool
	isDefault bool
}

func (t *translation) newServer(d *Directive, outer *level) *server {
	s := &server{level: level{outer, d.Block}, d: d, named: make(map[string]*location)}
	t.use(d)
	for _, n := range s.own("server_name") {
		t.names(s, n)
	}
	for _, l := range s.own("listen") {
		t.listen(s, l)
	}
	if len(s.addresses) == 0 {
		s.addresses = []address{{text: ":80"}}
	}
	t.locate(s, &s.level, nil)
	s.order()
	t.dropChallenges(s)
	s.toHTTPS = t.onlyToHTTPS(s)
	return s
}

// unsafe notes that the site must not be served without a directive.
func (s *server) unsafe(d *Directive, format string, args ...any) {
	if s.unsound == nil {
		s.unsound, s.why = d, fmt.Sprintf(format, args...)
	}
}

// find is the location that nginx takes for a path; nil: there is none.
func (s *server) find(path string) *location {
	for _, l := range s.locations {
		if l.matches(path) {
			return l
		}
	}
	return nil
}

func (t *translation) names(s *server, d *Directive) {
	t.use(d)
	for _, name := range d.Args {
		name = strings.ToLower(name)
		switch {
		case name == "_" || name == "" || name == "localhost" && len(s.names) > 0:
		case strings.HasPrefix(name, "."):
			s.names = append(s.names, name[1:], "*"+name)
		case strings.HasPrefix(name, "~"), strings.HasSuffix(name, ".*"), strings.HasPrefix(name, "$"), strings.Contains(strings.TrimPrefix(name, "*."), "*"):
			t.leave(d, "%s: Knot has names, and stars at their beginning, as *.example.org", name)
		case strings.ContainsFunc(name, func(r rune) bool { return r > 0x7e || r <= ' ' }):
			t.leave(d, "%s: Knot takes names in ASCII, as xn--...", name)
		case !slices.Contains(s.names, name):
			s.names = append(s.names, name)
		}
	}
}

func (t *translation) listen(s *server, d *Directive) {
	t.use(d)
	a := address{d: d, text: d.arg(0)}
	switch at, isUnix := strings.CutPrefix(a.text, "unix:"); {
	case isUnix && at != "":
	case strings.HasPrefix(a.text, "*:"), strings.HasPrefix(a.text, "[::]:"), strings.HasPrefix(a.text, "0.0.0.0:"):
		a.text = a.text[strings.LastIndex(a.text, ":"):]
	case isDigits(a.text):
		a.text = ":" + a.text
	case strings.HasSuffix(a.text, "]"), !strings.Contains(a.text, ":") && a.text != "":
		a.text += ":80"
	}
	for _, p := range d.Args[min(1, len(d.Args)):] {
		switch p {
		case "ssl":
			a.tls = true
		case "default_server", "default":
			a.isDefault = true
		case "http2", "ipv6only=on", "ipv6only=off": // Knot speaks HTTP/2, and :80 is IPv4 and IPv6
		case "proxy_protocol":
			t.leave(d, "proxy_protocol: name the balancers in the key proxy-protocol of the table")
		default:
			t.leave(d, "%s: Knot has no such setting", p)
		}
	}
	if ssl := s.one(nil, "ssl"); ssl != nil && ssl.arg(0) == "on" {
		t.use(ssl)
		a.tls = true
	}
	for i := range s.addresses {
		if s.addresses[i].text == a.text { // 80 and [::]:80
			s.addresses[i].isDefault = s.addresses[i].isDefault || a.isDefault
			return
		}
	}
	s.addresses = append(s.addresses, a)
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// dropEmpty drops servers that only refuse hosts: Knot answers with 421 for hosts that no site has.
func (t *translation) dropEmpty() {
	for _, s := range t.servers {
		returns := s.own("return")
		if len(returns) != 1 || len(s.names) > 0 || len(returns[0].Args) != 1 || returns[0].arg(0) < "4" || len(returns[0].arg(0)) != 3 {
			continue
		}
		s.dropped = true
		t.use(returns[0])
		t.use(s.own("ssl_reject_handshake")...)
		t.top.note("hosts that no site has get 421, where %s:%d has return %s", s.d.File, s.d.Line, returns[0].arg(0))
	}
}

// mergeAddresses takes addresses away from servers where Knot listens on every address of the same port.
func (t *translation) mergeAddresses() {
	for _, s := range t.servers {
		s.addresses = slices.DeleteFunc(s.addresses, func(a address) bool {
			every := ":" + a.text[strings.LastIndexByte(a.text, ':')+1:]
			hasEvery := func(o *server) bool {
				return !o.dropped && slices.ContainsFunc(o.addresses, func(b address) bool { return b.text == every })
			}
			if a.text == every || strings.HasPrefix(a.text, "unix:") || !slices.ContainsFunc(t.servers, hasEvery) {
				return false
			}
			if !hasEvery(s) {
				s.unsafe(a.d, "Knot listens on %s, and can't serve a site on one address of that port", every)
			}
			return true
		})
	}
}

// chooseAddresses makes the tables of addresses, and decides which servers get the hosts that none has.
func (t *translation) chooseAddresses() {
	var order []string
	at := make(map[string][]*server)
	t.secure = make(map[string]bool)
	for _, s := range t.servers {
		for _, a := range s.addresses {
			if at[a.text] == nil {
				order = append(order, a.text)
			}
			at[a.text] = append(at[a.text], s)
			t.secure[a.text] = t.secure[a.text] || a.tls
		}
	}
	var redirecting []string
	for _, addr := range order {
		left := slices.DeleteFunc(slices.Clone(at[addr]), func(s *server) bool { return s.dropped })
		toHTTPS := func(s *server) bool { return s.toHTTPS }
		switch {
		case len(left) == 0:
			continue // no server is left there
		case slices.ContainsFunc(left, toHTTPS) && !slices.ContainsFunc(left, func(s *server) bool { return !s.toHTTPS }):
			redirecting = append(redirecting, addr)
			for _, s := range left {
				s.dropped = true
				t.useRedirect(s)
			}
		default:
			for _, s := range left {
				if s.toHTTPS && !slices.ContainsFunc(s.names, func(name string) bool { return !strings.Contains(name, "*") }) {
					s.dropped = true
					t.leave(s.d, "redirect-http is for all hosts of an address, and %s has others, which are served there", addr)
				}
			}
			t.serving = append(t.serving, addr)
			t.chooseDefault(addr, at[addr])
		}
	}
	if len(redirecting) > 0 {
		t.top.note("redirect-http sends clients to HTTPS with 308, which keeps a POST a POST, and knows the hosts of the sites alone")
		t.top.set("redirect-http", list(redirecting))
	}
}

// listenTables are those of the addresses on which there are sites.
func (t *translation) listenTables() {
	anyTLS := slices.ContainsFunc(t.serving, func(a string) bool { return t.secure[a] })
	for _, addr := range t.serving {
		if len(t.serving) == 1 {
			t.top.set("addr", quote(addr))
			return
		}
		l := table{name: "[[listen]]"}
		l.set("addr", quote(addr))
		if anyTLS && !t.secure[addr] {
			l.set("tls", "false")
		}
		var names []string
		for _, s := range t.kept() {
			if slices.ContainsFunc(s.addresses, func(a address) bool { return a.text == addr }) {
				names = append(names, t.nameOf(s))
			}
		}
		if len(names) == 0 {
			continue
		}
		if len(names) < len(t.kept()) {
			l.set("sites", list(names))
		}
		t.listens = append(t.listens, l)
	}
}

// kept are the servers that become sites.
func (t *translation) kept() []*server {
	return slices.DeleteFunc(slices.Clone(t.servers), func(s *server) bool { return s.dropped })
}

// nameOf is the key name of the site.
func (t *translation) nameOf(s *server) string {
	return fmt.Sprintf("server-%d", slices.Index(t.servers, s)+1)
}

// chooseDefault gives the hosts that no server of an address names to the one that nginx would take, if it does not have
// the address with another one that has them.
func (t *translation) chooseDefault(addr string, all []*server) {
	first := all[0]
	for _, s := range all {
		if slices.ContainsFunc(s.addresses, func(a address) bool { return a.text == addr && a.isDefault }) {
			first = s
		}
	}
	if first.dropped || slices.Contains(first.names, "*") {
		return
	}
	for _, other := range t.servers {
		for _, a := range other.addresses {
			if other != first && slices.Contains(other.names, "*") && slices.ContainsFunc(first.addresses, func(mine address) bool { return mine.text == a.text }) {
				return
			}
		}
	}
	first.names = append(first.names, "*")
}

// onlyToHTTPS reports whether a server does nothing but send clients to the same URL of HTTPS.
func (t *translation) onlyToHTTPS(s *server) bool {
	if slices.ContainsFunc(s.addresses, func(a address) bool { return a.tls }) {
		return false
	}
	sends := func(d *Directive, hosts ...string) bool {
		_, url := statusAndURL(d)
		host, ok := strings.CutPrefix(url, "https://")
		host, whole := strings.CutSuffix(host, "$request_uri")
		return ok && whole && (host == "$host" || host == "$http_host" || host == "$server_name" && len(s.names) == 1 || slices.Equal(hosts, []string{host}))
	}
	if all := s.own("return"); len(all) == 1 && sends(all[0], s.names...) {
		return true
	}
	if len(s.locations) > 0 {
		home := s.home()
		return len(s.locations) == 1 && home != nil && len(home.own("return")) == 1 && sends(home.own("return")[0], s.names...)
	}
	ifs := s.own("if") // as certbot writes them
	for _, d := range ifs {
		if d.arg(0) != "($host" || len(d.Block) != 1 || d.Block[0].Name != "return" || !sends(d.Block[0], strings.TrimSuffix(d.arg(2), ")")) {
			return false
		}
	}
	return len(ifs) > 0
}

// useRedirect notes that the directives of such a server are translated.
func (t *translation) useRedirect(s *server) {
	t.use(s.own("return")...)
	for _, d := range s.own("if") {
		t.use(d)
		t.use(d.Block...)
	}
	for _, l := range s.locations {
		t.use(l.own("return")...)
	}
}

// dropChallenges drops the locations that prove names to an authority from a server that redirects all other paths.
func (t *translation) dropChallenges(s *server) {
	home := s.home()
	if home == nil || len(home.own("return")) != 1 {
		return
	}
	if _, url := statusAndURL(home.own("return")[0]); !strings.Contains(url, "://") || !strings.HasSuffix(url, "$request_uri") {
		return
	}
	s.locations = slices.DeleteFunc(s.locations, func(l *location) bool {
		drop := strings.HasPrefix(l.text, "/.well-known/acme-challenge")
		if drop {
			t.done[l.d] = false
			t.leave(l.d, "Knot redirects these too: set certbot's webroot to the root of the site that answers then (certbot certonly --webroot -w ROOT), or use the key acme")
		}
		return drop
	})
}
