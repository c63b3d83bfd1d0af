package nginxconf

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

const (
	// mostPatterns is how many patterns of Knot's may stand for one expression.
	mostPatterns = 64
	// mostExpression is how long an expression may be, in bytes.
	mostExpression = 1000
)

// Ends of the path within what expand returns.
const (
	beginning = "\x00"
	end       = "\x01"
)

// folding is a flag within an expression that has letters match in any case, or ends that.
var folding = regexp.MustCompile(`\(\?[a-zA-Z-]*i`)

var errExpression = errors.New("patterns of Knot's can't say what this expression says; they have *, ** and ?")

// patternsOf are the patterns that match those paths beginning with folder that a regular expression matches.
func patternsOf(expression string, ignoreCase bool, folder string) (all []string, err error) {
	if rest, folds := strings.CutPrefix(expression, "(?i)"); folds {
		expression, ignoreCase = rest, true
	}
	flags, begin := syntax.Perl, ""
	if ignoreCase {
		flags, begin = flags|syntax.FoldCase, "(?i)"
	}
	if folder != "" {
		begin = "" // the folder has one case
	}
	if len(expression) > mostExpression || folding.MatchString(expression) {
		return nil, errExpression
	}
	re, err := syntax.Parse(expression, flags)
	if err != nil {
		return nil, fmt.Errorf("an expression that Go does not have: %w", err)
	}
	parts, err := expand(re, begin != "")
	if err != nil {
		return nil, err
	}
	for _, text := range parts {
		if begin != "" {
			text = strings.ToLower(text)
		}
		some, err := whole(text)
		if err != nil {
			return nil, err
		}
		for _, pattern := range restrictTo(folder, some) {
			if !slices.Contains(all, begin+pattern) {
				all = append(all, begin+pattern)
			}
		}
	}
	if len(all) > mostPatterns {
		return nil, errExpression
	}
	return all, nil
}

// expand is what an expression matches, as patterns with marks for the ends of the path. Patterns that ignore case have each text once.
func expand(re *syntax.Regexp, ignoreCase bool) (all []string, err error) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, nil
	case syntax.OpLiteral:
		text := string(re.Rune)
		if strings.ContainsAny(text, "*?"+beginning+end) {
			return nil, errExpression
		}
		if re.Flags&syntax.FoldCase != 0 && !ignoreCase { // as [Aa]
			return expand(bothCases(re.Rune), false)
		}
		return []string{text}, nil
	case syntax.OpBeginText:
		return []string{beginning}, nil
	case syntax.OpEndText:
		return []string{end}, nil
	case syntax.OpCapture:
		return expand(re.Sub[0], ignoreCase)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar, syntax.OpCharClass:
		return expandClass(re)
	case syntax.OpStar, syntax.OpPlus:
		return expandRepeat(re)
	case syntax.OpQuest:
		all, err = expand(re.Sub[0], ignoreCase)
		return append(all, ""), err
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			some, err := expand(sub, ignoreCase)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case syntax.OpConcat:
		all = []string{""}
		for _, sub := range re.Sub {
			some, err := expand(sub, ignoreCase)
			if err != nil || len(all)*len(some) > mostPatterns {
				return nil, errExpression
			}
			var next []string
			for _, a := range all {
				for _, b := range some {
					next = append(next, a+b)
				}
			}
			all = next
		}
		return all, nil
	}
	return nil, errExpression
}

// bothCases is the expression for a text in any case.
func bothCases(text []rune) *syntax.Regexp {
	all := &syntax.Regexp{Op: syntax.OpConcat}
	for _, r := range text {
		lower, upper := unicode.ToLower(r), unicode.ToUpper(r)
		one := &syntax.Regexp{Op: syntax.OpCharClass, Rune: []rune{upper, upper, lower, lower}}
		if lower == upper {
			one.Rune = one.Rune[:2]
		}
		all.Sub = append(all.Sub, one)
	}
	return all
}

// isAny reports whether an expression matches any one character, and isName any but a slash.
func isAny(re *syntax.Regexp) bool {
	return re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

func isName(re *syntax.Regexp) bool {
	return re.Op == syntax.OpCharClass && slices.Equal(re.Rune, []rune{0, '/' - 1, '/' + 1, '\U0010ffff'})
}

func expandClass(re *syntax.Regexp) (all []string, err error) {
	if isName(re) {
		return []string{"?"}, nil
	}
	if isAny(re) {
		return []string{"?", "/"}, nil
	}
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if len(all) == 10 || strings.ContainsRune("*?"+beginning+end, r) {
				return nil, errExpression
			}
			all = append(all, string(r))
		}
	}
	return all, nil
}

func expandRepeat(re *syntax.Regexp) ([]string, error) {
	sub, least := re.Sub[0], ""
	if sub.Op == syntax.OpCapture {
		sub = sub.Sub[0]
	}
	switch {
	case isName(sub):
		if re.Op == syntax.OpPlus {
			least = "?"
		}
		return []string{least + "*"}, nil
	case isAny(sub) && re.Op == syntax.OpPlus:
		return []string{"?**", "/**"}, nil
	case isAny(sub):
		return []string{"**"}, nil
	}
	return nil, errExpression
}

// whole are the patterns for a path somewhere in which text is found.
func whole(text string) ([]string, error) {
	text, begins := strings.CutPrefix(text, beginning)
	text, ends := strings.CutSuffix(text, end)
	if strings.ContainsAny(text, beginning+end) {
		return nil, errExpression
	}
	if !ends {
		text += "**"
	}
	switch {
	case begins && strings.HasPrefix(text, "/"), begins && strings.HasPrefix(text, "**"):
	case begins:
		return nil, errExpression // every path begins with a slash
	case strings.HasPrefix(text, "/"):
		return []string{collapse(text), collapse("/**" + text)}, nil
	case !strings.Contains(text, "/") && ends && !strings.HasPrefix(text, "?") && !strings.Contains(text, "**"):
		return []string{collapse("*" + text)}, nil
	default:
		text = "/**" + text
	}
	if !strings.HasPrefix(text, "/") {
		text = "/" + text // of **, which matches the slash too
	}
	return []string{collapse(text)}, nil
}

// collapse takes stars together that stand beside each other.
func collapse(text string) string {
	for strings.Contains(text, "***") {
		text = strings.ReplaceAll(text, "***", "**")
	}
	return text
}

// restrictTo returns the patterns for those paths beginning with folder that one of the given patterns matches; "" is every folder.
func restrictTo(folder string, patterns []string) (all []string) {
	if folder == "" {
		return patterns
	}
	for _, p := range patterns {
		begin, in := "", folder
		if rest, folds := strings.CutPrefix(p, "(?i)"); folds {
			p, begin, in = rest, "(?i)", strings.ToLower(folder)
		}
		if !strings.HasPrefix(p, "/") {
			p = collapse("/**" + p)
		}
		rests := []string{p} // what may follow the part of the folder that was read
		for _, r := range in {
			var next []string
			for _, rest := range rests {
				next = append(next, afterRune(r, rest)...)
			}
			slices.Sort(next)
			rests = slices.Compact(next)
		}
		for _, rest := range rests {
			all = append(all, collapse(begin+in+rest))
		}
	}
	return all
}

// afterRune returns the patterns for the texts that follow r where a pattern matches.
func afterRune(r rune, pattern string) []string {
	if rest, isStar := strings.CutPrefix(pattern, "**"); isStar {
		return append(afterRune(r, rest), pattern)
	}
	if rest, isStar := strings.CutPrefix(pattern, "*"); isStar {
		if r == '/' {
			return afterRune(r, rest)
		}
		return append(afterRune(r, rest), pattern)
	}
	if rest, isMark := strings.CutPrefix(pattern, "?"); isMark && r != '/' {
		return []string{rest}
	}
	if rest, isSame := strings.CutPrefix(pattern, string(r)); isSame {
		return []string{rest}
	}
	return nil
}
