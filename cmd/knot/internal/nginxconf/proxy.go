package nginxconf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot/proxy"
)

// A backend is what proxy_pass or fastcgi_pass name.
type backend struct {
	to       []string
	weights  []int
	balance  string
	keys     [][2]string // further keys of the table
	upstream string      // its name; "": it is one server
}

// hostPort adds a port to an address that has none.
func hostPort(addr, port string) string {
	if strings.HasPrefix(addr, "unix:") || strings.Contains(strings.TrimRight(addr[strings.LastIndex(addr, "]")+1:], "0123456789"), ":") {
		return addr
	}
	return addr + ":" + port
}

// backend reads where requests go; scheme is http:// or https://, and "" for FastCGI.
func (t *translation) backend(scheme, addr string) backend {
	port := "80"
	if scheme == "https://" {
		port = "443"
	}
	full := func(addr string) string {
		if strings.HasPrefix(addr, "unix:") {
			return addr
		}
		return scheme + hostPort(addr, port)
	}
	up := t.upstreams[addr]
	if up == nil {
		return backend{to: []string{full(addr)}}
	}
	t.use(up)
	b := backend{upstream: addr}
	weighted := false
	seen := make(map[string]string) // of keys that Knot has for all backends of a table
	for _, d := range up.Block {
		switch d.Name {
		case "server":
			weight := t.upstreamServer(d, seen)
			weighted = weighted || weight != 1
			b.to, b.weights = append(b.to, full(d.arg(0))), append(b.weights, weight)
		case "least_conn", "random", "zone":
			t.use(d)
			if d.Name != "least_conn" {
				t.leave(d, "Knot takes the backend with the fewest requests")
			}
		case "ip_hash":
			t.use(d)
			b.balance = "hash client"
		case "hash":
			if key := map[string]string{"$remote_addr": "client", "$binary_remote_addr": "client", "$request_uri": "path", "$uri": "path"}[d.arg(0)]; key != "" {
				t.use(d)
				b.balance = "hash " + key
			} else {
				t.leave(d, "Knot has hash client, path, header and cookie")
			}
		case "keepalive":
			if n, err := strconv.Atoi(d.arg(0)); err == nil && n > 0 {
				t.use(d)
				b.keys = append(b.keys, [2]string{"keep-conns", fmt.Sprint(n)})
			}
		}
	}
	for _, key := range []string{"max-fails", "fail-time", "max-conns"} {
		if seen[key] != "" {
			b.keys = append(b.keys, [2]string{key, seen[key]})
		}
	}
	if !weighted {
		b.weights = nil
	}
	return b
}

// upstreamServer reads the parameters of a server of an upstream.
func (t *translation) upstreamServer(d *Directive, seen map[string]string) (weight int) {
	t.use(d)
	weight = 1
	for _, p := range d.Args[min(1, len(d.Args)):] {
		name, value, _ := strings.Cut(p, "=")
		n, err := strconv.Atoi(value)
		key := ""
		switch {
		case name == "weight" && err == nil && n <= 1000:
			weight = n
			continue
		case name == "down":
			weight = 0
			continue
		case name == "max_fails" && err == nil:
			key = "max-fails"
			if n == 0 {
				n = -1
			}
			value = fmt.Sprint(n)
		case name == "max_conns" && err == nil:
			if n == 0 {
				continue
			}
			key, value = "max-conns", fmt.Sprint(n)
		case name == "fail_timeout":
			if n, ok := seconds(value); ok {
				key, value = "fail-time", quote(fmt.Sprintf("%ds", n))
				if n == 0 {
					key, value = "max-fails", "-1"
				}
			}
		}
		switch {
		case key == "":
			t.leave(d, "%s: Knot has no such setting", p)
		case seen[key] != "" && seen[key] != value:
			t.leave(d, "%s: Knot has one value for all backends of a table", p)
		default:
			seen[key] = value
		}
	}
	return weight
}

// write adds the keys of a backend.
func (b *backend) write(out *table) {
	out.set("to", list(b.to))
	if b.weights != nil {
		out.set("weights", strings.ReplaceAll(fmt.Sprint(b.weights), " ", ", "))
	}
	if b.balance != "" {
		out.set("balance", quote(b.balance))
	}
	for _, k := range b.keys {
		out.set(k[0], k[1])
	}
}

var passURL = regexp.MustCompile(`^(https?://)(unix:[^:]+|[^/$]+):?(/.*)?$`)

// proxyPass translates a proxy_pass. missing: it is for what is no file.
func (t *translation) proxyPass(s *server, l *location, d *Directive, except []string, missing bool, out *tables) {
	m := passURL.FindStringSubmatch(d.arg(0))
	if m == nil || strings.Contains(d.arg(0), "$") {
		t.leave(d, "Knot knows its backends before a request comes, without variables")
		return
	}
	common := table{name: "[[site.proxy]]"}
	b := t.backend(m[1], m[2])
	if len(b.to) == 0 {
		t.leave(d, "the upstream has no server")
		return
	}
	if m[1] == "https://" && slices.ContainsFunc(b.to, func(to string) bool { return strings.HasPrefix(to, "unix:") }) {
		t.leave(d, "Knot speaks TLS to backends by TCP alone")
		return
	}
	b.write(&common)
	if uri := m[3]; uri != "" && uri != l.text && l.kind != expression {
		if uri != "/" || !strings.HasSuffix(l.text, "/") || l.kind == exact {
			t.leave(d, "Knot takes a prefix off (strip), as where the URL ends with / behind the host")
			return
		}
		common.set("strip", quote(strings.TrimSuffix(l.text, "/")))
	}
	for _, r := range l.own("rewrite") {
		if strips(l, r) {
			t.use(r)
			common.set("strip", quote(strings.TrimSuffix(l.text, "/")))
		}
	}
	t.use(d)
	t.proxyHost(s, l, m[2], &common)
	if m[1] == "https://" {
		verify := l.one(nil, "proxy_ssl_verify")
		if verify != nil {
			t.use(verify)
		}
		if verify == nil || verify.arg(0) != "on" {
			common.note("nginx does not verify the certificate of this backend; Knot does. See the key tls")
		}
	}
	t.timeouts(l, "proxy", &common)
	t.compressed(l, &common)
	if v := l.one(nil, "proxy_http_version"); v != nil {
		t.use(v)
	}
	if v := l.one(nil, "proxy_redirect"); v != nil && v.arg(0) == "off" {
		t.use(v)
	}
	out.addProxies(common, l.patterns, except, missing)
}

// strips reports whether a rewrite takes the path of its location off.
func strips(l *location, r *Directive) bool {
	if l.kind == expression || l.kind == exact || r.arg(2) != "break" || !strings.HasSuffix(l.text, "/") {
		return false
	}
	path := strings.TrimSuffix(l.text, "/")
	expr := strings.TrimSuffix(r.arg(0), "$")
	return r.arg(1) == "/$1" && (expr == "^"+path+"/(.*)" || expr == "^"+path+"/?(.*)") || r.arg(1) == "$1" && (expr == "^"+path+"(/.*)" || expr == "^"+path+"(.*)")
}

// except are the patterns of more exact locations that Knot has no backend for: of files, and of what it can't pass on.
func (t *translation) except(s *server, l *location) (all []string) {
	for _, other := range s.before(l) {
		if !t.passed(other) && other.own("return") == nil {
			all = append(all, other.patterns...)
			if other.hidesDots() {
				t.leave(other.d, "no backend gets paths with a name that begins with a dot, nor those of /.well-known")
			}
			if other.rewritten != "" {
				all = append(all, other.rewritten)
			}
		}
	}
	return all
}

// addProxies adds a table for each pattern.
func (out *tables) addProxies(common table, patterns, except []string, missing bool) {
	for _, p := range patterns {
		one := table{name: common.name, notes: common.notes}
		if p != "/**" {
			one.set("match", quote(p))
		}
		if len(except) > 0 {
			one.set("except", list(except))
		}
		if missing {
			one.set("missing", "true")
		}
		one.keys = append(one.keys, common.keys...)
		out.proxies = append(out.proxies, one)
	}
}

// proxyHost translates the line Host of proxy_set_header; backendHeaders translates the others.
func (t *translation) proxyHost(s *server, l *location, addr string, out *table) {
	host := "backend"
	if t.upstreams[addr] != nil {
		host = addr
	}
	for _, d := range l.all(nil, "proxy_set_header") {
		name, value := strings.ToLower(d.arg(0)), d.arg(1)
		if name != "host" {
			continue
		}
		switch value {
		case "$host", "$http_host", "$host:$server_port":
			host = ""
			t.use(d)
		case "$proxy_host":
			t.use(d)
		default:
			if strings.Contains(value, "$") {
				t.leave(d, "Knot has no such variables")
			} else {
				host = value
				t.use(d)
			}
		}
	}
	if host != "" {
		out.set("host", quote(host))
	}
}

// own are lines that Knot sets itself towards backends.
var own = map[string][]string{
	"x-forwarded-for":    {"$proxy_add_x_forwarded_for", "$remote_addr"},
	"x-forwarded-proto":  {"$scheme"},
	"x-forwarded-host":   {"$host", "$http_host"},
	"upgrade":            {"$http_upgrade"},
	"connection":         {"upgrade", "Upgrade", "", "$connection_upgrade", "keep-alive"},
	"x-real-ip":          {"$remote_addr"},
	"x-forwarded-server": nil,
}

// requestLines are those directives proxy_set_header of a location with a backend that become lines of tables.
type requestLines struct {
	l     *location
	lines []*Directive
}

// has reports whether one of the lines has that name.
func (r *requestLines) has(name string) bool {
	return slices.ContainsFunc(r.lines, func(d *Directive) bool { return strings.EqualFold(d.arg(0), name) })
}

// backendHeaders finds the other lines towards the backend of a proxy_pass.
func (t *translation) backendHeaders(l *location, out *tables) {
	r := requestLines{l: l}
	for _, d := range l.all(nil, "proxy_set_header") {
		name, value := d.arg(0), d.arg(1)
		lower := strings.ToLower(name)
		switch {
		case lower == "host":
		case slices.Contains(own[lower], value):
			t.use(d)
		case strings.Contains(value, "$"):
			t.leave(d, "Knot has no variables here")
		case proxy.CheckHeader(name, value) != nil:
			t.leave(d, "%v", proxy.CheckHeader(name, value))
		default:
			t.use(d)
			r.lines = append(r.lines, d)
		}
	}
	out.requests = append(out.requests, r)
}

// requestTables makes tables of the lines towards backends. A table is also for the paths of more exact locations. The tables of
// those locations stand behind it, and remove its lines if they have none of the same name.
func (t *translation) requestTables(s *server, out *tables) {
	for i, r := range out.requests {
		var set [][2]string
		var remove []string
		for _, d := range r.lines {
			if d.arg(1) == "" {
				remove = append(remove, d.arg(0))
			} else {
				set = append(set, [2]string{d.arg(0), d.arg(1)})
			}
		}
		for _, wider := range out.requests[i+1:] {
			for _, d := range wider.lines {
				if r.has(d.arg(0)) || !slices.Contains(s.before(wider.l), r.l) {
					continue
				}
				t.leave(d, "more exact locations don't get this line, not even from clients")
				if !slices.Contains(remove, d.arg(0)) {
					remove = append(remove, d.arg(0))
				}
			}
		}
		if len(set)+len(remove) == 0 {
			continue
		}
		var tables []table
		for _, p := range r.l.patterns {
			h := table{name: "[[site.header]]"}
			h.set("match", quote(p))
			if len(set) > 0 {
				h.set("backend-set", inline(set))
			}
			if len(remove) > 0 {
				h.set("backend-remove", list(remove))
			}
			tables = append(tables, h)
		}
		out.backend = append(tables, out.backend...)
	}
}

// timeouts translates those of proxy_pass or fastcgi_pass, whose names begin with module.
func (t *translation) timeouts(l *location, module string, out *table) {
	for _, k := range []struct{ name, key string }{{"_connect_timeout", "connect-timeout"}, {"_read_timeout", "response-timeout"}} {
		d := l.one(nil, module+k.name)
		if d == nil {
			continue
		}
		if n, ok := seconds(d.arg(0)); ok && n > 0 {
			t.use(d)
			text := quote(fmt.Sprintf("%ds", n))
			out.set(k.key, text)
			if k.key == "response-timeout" {
				out.set("idle-timeout", text)
				if module == "proxy" && n > 3600 { // by default a tunnel has an hour
					out.set("tunnel-timeout", text)
				}
			}
		}
	}
}

// documentRoots are names of the folder of a location, and scriptNames of the path of a script below it.
var (
	documentRoots = []string{"$document_root", "$realpath_root"}
	scriptNames   = []string{"$fastcgi_script_name", "$uri", "$document_uri"}
)

// ownParams are parameters for which Knot has values like those of nginx's variables.
var ownParams = []string{"PATH_INFO", "SCRIPT_NAME", "QUERY_STRING", "REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH", "HTTPS", "PATH_TRANSLATED"}

// scripts is the folder in which nginx finds the scripts of a location by their paths. The site is unsafe if there is no such folder.
func (t *translation) scripts(s *server, l *location, pass *Directive, root string) (folder string) {
	if all := l.all(nil, "root", "alias"); len(all) > 0 {
		switch {
		case all[0].Name == "root":
			root = strings.TrimSuffix(all[0].arg(0), "/")
		case !t.done[all[0]]:
			s.unsafe(all[0], "Knot runs no scripts below an alias of another folder")
		}
	}
	folder = root
	for _, p := range l.all(nil, "fastcgi_param") {
		if p.arg(0) != "SCRIPT_FILENAME" {
			continue
		}
		t.use(p)
		before, ok := "$document_root", p.arg(1) == "$request_filename"
		for _, name := range scriptNames {
			if rest, is := strings.CutSuffix(p.arg(1), name); is {
				before, ok = strings.TrimSuffix(rest, "/"), true
				break
			}
		}
		if !ok {
			s.unsafe(p, "Knot runs the script at the path of the request")
		}
		folder = before
		if slices.Contains(documentRoots, before) {
			folder = root
		}
	}
	if !strings.HasPrefix(folder, "/") || strings.Contains(folder, "$") {
		s.unsafe(pass, "Knot wants the absolute path of the folder of the scripts, and not %q", folder)
	}
	return folder
}

// fastcgiPass translates a fastcgi_pass.
func (t *translation) fastcgiPass(s *server, l *location, d *Directive, root string, out *tables) {
	if strings.Contains(d.arg(0), "$") || d.arg(0) == "" {
		s.unsafe(d, "Knot knows its backends before a request comes, without variables")
		return
	}
	if root == "" {
		t.leave(d, "there is no root that scripts could be in")
		return
	}
	b := t.backend("", d.arg(0))
	if len(b.to) == 0 {
		s.unsafe(d, "the upstream has no server")
		return
	}
	t.use(d)
	common := table{name: "[[site.proxy]]"}
	b.write(&common)
	scripts := t.scripts(s, l, d, root)
	keys := []string{"root = " + quote(scripts)}
	if index := t.value(&l.level, "fastcgi_index"); index != "" && index != "index.php" && !strings.Contains(index, "$") {
		keys = append(keys, "index = "+quote(index))
	}
	t.use(l.all(nil, "fastcgi_split_path_info")...)
	for _, v := range l.own("set") {
		if v.arg(1) == "$fastcgi_path_info" { // for PATH_INFO, past a try_files
			t.use(v)
		}
	}
	var set [][2]string
	for _, p := range l.all(nil, "fastcgi_param") {
		name, value := p.arg(0), p.arg(1)
		switch {
		case name == "SCRIPT_FILENAME": // see scripts
		case name == "DOCUMENT_ROOT" && (slices.Contains(documentRoots, value) || value == scripts), slices.Contains(ownParams, name) && strings.Contains(value, "$"):
			t.use(p)
		case strings.Contains(value, "$"):
			t.leave(p, "Knot has no variables here")
		default:
			t.use(p)
			set = append(set, [2]string{name, value})
		}
	}
	if len(set) > 0 {
		keys = append(keys, "set = "+inline(set))
	}
	common.set("fastcgi", "{ "+strings.Join(keys, ", ")+" }")
	t.timeouts(l, "fastcgi", &common)
	t.compressed(l, &common)
	out.requests = append(out.requests, requestLines{l: l})
	out.addProxies(common, l.patterns, t.except(s, l), false)
}
