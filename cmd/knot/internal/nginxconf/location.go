package nginxconf

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// A kind is how a location says which paths it is for, in the order in which nginx looks at them.
type kind int

const (
	exact kind = iota
	final      // ^~, after which no expression is tried
	expression
	prefix
)

// A location is a block of that name, or stands for the server around them.
type location struct {
	level
	d          *Directive
	parent     *location // that it is written in; nil: the server
	kind       kind
	text       string
	ignoreCase bool
	patterns   []string // of Knot's, for the same paths; none: there are none
	err        error    // why
	rewritten  string   // pattern of the paths that files of it have; "": those of patterns
}

// matches reports whether a path is one of the location, if no more exact one has it.
func (l *location) matches(path string) bool {
	switch l.kind {
	case exact:
		return path == l.text
	case expression:
		re, err := regexp.Compile(l.pattern(false))
		return err == nil && strings.HasPrefix(path, l.folder()) && re.MatchString(path)
	}
	return strings.HasPrefix(path, l.text)
}

// folder is the prefix of all paths of an expression within another location; "" if it has none.
func (l *location) folder() string {
	if l.parent == nil || l.parent.text == "/" {
		return ""
	}
	return l.parent.text
}

// depth is how many locations a location is written in.
func (l *location) depth() (n int) {
	for at := l.parent; at != nil; at = at.parent {
		n++
	}
	return n
}

// rank is the place of a kind of location in the order in which nginx looks at them. Expressions within a ^~ go before it.
func (l *location) rank() int {
	if l.kind == expression && l.parent != nil && l.parent.kind == final {
		return 2*int(final) - 1
	}
	return 2 * int(l.kind)
}

// protecting are directives without which more would be open.
var protecting = []string{"deny", "auth_basic", "auth_request", "auth_jwt", "ssl_verify_client", "limit_except", "secure_link", "internal", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "return"}

// passing are directives that pass requests on.
var passing = []string{"proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"}

// responding are directives, besides passing, by which requests get other responses than files of the root.
var responding = []string{"return", "rewrite", "if", "stub_status", "empty_gif", "random_index", "mp4", "flv", "image_filter", "perl", "js_content", "content_by_lua", "content_by_lua_block", "content_by_lua_file"}

// pass is the directive by which requests for a location are passed on; nil: they are not.
func (l *location) pass() *Directive {
	for _, d := range l.block {
		if slices.Contains(passing, d.Name) {
			return d
		}
	}
	return nil
}

// itself are the entries of try_files for the file at the path of the request.
var itself = []string{"$uri", "$document_uri", "$fastcgi_script_name"}

// diverts is the directive of a block by which requests get neither the file at their path nor a backend: a try_files
// without that file; nil: there is none.
func diverts(block []*Directive) *Directive {
	for _, d := range block {
		if d.Name == "try_files" && !slices.ContainsFunc(d.Args, func(a string) bool { return slices.Contains(itself, a) }) {
			return d
		}
	}
	return nil
}

// untranslated are those protecting directives that no table is made of.
var untranslated = []string{"auth_request", "auth_jwt", "ssl_verify_client", "limit_except", "secure_link"}

// protects is the first directive of a block, with those within it, that has one of these names and is not off, nor a return
// that refuses nothing; nil: there is none.
func protects(block []*Directive, names []string) *Directive {
	for _, d := range block {
		status, _ := statusAndURL(d)
		if slices.Contains(names, d.Name) && d.arg(0) != "off" && (d.Name != "return" || status >= "400") {
			return d
		}
		if inner := protects(d.Block, names); inner != nil {
			return inner
		}
	}
	return nil
}

// refuses reports whether a location does nothing but refuse requests.
func (l *location) refuses() bool {
	return len(l.d.Block) > 0 && !slices.ContainsFunc(l.d.Block, func(d *Directive) bool {
		return !(d.Name == "deny" && d.arg(0) == "all" || d.Name == "return" && (d.arg(0) == "404" || d.arg(0) == "403"))
	})
}

// restricts reports whether a location itself says that some requests for its paths are refused.
func (l *location) restricts() bool {
	return slices.ContainsFunc(l.block, func(d *Directive) bool {
		status, _ := statusAndURL(d)
		return d.Name == "allow" || d.Name == "deny" || d.Name == "internal" || status >= "400"
	})
}

// admits reports whether rules of a location itself let some clients pass.
func (l *location) admits() bool {
	all := l.all(l.outer, "allow", "deny")
	return len(all) > 0 && !(all[0].Name == "deny" && all[0].arg(0) == "all")
}

// hasWithin reports whether another location is written in l.
func (l *location) hasWithin(other *location) bool {
	for at := other.parent; at != nil; at = at.parent {
		if at == l {
			return true
		}
	}
	return false
}

// hidesDots reports whether a location only refuses names that begin with a dot, but for .well-known, as Knot does for files.
func (l *location) hidesDots() bool {
	return strings.HasPrefix(strings.TrimPrefix(l.text, "^"), `/\.(?!well-known`) && l.refuses()
}

// onlyRedirects reports whether a location needs no pattern, but an expression of the whole site.
func onlyRedirects(l *location) bool {
	status := ""
	for _, d := range l.block {
		if status, _ = statusAndURL(d); status == "" {
			return false
		}
	}
	return l.kind == expression && l.parent == nil && strings.HasPrefix(status, "3")
}

var (
	errWithin = errors.New("patterns can't say which paths of an expression this location is for")
	errTaken  = errors.New("nginx does not look at this expression for paths of a more exact location beside the one around it, and Knot would")
	errNone   = errors.New("nginx takes this location for no path")
)

// kindOf is the kind of the location of a directive, and its text.
func kindOf(d *Directive) (k kind, text string, ignoreCase bool) {
	k, text = prefix, d.arg(max(0, len(d.Args)-1))
	if len(d.Args) == 2 {
		switch d.Args[0] {
		case "=":
			k = exact
		case "^~":
			k = final
		case "~", "~*":
			k, ignoreCase = expression, d.Args[0] == "~*"
		}
	}
	return k, text, ignoreCase
}

// hasExpressions reports whether a block has locations by expression.
func hasExpressions(block []*Directive) bool {
	return slices.ContainsFunc(block, func(d *Directive) bool {
		k, _, _ := kindOf(d)
		return k == expression && d.Name == "location"
	})
}

// misplaced returns why nginx's choice for l can't be expressed by order alone: nginx chooses among the locations of a block, and
// then among those within the chosen one. nil: it can.
func (l *location) misplaced() error {
	if l.parent != nil && l.parent.kind == expression {
		return errWithin
	}
	for in := l.parent; in != nil; in = in.parent {
		for _, d := range in.outer.block {
			k, text, _ := kindOf(d)
			switch {
			case d.Name == "location" && k == exact && l.kind == exact && l.text == text:
				return errNone
			case d.Name != "location" || d == in.d || k == exact || k == expression || len(text) <= len(in.text) || !strings.HasPrefix(text, in.text):
			case l.kind == expression && strings.HasPrefix(text, l.parent.text):
				return errTaken
			case l.kind != expression && strings.HasPrefix(l.text, text):
				return errNone
			}
		}
	}
	return nil
}

// locate finds the locations of a block, and those within them.
func (t *translation) locate(s *server, in *level, parent *location) {
	for _, d := range in.block {
		if d.Name != "location" || len(d.Args) == 0 {
			continue
		}
		l := &location{level: level{in, d.Block}, d: d, parent: parent}
		l.kind, l.text, l.ignoreCase = kindOf(d)
		if strings.HasPrefix(l.text, "@") {
			s.named[l.text] = l // it counts as translated when it is used
			continue
		}
		if l.kind == final && !hasExpressions(in.block) {
			l.kind = prefix // there is nothing that ^~ could be tried before
		}
		if l.kind == final && parent != nil {
			s.unsafe(d, "Knot does not have ^~ within a location")
		}
		if l.kind == prefix && parent != nil && parent.kind == final {
			l.kind = final
		}
		if strings.ContainsAny(l.text, "*?") && l.kind != expression {
			l.err = errors.New("the path has a star or a question mark, which patterns of Knot's take for something else")
		} else if !strings.HasPrefix(l.text, "/") && l.kind != expression {
			l.err = errors.New("a path begins with a slash")
		} else {
			l.err = l.misplaced()
		}
		switch {
		case l.err != nil:
		case l.kind == exact:
			l.patterns = []string{l.text}
		case l.kind == expression:
			l.patterns, l.err = patternsOf(l.text, l.ignoreCase, l.folder())
			if l.err == nil && len(l.patterns) == 0 {
				l.err = errNone
			}
		default:
			l.patterns = []string{l.text + "**"}
		}
		switch {
		case l.err == errNone:
			t.leave(d, "%v", l.err)
			continue
		case l.hidesDots() && l.err != errWithin: // no pattern can say it, but the paths are for files alone
			t.use(d.Block...)
			l.block, l.patterns = nil, restrictTo(l.folder(), []string{"/.**", "/**/.**"})
		case l.err != nil && !onlyRedirects(l):
			t.leave(d, "%v", l.err)
			s.unmatched = append(s.unmatched, l)
			if inner := protects(d.Block, protecting); inner != nil {
				s.unsafe(d, "%v, and it has %s", l.err, inner)
			}
			if protects(d.Block, passing) != nil || diverts(d.Block) != nil {
				s.lost = append(s.lost, d)
			}
			continue
		}
		t.use(d)
		s.locations = append(s.locations, l)
		t.locate(s, &l.level, l)
	}
}

// order sorts locations as nginx looks at them.
func (s *server) order() {
	slices.SortStableFunc(s.locations, func(a, b *location) int {
		byText := 0
		if a.kind != expression {
			byText = cmp.Compare(len(b.text), len(a.text))
		}
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), byText, cmp.Compare(b.depth(), a.depth()))
	})
	for i, l := range s.locations {
		for _, longer := range s.locations[i+1:] {
			if l.kind == final && longer.kind == prefix && strings.HasPrefix(longer.text, l.text) {
				s.unsafe(longer.d, "nginx tries expressions before it, and not before location ^~ %s, which has paths of it", l.text)
			}
		}
	}
}

// home is the location for all paths that no other is for; nil: the server itself.
func (s *server) home() *location {
	if n := len(s.locations); n > 0 && s.locations[n-1].kind == prefix && s.locations[n-1].text == "/" {
		return s.locations[n-1]
	}
	return nil
}

// before are the locations that have paths of l in nginx, because they are more exact.
func (s *server) before(l *location) (all []*location) {
	for _, other := range s.locations {
		switch {
		case other == l:
			return all
		case other.kind == exact && !l.matches(other.text):
		case other.kind == expression || l.kind == expression || strings.HasPrefix(other.text, l.text):
			all = append(all, other)
		}
	}
	return all
}

// lesser are the locations behind l that have paths of l in Knot.
func (s *server) lesser(l *location) (all []*location) {
	for _, other := range s.locations[slices.Index(s.locations, l)+1:] {
		overlaps := true
		switch {
		case l.kind == expression && other.kind == expression: // patterns can't tell
		case l.kind == expression:
			overlaps = len(restrictTo(other.text, l.patterns)) > 0
		case other.kind == expression && l.kind != exact:
			overlaps = len(restrictTo(l.text, other.patterns)) > 0
		default:
			overlaps = other.matches(l.text)
		}
		if overlaps {
			all = append(all, other)
		}
	}
	return all
}

// pattern is an expression for the paths of the location; group has the path behind its first slash as a group.
func (l *location) pattern(group bool) string {
	text := l.text
	switch l.kind {
	case expression:
		if group {
			return ""
		}
		if l.ignoreCase {
			text = "(?i)" + text
		}
		return text
	case exact:
		text = regexp.QuoteMeta(text) + "$"
	default:
		text = regexp.QuoteMeta(text)
		if group {
			text += ".*"
		}
	}
	if group {
		return "^/(" + strings.TrimSuffix(text[1:], "$") + ")$" // a host in front of the group ends with the slash
	}
	return "^" + text
}

// statusAndURL are what a directive return says; url is "" for a status alone.
func statusAndURL(d *Directive) (status, url string) {
	if d.Name != "return" {
		return "", ""
	}
	if len(d.Args) == 1 {
		if len(d.arg(0)) == 3 && isDigits(d.arg(0)) {
			return d.arg(0), ""
		}
		return "302", d.arg(0)
	}
	return d.arg(0), d.arg(1)
}
