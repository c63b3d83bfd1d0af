package rfc

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Rules are what the operator of a cache may choose. The zero value has no time that a response does not give itself.
type Rules struct {
	// Lifetimes are for how long after they have come responses are fresh that don't say, by status. Not used for requests with cookies.
	Lifetimes map[int]time.Duration
	// Heuristic is the longest time for which a response is fresh by heuristics (RFC 9111, 4.2.2): a tenth of the time
	// since it was modified. 0: there are none. Not used for requests with cookies.
	Heuristic time.Duration
	// Revalidate and IfError are for how long a stale response may be used, while it is revalidated and after an error, if
	// it does not say (RFC 5861), and was fresh for a while.
	Revalidate, IfError time.Duration
	// StaleMax bounds both, and what responses say of them; 0: no bound.
	StaleMax time.Duration
	// Cookies are names of cookies that this server sets itself, so that a response that has them is for all clients. They are not
	// stored.
	Cookies []string
}

// foreignCookie reports whether a response sets a cookie that is not one of Cookies.
func (r *Rules) foreignCookie(h Header) bool {
	return slices.ContainsFunc(h, func(f Field) bool {
		name, _, _ := strings.Cut(f.Value, "=")
		return strings.EqualFold(f.Name, "Set-Cookie") && !slices.Contains(r.Cookies, strings.TrimSpace(name))
	})
}

// A Request is one that was, or would be, sent to the backend.
type Request struct {
	Method  string
	Header  Header
	NoStore bool // the client's Cache-Control counts, and has no-store
}

// A Response is what came back.
type Response struct {
	Status    int
	Header    Header
	Requested time.Time // when the request was sent
	Received  time.Time // when the head of the response was there
}

// Stored is a response that may be stored, or was, and what follows from it. It is fixed.
type Stored struct {
	Response
	// Key are the lines of the request that Vary names, one for each name, in the order of Vary; "" for a line that there was not.
	Key []Field
	// Defaults: the request had neither cookies nor credentials, so that Rules.Lifetimes and Heuristic count.
	Defaults bool

	control    Control
	date       time.Time // of Date, or when it was received
	etag       string
	modified   string
	lifetime   time.Duration // 0: nothing says that other clients may have it without a validation
	initialAge time.Duration // RFC 9111, 4.2.3
	ifError    time.Duration
	revalidate time.Duration
}

// heuristic are statuses of responses that may be stored without a lifetime (RFC 9110, 15.1), and understood are those whose
// meaning for caches this package knows. 206 is in neither: only whole responses are stored.
var (
	heuristic  = []int{200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501}
	understood = append([]int{302, 303, 307, 400, 403, 500, 502, 503, 504}, heuristic...)
)

// Store decides whether a response may be stored, and is of use (RFC 9111, 3). It returns nil and the reason if not.
func Store(req Request, res Response, rules *Rules) (s *Stored, why string) {
	cc := controlOf(res.Header)
	authorized := req.Header.Has("Authorization")
	status := slices.Contains(heuristic, res.Status)
	vary := varyNames(res.Header)
	switch {
	case req.Method != "GET":
		return nil, "method"
	case res.Status < 200 || res.Status == 206 || res.Status == 304:
		return nil, "status"
	case cc.MustUnderstand && !slices.Contains(understood, res.Status):
		return nil, "must-understand"
	case cc.NoStore && !cc.MustUnderstand, req.NoStore:
		return nil, "no-store"
	case cc.Private:
		return nil, "private"
	case authorized && !cc.forAll():
		return nil, "authorization"
	case slices.Contains(vary, "*"):
		return nil, "vary"
	case rules.foreignCookie(res.Header) && !cc.Public && !slices.ContainsFunc(cc.Fields, func(name string) bool { return strings.EqualFold(name, "Set-Cookie") }):
		return nil, "set-cookie"
	}
	s = &Stored{Response: res, control: cc, Defaults: !authorized && !req.Header.Has("Cookie")}
	for _, name := range vary {
		value, _ := req.Header.Get(name)
		s.Key = append(s.Key, Field{name, normal(value)})
	}
	s.Header = storable(res.Header, cc.Fields)
	s.derive(rules)
	_, given := rules.Lifetimes[res.Status]
	expires := res.Header.Has("Expires")
	switch {
	case !cc.Public && !expires && cc.MaxAge == Absent && cc.SMaxAge == Absent && !status && !(given && s.Defaults):
		return nil, "no lifetime"
	case s.lifetime <= s.initialAge && s.etag == "" && s.modified == "" && s.ifError <= 0 && s.revalidate <= 0:
		return nil, "stale" // it could never be used
	}
	return s, ""
}

// Restore is what Store has made, of parts of it that were kept.
func Restore(res Response, key []Field, defaults bool, rules *Rules) *Stored {
	s := &Stored{Response: res, Key: key, Defaults: defaults, control: controlOf(res.Header)}
	s.derive(rules)
	return s
}

// forAll reports whether a response to a request with credentials may be used for other requests (RFC 9111, 3.5).
func (c *Control) forAll() bool { return c.Public || c.MustRevalidate || c.SMaxAge != Absent }

// ForAll reports whether a request with credentials may be answered with s, or s be the answer to one.
func (s *Stored) ForAll() bool { return s.control.forAll() }

// Date is when the backend has made s.
func (s *Stored) Date() time.Time { return s.date }

// controlOf reads Cache-Control of a response.
func controlOf(h Header) Control {
	value, _ := h.Get("Cache-Control")
	return ParseControl(value)
}

// derive finds out what follows from the response.
func (s *Stored) derive(rules *Rules) {
	s.etag, _ = s.Header.Get("ETag")
	s.modified, _ = s.Header.Get("Last-Modified")
	date, dated := s.time("Date")
	if !dated {
		date = s.Received // RFC 9110, 6.6.1
	}
	s.date = date
	// RFC 9111, 4.2.3
	text, _ := s.Header.Get("Age")
	text, _, _ = strings.Cut(text, ",")
	corrected := seconds(strings.TrimSpace(text)) + s.Received.Sub(s.Requested)
	s.initialAge = max(0, s.Received.Sub(date), corrected)
	s.lifetime = s.lifetimeBy(rules, date)
	s.ifError, s.revalidate = s.control.IfError, s.control.Revalidate
	if s.lifetime > 0 {
		if s.ifError == Absent {
			s.ifError = rules.IfError
		}
		if s.revalidate == Absent {
			s.revalidate = rules.Revalidate
		}
	}
	if rules.StaleMax > 0 {
		s.ifError, s.revalidate = min(s.ifError, rules.StaleMax), min(s.revalidate, rules.StaleMax)
	}
	if s.mustRevalidate() {
		s.ifError, s.revalidate = 0, 0
	}
}

// lifetimeBy is for how long the response is fresh (RFC 9111, 4.2.1).
func (s *Stored) lifetimeBy(rules *Rules, date time.Time) time.Duration {
	switch {
	case s.control.SMaxAge != Absent:
		return s.control.SMaxAge
	case s.control.MaxAge != Absent:
		return s.control.MaxAge
	case s.Header.Has("Expires"):
		expires, ok := s.time("Expires")
		if !ok {
			return 0 // RFC 9111, 5.3: "0" above all
		}
		return min(max(expires.Sub(date), 0), longest)
	case !s.Defaults:
		return 0
	}
	if given, ok := rules.Lifetimes[s.Status]; ok && given > 0 {
		return s.initialAge + given // it counts from when the response came
	}
	modified, ok := s.time("Last-Modified")
	if !ok || !slices.Contains(heuristic, s.Status) && !s.control.Public {
		return 0
	}
	return min(max(date.Sub(modified)/10, 0), rules.Heuristic)
}

// time reads a line that is a date. Of several lines none counts.
func (s *Stored) time(name string) (time.Time, bool) {
	text, ok := s.Header.Get(name)
	if !ok {
		return time.Time{}, false
	}
	at, err := http.ParseTime(text)
	return at, err == nil
}

// mustRevalidate reports whether it must not be used stale (RFC 9111, 4.2.4).
func (s *Stored) mustRevalidate() bool {
	c := &s.control
	return c.NoCache || c.MustRevalidate || c.ProxyRevalidate || c.SMaxAge != Absent
}

// notStored are lines of one connection or of one proxy (RFC 9111, 3.1), and those that a cache writes itself.
// Set-Cookie is among them: a cookie is for one client.
var notStored = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "TE", "Transfer-Encoding", "Upgrade", "Trailer", "Content-Length",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization", "Set-Cookie", "Set-Cookie2",
}

// storable are the lines that may be stored. also are names of lines that must not.
func storable(h Header, also []string) (kept Header) {
	named := also
	if list, ok := h.Get("Connection"); ok {
		for one := range strings.SplitSeq(list, ",") {
			named = append(slices.Clip(named), strings.TrimSpace(one))
		}
	}
	for _, f := range h {
		is := func(name string) bool { return strings.EqualFold(name, f.Name) }
		if !slices.ContainsFunc(notStored, is) && !slices.ContainsFunc(named, is) {
			kept = append(kept, f)
		}
	}
	return kept
}

// OfOneClient are the lines of a response that are not stored because they are for the client that has asked alone.
func OfOneClient(h Header) (own Header) {
	named := append(controlOf(h).Fields, "Set-Cookie")
	for _, f := range h {
		if slices.ContainsFunc(named, func(name string) bool { return strings.EqualFold(name, f.Name) }) {
			own = append(own, f)
		}
	}
	return own
}

// varyNames are the names that Vary lists, in lower case, each once.
func varyNames(h Header) (names []string) {
	list, _ := h.Get("Vary")
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.ToLower(strings.TrimSpace(one)); one != "" && !slices.Contains(names, one) {
			names = append(names, one)
		}
	}
	return names
}

// normal is value without what does not change the meaning of a list (RFC 9111, 4.1).
func normal(value string) string {
	if !strings.ContainsAny(value, ", \t") {
		return value
	}
	var parts []string
	for one := range strings.SplitSeq(value, ",") {
		if one = strings.Join(strings.Fields(one), " "); one != "" {
			parts = append(parts, one)
		}
	}
	return strings.Join(parts, ",")
}

// Matches reports whether s may answer a request whose lines find returns: the lines that Vary names have the same
// values as they had then (RFC 9111, 4.1).
func (s *Stored) Matches(find func(name string) (list string)) bool {
	for _, f := range s.Key {
		if normal(find(f.Name)) != f.Value {
			return false
		}
	}
	return true
}
