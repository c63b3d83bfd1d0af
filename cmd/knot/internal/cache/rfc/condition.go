package rfc

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validators are the lines of a request that asks whether s is still what there is (RFC 9111, 4.3.1); none if it has no
// validator.
func (s *Stored) Validators() (lines []Field) {
	if s.etag != "" {
		lines = append(lines, Field{"If-None-Match", s.etag})
	}
	if s.modified != "" {
		lines = append(lines, Field{"If-Modified-Since", s.modified})
	}
	return lines
}

// LacksDefaults reports whether Rules.Lifetimes or Heuristic would make s fresh for a while if the request that it answers
// had had no cookies. A 304 would not change that: s may have been made for the cookies.
func (s *Stored) LacksDefaults(rules *Rules) bool {
	if s.Defaults {
		return false
	}
	other := *s
	other.Defaults = true
	return other.lifetimeBy(rules, s.date) > s.lifetime
}

// Freshen is s with what a 304 to a request with its Validators says (RFC 9111, 3.2 and 4.3.4); nil if that response
// is about something else.
func (s *Stored) Freshen(res Response, rules *Rules) *Stored {
	if etag, ok := res.Header.Get("ETag"); ok {
		strong := !strings.HasPrefix(strings.TrimSpace(etag), "W/")
		if s.etag == "" || weak(etag) != weak(s.etag) || strong && strings.HasPrefix(strings.TrimSpace(s.etag), "W/") {
			return nil // a strong validator is of the response that has it, letter by letter
		}
	}
	if s.etag == "" {
		if at, ok := res.Header.Get("Last-Modified"); ok && at != s.modified {
			return nil
		}
	}
	cc := controlOf(res.Header)
	if cc.NoStore || cc.Private {
		return nil
	}
	// The fields that describe the body do not change.
	fixed := []string{"Content-Encoding", "Content-Type", "Content-Range", "Cache-Status"}
	update := slices.DeleteFunc(storable(res.Header, cc.Fields), func(f Field) bool {
		return slices.ContainsFunc(fixed, func(name string) bool { return strings.EqualFold(name, f.Name) })
	})
	fresh := *s
	fresh.Requested, fresh.Received = res.Requested, res.Received
	fresh.Header = slices.DeleteFunc(storable(s.Header, cc.Fields), func(f Field) bool {
		return update.Has(f.Name) || strings.EqualFold(f.Name, "Age")
	})
	fresh.Header = append(fresh.Header, update...)
	fresh.control = controlOf(fresh.Header)
	fresh.derive(rules)
	return &fresh
}

// weak is an entity tag without the mark of a weak one: weak comparison (RFC 9110, 8.8.3.2).
func weak(etag string) string { return strings.TrimPrefix(strings.TrimSpace(etag), "W/") }

// NotModified reports whether a client that has sent these conditions has s already (RFC 9111, 4.3.2). match and since are the
// values of If-None-Match and If-Modified-Since, "" for none.
func (s *Stored) NotModified(match, since string) bool {
	if s.Status != 200 {
		return false
	}
	if match != "" {
		if strings.TrimSpace(match) == "*" {
			return true
		}
		return s.etag != "" && listsTag(match, s.etag)
	}
	if since == "" {
		return false
	}
	asked, err := http.ParseTime(since)
	if err != nil {
		return false
	}
	modified, ok := s.time("Last-Modified")
	if !ok { // RFC 9111, 4.3.2
		if modified, ok = s.time("Date"); !ok {
			modified = s.Received
		}
	}
	return !modified.After(asked)
}

// listsTag reports whether a list of entity tags has etag, by weak comparison. A tag may have commas inside of its quotes.
func listsTag(list, etag string) bool {
	want := weak(etag)
	for list != "" {
		list = strings.TrimLeft(list, " \t,")
		rest := strings.TrimPrefix(list, "W/")
		end := strings.IndexByte(rest, ',')
		if strings.HasPrefix(rest, `"`) {
			if end = strings.IndexByte(rest[1:], '"'); end >= 0 {
				end += 2
			}
		}
		if end < 0 {
			end = len(rest)
		}
		if strings.TrimSpace(rest[:end]) == want {
			return true
		}
		list = rest[end:]
	}
	return false
}

// RangeApplies reports whether the value of If-Range lets Range count: it names s by a strong validator, or is "" (RFC 9110,
// 13.1.5).
func (s *Stored) RangeApplies(ifRange string) bool {
	switch {
	case ifRange == "":
		return true
	case strings.HasPrefix(ifRange, `"`):
		return ifRange == s.etag
	case ifRange != s.modified || s.modified == "":
		return false
	}
	modified, ok := s.time("Last-Modified")
	date, dated := s.time("Date")
	return ok && dated && date.Sub(modified) >= time.Second // RFC 9110, 8.8.2.2: else it is weak
}

// Range reads the value of Range for a body of size bytes. ok: it is one range of bytes; else it is not to count. It asks
// for the bytes from from up to, but not including, to; both are 0 if the body has none of them (RFC 9110, 14).
func Range(value string, size int64) (from, to int64, ok bool) {
	unit, spec, found := strings.Cut(value, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(spec, ",") {
		return 0, 0, false
	}
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return 0, 0, false
	}
	if first == "" {
		n, valid := number(last)
		if !valid {
			return 0, 0, false
		}
		if n == 0 || size == 0 {
			return 0, 0, true
		}
		return max(size-n, 0), size, true
	}
	from, ok = number(first)
	if !ok {
		return 0, 0, false
	}
	to = size
	if last != "" {
		end, valid := number(last)
		if !valid || end < from {
			return 0, 0, false
		}
		to = min(size, end+1)
	}
	if from >= size {
		return 0, 0, true
	}
	return from, to, true
}

// number reads digits; more than any body has bytes are as many as that.
func number(text string) (n int64, ok bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 62)
	if err != nil {
		n = 1<<61 - 1
	}
	return n, true
}
