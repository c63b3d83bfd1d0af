package rfc

import "time"

// A Use is what may be done with a stored response for a request.
type Use uint8

const (
	// Fresh: answer with it.
	Fresh Use = iota
	// Stale: answer with it, as the client takes stale responses.
	Stale
	// Refresh: answer with it, and revalidate it meanwhile (RFC 5861, 3).
	Refresh
	// Validate: revalidate it first.
	Validate
)

// Age is the age of s (RFC 9111, 4.2.3).
func (s *Stored) Age(now time.Time) time.Duration {
	return s.initialAge + max(0, now.Sub(s.Received))
}

// Left is for how long s will be fresh; below 0 it is stale for so long.
func (s *Stored) Left(now time.Time) time.Duration { return s.lifetime - s.Age(now) }

// Use decides how s may be used for a request with those directives (RFC 9111, 4 and 5.2.1).
func (s *Stored) Use(req *Control, now time.Time) Use {
	age := s.Age(now)
	left := s.lifetime - age
	reload := req.MaxAge != Absent && age > req.MaxAge
	if reload && s.control.Immutable && left > 0 {
		reload = false // RFC 8246, 2
	}
	switch {
	case s.control.NoCache, req.NoCache:
		return Validate
	case left > 0 && !reload && (req.MinFresh == Absent || left >= req.MinFresh):
		return Fresh
	case reload || s.mustRevalidate() || left > 0:
		return Validate
	case s.lifetime > 0 && req.MaxStale != Absent && -left <= req.MaxStale:
		return Stale
	case -left < s.revalidate:
		return Refresh
	}
	return Validate
}

// IfError reports whether s may answer a request with those directives when it could not be revalidated (RFC 5861, 4).
func (s *Stored) IfError(req *Control, now time.Time) bool {
	if s.mustRevalidate() {
		return false
	}
	ifError := s.ifError
	if s.lifetime > 0 {
		ifError = max(ifError, req.IfError)
	}
	return -s.Left(now) < ifError
}

// IsError reports whether a response of that status is an error to stale-if-error (RFC 5861, 4).
func IsError(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}

// Invalidates reports whether a response of that status to that method makes what is stored for its URL invalid (RFC 9111, 4.4):
// the method is not known to be safe, and the response is no error.
func Invalidates(method string, status int) bool {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE":
		return false
	}
	return status >= 200 && status < 400
}
