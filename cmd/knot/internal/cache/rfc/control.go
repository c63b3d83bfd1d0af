package rfc

import (
	"math"
	"slices"
	"strings"
	"time"
)

// A Field is a header line.
type Field struct{ Name, Value string }

// A Header is the lines of a message in their order.
type Header []Field

// Get returns the list that all lines with a name make (RFC 9110, 5.3), and whether there is one.
func (h Header) Get(name string) (list string, ok bool) {
	for _, f := range h {
		switch {
		case !strings.EqualFold(f.Name, name):
		case ok:
			list += ", " + f.Value
		default:
			list, ok = f.Value, true
		}
	}
	return list, ok
}

// Has reports whether there is a line with that name.
func (h Header) Has(name string) bool {
	return slices.ContainsFunc(h, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// Absent is a time that a directive does not give.
const Absent time.Duration = -1

// longest is for how long a response may be fresh, and the value of max-stale without a number: larger numbers mean it
// (RFC 9111, 1.2.2).
const longest = math.MaxInt32 * time.Second

// A Control is what Cache-Control says, of a request or a response. Times are Absent where it does not say them.
type Control struct {
	NoStore, NoCache, Private, Public, Immutable             bool
	MustRevalidate, ProxyRevalidate, MustUnderstand          bool
	OnlyIfCached                                             bool
	MaxAge, SMaxAge, MaxStale, MinFresh, IfError, Revalidate time.Duration
	// Fields are header lines that no-cache="…" and private="…" name: they must not be stored.
	Fields []string
}

// ParseControl reads the value of Cache-Control, that of several lines joined by commas. Unknown directives are ignored
// (RFC 9111, 5.2.3). Of a directive that is there twice the shortest time counts, and a time that is none is 0: that
// response is stale (RFC 9111, 4.2.1).
func ParseControl(value string) Control {
	c := Control{MaxAge: Absent, SMaxAge: Absent, MaxStale: Absent, MinFresh: Absent, IfError: Absent, Revalidate: Absent}
	for value != "" {
		var name, argument string
		var has bool
		name, argument, has, value = directive(value)
		c.take(strings.ToLower(name), argument, has)
	}
	return c
}

func (c *Control) take(name, argument string, has bool) {
	switch name {
	case "no-store":
		c.NoStore = true
	case "no-cache", "private":
		if has && argument != "" { // the form with names
			for one := range strings.SplitSeq(argument, ",") {
				c.Fields = append(c.Fields, strings.TrimSpace(one))
			}
			return
		}
		c.NoCache = c.NoCache || name == "no-cache"
		c.Private = c.Private || name == "private"
	case "public":
		c.Public = true
	case "immutable":
		c.Immutable = true
	case "must-revalidate":
		c.MustRevalidate = true
	case "proxy-revalidate":
		c.ProxyRevalidate = true
	case "must-understand":
		c.MustUnderstand = true
	case "only-if-cached":
		c.OnlyIfCached = true
	case "max-age":
		shorten(&c.MaxAge, argument)
	case "s-maxage":
		shorten(&c.SMaxAge, argument)
	case "min-fresh":
		shorten(&c.MinFresh, argument)
	case "stale-if-error":
		shorten(&c.IfError, argument)
	case "stale-while-revalidate":
		shorten(&c.Revalidate, argument)
	case "max-stale":
		if !has {
			c.MaxStale = longest
			return
		}
		shorten(&c.MaxStale, argument)
	}
}

// directive takes the first directive off a list. An argument may be in quotes, within which commas are part of it.
func directive(list string) (name, argument string, has bool, rest string) {
	end := strings.IndexAny(list, ",=")
	if end < 0 {
		return strings.TrimSpace(list), "", false, ""
	}
	name, rest = strings.TrimSpace(list[:end]), list[end+1:]
	if list[end] == ',' {
		return name, "", false, rest
	}
	if after, quoted := strings.CutPrefix(strings.TrimLeft(rest, " \t"), `"`); quoted {
		var text strings.Builder
		for i := 0; i < len(after); i++ {
			switch {
			case after[i] == '\\' && i+1 < len(after):
				i++
			case after[i] == '"':
				_, rest, _ = strings.Cut(after[i+1:], ",")
				return name, text.String(), true, rest
			}
			text.WriteByte(after[i])
		}
		return name, text.String(), true, "" // the quote has no end
	}
	argument, rest, _ = strings.Cut(rest, ",")
	return name, strings.TrimSpace(argument), true, rest
}

// shorten makes d the time that text is in seconds, unless it is shorter already.
func shorten(d *time.Duration, text string) {
	if took := seconds(text); *d == Absent || took < *d {
		*d = took
	}
}

// seconds reads delta-seconds (RFC 9111, 1.2.2); 0 for what is none.
func seconds(text string) time.Duration {
	n := time.Duration(0)
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		if n = min(10*n+time.Duration(text[i]-'0'), longest/time.Second); n == longest/time.Second {
			continue // the rest must be digits too
		}
	}
	return n * time.Second
}
