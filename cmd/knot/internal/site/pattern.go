package site

import (
	"fmt"
	"regexp"
	"strings"
)

// A Pattern matches paths of URLs. In it * stands for any text without a slash, ** for any text,
// and ? for one character that is no slash. A pattern that begins with a slash matches the whole
// path, any other one its last name: *.js matches every script, /assets/** all that is below
// that folder. A path matches as it is after its escapes are decoded, letter by letter, or in any case if (?i) is at the
// beginning of the pattern. The zero Pattern matches nothing.
type Pattern struct {
	re *regexp.Regexp
}

// NewPattern reads a pattern.
func NewPattern(text string) (Pattern, error) {
	flags := "s"
	if rest, folds := strings.CutPrefix(text, "(?i)"); folds {
		text, flags = rest, "si"
	}
	if text == "" {
		return Pattern{}, fmt.Errorf("the pattern is empty; /** matches every path")
	}
	if text[0] != '/' && strings.Contains(text, "/") {
		return Pattern{}, fmt.Errorf("pattern %q has a slash and does not begin with one; want /%s", text, text)
	}
	var re strings.Builder
	re.WriteString(`\A(?` + flags + `:`)
	if text[0] != '/' {
		re.WriteString(".*/")
	}
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "**"):
			re.WriteString(".*")
			rest = rest[2:]
			continue
		case rest[0] == '*':
			re.WriteString("[^/]*")
		case rest[0] == '?':
			re.WriteString("[^/]")
		default:
			end := strings.IndexAny(rest, "*?")
			if end < 0 {
				end = len(rest)
			}
			re.WriteString(regexp.QuoteMeta(rest[:end]))
			rest = rest[end:]
			continue
		}
		rest = rest[1:]
	}
	re.WriteString(`)\z`)
	compiled, err := regexp.Compile(re.String())
	if err != nil {
		return Pattern{}, fmt.Errorf("pattern %q: %w", text, err)
	}
	return Pattern{compiled}, nil
}

// every matches every text.
var every = regexp.MustCompile("")

// OptionalPattern is NewPattern, but for "" it gives a Pattern that matches every path.
func OptionalPattern(text string) (Pattern, error) {
	if text == "" {
		return Pattern{every}, nil
	}
	return NewPattern(text)
}

// Match reports whether path matches.
func (p Pattern) Match(path string) bool { return p.re != nil && p.re.MatchString(path) }

// MatchBytes is Match for bytes.
func (p Pattern) MatchBytes(path []byte) bool { return p.re != nil && p.re.Match(path) }
