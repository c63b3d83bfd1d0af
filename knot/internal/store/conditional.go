package store

import (
	"bytes"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// A Verdict about the conditions of a request.
type Verdict uint8

const (
	Proceed     Verdict = iota
	NotModified         // 304
	Failed              // 412
)

// Condition evaluates the conditions of a GET or HEAD in the order of RFC 9110, 13.2.2; etag is a
// strong validator, and there is something to serve. A date that is no date is ignored.
func (q *Request) Condition(etag []byte, modified time.Time) Verdict {
	modified = modified.Truncate(time.Second)
	if matches, there := q.listsTag("if-match", etag, false); there {
		if !matches {
			return Failed
		}
	} else if t, ok := q.headerTime("if-unmodified-since"); ok && modified.After(t) {
		return Failed
	}
	if matches, there := q.listsTag("if-none-match", etag, true); there {
		if matches {
			return NotModified
		}
	} else if t, ok := q.headerTime("if-modified-since"); ok && !modified.After(t) {
		return NotModified
	}
	return Proceed
}

// headerTime is the date in the header line called lower, if there is one and it is a date.
func (q *Request) headerTime(lower string) (t time.Time, ok bool) {
	text, ok := q.Head.Find(q.Text, lower)
	if !ok {
		return t, false
	}
	return parseHTTPTime(text)
}

// listsTag compares etag with every entity tag in the header lines called lower; there reports
// whether there are any. A weak tag matches only in the weak comparison (RFC 9110, 8.8.3.2).
func (q *Request) listsTag(lower string, etag []byte, weak bool) (matches, there bool) {
	b := q.Text
	for i := range q.Head.Fields {
		one := &q.Head.Fields[i]
		if int(one.Name.To-one.Name.From) != len(lower) || !h1.TokenIs(one.Name.Of(b), lower) {
			continue
		}
		there = true
		matches = matches || matchesTag(one.Value.Of(b), etag, weak)
	}
	return matches, there
}

// matchesTag compares etag with each element of a list of entity tags.
func matchesTag(list, etag []byte, weak bool) bool {
	for len(list) > 0 {
		var one []byte
		one, list = h1.NextElement(list)
		if weak {
			one = bytes.TrimPrefix(one, []byte("W/"))
		}
		if string(one) == "*" || bytes.Equal(one, etag) {
			return true
		}
	}
	return false
}

// parseHTTPTime reads the three forms of RFC 9110, 5.6.7.
func parseHTTPTime(text []byte) (time.Time, bool) {
	if len(text) > 64 {
		return time.Time{}, false
	}
	t, err := http.ParseTime(string(text))
	return t, err == nil
}
