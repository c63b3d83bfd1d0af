// Package urgency is how important a request is, as RFC 9218, 4.1, says it: from 0, the most urgent, to 7. Contexts carry it from a
// request to the requests that are made for it. It never parks.
package urgency

import (
	"bytes"
	"context"
	"strconv"
	"strings"
)

const (
	// Header is the line of RFC 9218.
	Header = "Priority"
	// Default is that of requests that say nothing.
	Default = 3
	// Least is that of the least urgent requests.
	Least = 7
)

type key struct{}

// With returns a context that carries the urgency u.
func With(ctx context.Context, u int) context.Context { return context.WithValue(ctx, key{}, u) }

// Of returns the urgency that ctx carries.
func Of(ctx context.Context) (u int, ok bool) {
	u, ok = ctx.Value(key{}).(int)
	return u, ok
}

// IsKey reports whether Of asks for the value of k, in a context that is not made by With.
func IsKey(k any) bool { return k == key{} }

// Parse reads the value of a line: the parameter u of RFC 9218, of which Default is that of a value without it, or a digit alone.
func Parse(value []byte) (u int, ok bool) {
	if u, ok := digit(value); ok {
		return u, true
	}
	u = Default
	for member := range bytes.SplitSeq(value, []byte(",")) {
		member, _, _ = bytes.Cut(member, []byte(";")) // parameters of the member
		name, text, _ := bytes.Cut(bytes.Trim(member, " \t"), []byte("="))
		if len(name) == 0 || (name[0] < 'a' || name[0] > 'z') && name[0] != '*' {
			return 0, false
		}
		if string(name) == "u" { // the last one counts (RFC 9651, 3.2)
			if u, ok = digit(text); !ok {
				return 0, false
			}
		}
	}
	return u, true
}

func digit(text []byte) (u int, ok bool) {
	if len(text) != 1 || text[0] < '0' || text[0] > '0'+Least {
		return 0, false
	}
	return int(text[0] - '0'), true
}

// Format is u as a line with this name has it.
func Format(header string, u int) string {
	text := strconv.Itoa(min(max(u, 0), Least))
	if strings.EqualFold(header, Header) {
		return "u=" + text
	}
	return text
}
