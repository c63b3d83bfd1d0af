package nginxconf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A table is one of the TOML that is written: "" for the top level, "[[site]]", "[[site.proxy]]".
type table struct {
	name  string
	notes []string // comments before it: where it means something else than nginx
	keys  []string // as key = value
}

// set adds a key, unless it is there already.
func (t *table) set(key, value string) {
	if !slices.ContainsFunc(t.keys, func(k string) bool { return strings.HasPrefix(k, key+" = ") }) {
		t.keys = append(t.keys, key+" = "+value)
	}
}

func (t *table) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// write adds the table to a text, if it says anything.
func (t *table) write(text *strings.Builder) {
	if t.name == "" && len(t.keys)+len(t.notes) == 0 {
		return
	}
	if text.Len() > 0 {
		text.WriteByte('\n')
	}
	for _, n := range t.notes {
		text.WriteString("# " + strings.Map(printable, n) + "\n")
	}
	if t.name != "" {
		text.WriteString(t.name + "\n")
	}
	for _, k := range t.keys {
		text.WriteString(k + "\n")
	}
}

// printable keeps what a name from the configuration has from ending a comment.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// quote is a text of TOML.
func quote(text string) string {
	if strings.Contains(text, `\`) && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r == '\'' || r < ' ' || r == 0x7f }) {
		return "'" + text + "'"
	}
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		switch {
		case r == '"' || r == '\\':
			out.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String() + `"`
}

// list is a list of texts.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i := range texts {
		quoted[i] = quote(texts[i])
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// inline is a table of texts, by pairs of a name and a value. Of two with a name the later counts.
func inline(pairs [][2]string) string {
	var all []string
	for i, p := range pairs {
		if slices.ContainsFunc(pairs[i+1:], func(later [2]string) bool { return later[0] == p[0] }) {
			continue
		}
		name := p[0]
		if !bare.MatchString(name) {
			name = quote(name)
		}
		all = append(all, name+" = "+quote(p[1]))
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

var times = regexp.MustCompile(`^(?:(\d+)([yMwdhms]|ms)?)+$`)

var oneTime = regexp.MustCompile(`(\d+)(ms|[yMwdhms])?`)

var units = map[string]int64{"y": 365 * 86400, "M": 30 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "": 1, "ms": 0}

// seconds is a time as nginx writes it, as 1h30m; ok is false for what is none.
func seconds(text string) (n int64, ok bool) {
	if !times.MatchString(text) {
		return 0, false
	}
	for _, m := range oneTime.FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseInt(m[1], 10, 32)
		if err != nil {
			return 0, false
		}
		n += v * units[m[2]]
	}
	return n, n < 1<<31
}

var sizes = regexp.MustCompile(`^(\d{1,9})([kKmMgG]?)$`)

// size is a size of nginx's as Knot writes it.
func size(text string) (string, bool) {
	m := sizes.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	if m[1] == "0" {
		return "0", true
	}
	return m[1] + map[string]string{"": "B", "K": "KB", "M": "MB", "G": "GB"}[strings.ToUpper(m[2])], true
}
