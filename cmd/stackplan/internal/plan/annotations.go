package plan

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"strings"
)

//go:embed annotations.txt
var builtin string

// Annotations are what to assume about functions that the analysis can't see
// through. Later lines win over earlier ones.
type Annotations struct {
	rules []rule
}

type rule struct {
	verb    string
	pattern string
	bound   Bytes
	targets []string
	sized   bool
}

// ParseAnnotations reads lines of the form
//
//	bound PATTERN SIZE        what it calls is not looked at: it takes no more than SIZE in all
//	rare PATTERN SIZE         the same, but chunks do not provide for it: it counts in stated bounds only
//	rare PATTERN              what it calls is looked at, but chunks do not provide for it
//	ends PATTERN              it ends the program, so that its stack does not matter
//	panics PATTERN            it starts a panic, which is accounted for separately
//	calls PATTERN PATTERN...  its indirect calls lead there, and nowhere else
//
// A pattern is a function's name as in a stack trace, with * for any text. A # starts a
// comment. Name is for errors.
func ParseAnnotations(name, text string) (*Annotations, error) {
	a := new(Annotations)
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		r := rule{verb: fields[0]}
		bad := func(why string) error { return fmt.Errorf("%s:%d: %s: %q", name, n, why, strings.TrimSpace(line)) }
		if len(fields) < 2 {
			return nil, bad("a name is missing")
		}
		r.pattern = fields[1]
		switch r.verb {
		case "ends", "panics":
			if len(fields) != 2 {
				return nil, bad("want one name")
			}
		case "calls":
			r.targets = fields[2:]
		case "bound", "rare":
			if r.verb == "rare" && len(fields) == 2 {
				break
			}
			if len(fields) != 3 {
				return nil, bad("want a name and a size")
			}
			r.sized = true
			var err error
			if r.bound, err = ParseBytes(fields[2]); err != nil {
				return nil, bad(err.Error())
			}
		default:
			return nil, bad("want bound, rare, ends, panics or calls")
		}
		a.rules = append(a.rules, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// loadAnnotations reads the built-in ones and those in a file, if it has a name.
func loadAnnotations(file string) (*Annotations, error) {
	a, err := ParseAnnotations("built-in annotations", builtin)
	if err != nil || file == "" {
		return a, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	b, err := ParseAnnotations(file, string(text))
	if err != nil {
		return nil, err
	}
	return &Annotations{append(a.rules, b.rules...)}, nil
}

// find returns the last rule for a name among those with one of the verbs, nil if
// there is none.
func (a *Annotations) find(name string, verbs ...string) *rule {
	for i := len(a.rules) - 1; i >= 0; i-- {
		r := &a.rules[i]
		for _, v := range verbs {
			if r.verb == v && match(r.pattern, name) {
				return r
			}
		}
	}
	return nil
}

// match matches a name with a pattern in which * stands for any text.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}
