package graphlimits

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A TextRule says which texts are fit to be shown.
type TextRule struct {
	Most  int  // bytes
	Lines bool // line ends and tabs may occur
}

// Name is the rule of the names in a graph.
var Name = TextRule{Most: Text}

// allows reports whether r may stand in a text: it does nothing to a terminal or to the order
// and place of the characters around it, and XML may contain it.
func (rule TextRule) allows(r rune) bool {
	if r < 0x7f {
		return r >= ' ' || rule.Lines && (r == '\n' || r == '\t')
	}
	return r&0xfffe != 0xfffe && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// Fits reports whether text is as rule wants it.
func (rule TextRule) Fits(text string) bool {
	if len(text) > rule.Most {
		return false
	}
	for i := 0; i < len(text); {
		if c := text[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !rule.allows(r) {
			return false
		}
		i += n
	}
	return true
}

// Clean returns text with what rule forbids replaced by U+FFFD, and no longer than it
// allows.
func (rule TextRule) Clean(text string) string {
	if rule.Fits(text) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		if !rule.allows(r) {
			return utf8.RuneError
		}
		return r
	}, text)
	return Shorten(text, rule.Most)
}

// Shorten returns text if it has at most that many bytes, else its beginning and "…".
func Shorten(text string, most int) string {
	const more = "…"
	if len(text) <= most {
		return text
	}
	end := most - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
