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
	scope
	d          *Directive
	kind       kind
	text       string
	ignoreCase bool
	patterns   []string // of Knot's, for the same paths; none: there are none
	err        error    // why
}

// locate finds the locations of a block, and those within them.
func (t *translation) locate(s *server, in *scope) {
	for _, d := range in.block {
		if d.Name != "location" || len(d.Args) == 0 {
			continue
		}
		l := &location{scope: scope{in, d.Block}, d: d, kind: prefix, text: d.arg(len(d.Args) - 1)}
		if strings.HasPrefix(l.text, "@") {
			s.named[l.text] = l // it counts as translated when it is used
			continue
		}
		if len(d.Args) == 2 {
			switch d.Args[0] {
			case "=":
				l.kind = exact
			case "^~":
				l.kind = final
			case "~", "~*":
				l.kind, l.ignoreCase = expression, d.Args[0] == "~*"
			}
		}
		if strings.ContainsAny(l.text, "*?") && l.kind != expression {
			l.err = errors.New("the path has a star or a question mark, which patterns of Knot's take for something else")
		} else if !strings.HasPrefix(l.text, "/") && l.kind != expression {
			l.err = errors.New("a path begins with a slash")
		}
		switch {
		case l.err != nil:
		case l.kind == exact:
			l.patterns = []string{l.text}
		case l.kind == expression:
			l.patterns, _, l.err = patternsOf(l.text, l.ignoreCase)
		default:
			l.patterns = []string{l.text + "**"}
		}
		if l.err != nil {
			t.leave(d, "%v", l.err)
			continue
		}
		t.use(d)
		s.locations = append(s.locations, l)
		t.locate(s, &l.scope)
	}
}

// order sorts locations as nginx looks at them.
func (s *server) order() {
	slices.SortStableFunc(s.locations, func(a, b *location) int {
		if a.kind != b.kind || a.kind == expression {
			return cmp.Compare(a.kind, b.kind)
		}
		return cmp.Compare(len(b.text), len(a.text))
	})
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
		if other == l {
			break
		}
		if other.kind == expression || l.kind == expression || strings.HasPrefix(other.text, l.text) {
			all = append(all, other)
		}
	}
	return all
}

// pattern is an expression for the paths of the location; group has the whole path as its first group.
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
		return "^(" + strings.TrimSuffix(text, "$") + ")$"
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
