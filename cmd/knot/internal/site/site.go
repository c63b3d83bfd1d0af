package site

import (
	"crypto/tls"
	"errors"
	"strings"

	"github.com/capriccio-go/capriccio/internal/contenttype"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// A Site serves the files of one web site. Files must be set, everything else may be zero. Fields
// must not be changed once it serves.
type Site struct {
	// Files are what it serves. Give them FileHeaders(Headers) as FilesConfig.Header. nil: there are none.
	Files *knot.Files
	// Prepare are called first for each request, or by ErrorPage for a request that is refused before it gets here. They must
	// not park.
	Prepare []func(x *knot.Ctx)
	// Around is called with each request and the rest of the handling, which it is to call; nil: that is called at once.
	Around func(x *knot.Ctx, rest knot.Handler) error
	// Handshake says what clients that ask for one of its hosts have to show; nil: nothing of its own. A request that comes by
	// a connection whose client has asked for another site gets 421.
	Handshake func(*tls.Config)
	// Steps are asked in order, before Guards, until one has answered.
	Steps []Step
	// Rewrite returns the target that a request that has passed the Guards is served as; "": its own path and query. The Guards
	// for the new path have to let it pass too. nil: nothing is rewritten.
	Rewrite func(x *knot.Ctx) (target string, err error)
	// Try chooses the path that a request is served as if no Route is for it, Missing ones aside; nil: its own.
	Try *Try
	// Routes go before files; the first one that matches counts.
	Routes []Route
	// Headers are added to responses.
	Headers []HeaderRule
	// Errors are the pages of errors; nil: the standard ones.
	Errors *ErrorPages
	// Fallback is the path, "/index.html" say, of the file that is sent with status 200 instead
	// of 404, for applications that show one page under many paths. It is not sent for paths
	// whose ending is that of a file other than a page (/app.js): a script that is missing
	// must not get a page.
	Fallback string
	// Listing shows the content of folders that have no index.
	Listing bool
	// ListingMax is how many names a listing has; 0: DefaultListingMax.
	ListingMax int
	// Guards decide, in order, whether a request may pass: all that have a rule for it have to let it, or, with AnyGuard, one of them.
	Guards   []Guard
	AnyGuard bool
	// Rate is how many bytes of a response leave in a second, after the first RateAfter; 0: as
	// many as the client takes.
	Rate, RateAfter int64
}

// A Step answers some requests in place of all that follows, and reports whether it has answered. It may park.
type Step func(x *knot.Ctx) (answered bool, err error)

// A Route has requests answered by something else than files.
type Route struct {
	Match   Pattern
	Except  []Pattern // paths that Match matches and that are not for Handler
	Handler knot.Handler
	// Missing: only requests for files that there are not, and those with methods other than GET and HEAD.
	Missing bool
}

func (r *Route) matches(path []byte) bool {
	for _, except := range r.Except {
		if except.MatchBytes(path) {
			return false
		}
	}
	return r.Match.MatchBytes(path)
}

// route answers by the first route that matches, and reports whether there is one.
func (s *Site) route(x *knot.Ctx, missing bool) (routed bool, err error) {
	for i := range s.Routes {
		if r := &s.Routes[i]; r.Missing == missing && r.matches(x.PathBytes()) {
			return true, r.Handler(x)
		}
	}
	return false, nil
}

// Handle is the handler. It may park.
func (s *Site) Handle(x *knot.Ctx) error {
	if s.Around != nil {
		return s.Around(x, s.handle)
	}
	return s.handle(x)
}

func (s *Site) handle(x *knot.Ctx) error {
	s.prepare(x)
	err := s.serve(x)
	var status knot.Status
	if !errors.As(err, &status) || status < 400 || x.ResponseBegun() {
		return err
	}
	if status >= 500 {
		return err // it belongs into the log; then the server sends the page
	}
	return x.SendError(int(status)) // keeps the headers
}

func (s *Site) serve(x *knot.Ctx) error {
	for _, step := range s.Steps {
		if answered, err := step(x); answered {
			return err
		}
	}
	if err := s.guard(x); err != nil {
		return refuse(x, err)
	}
	if s.Rewrite != nil {
		to, err := s.Rewrite(x)
		if err == nil && to != "" {
			err = s.rewrite(x, to)
		}
		if err != nil {
			return refuse(x, err)
		}
	}
	if s.Rate > 0 {
		x.SetRate(s.Rate, s.RateAfter)
	}
	if routed, err := s.route(x, false); routed {
		return err
	}
	if s.Try != nil {
		if err := s.try(x); err != nil {
			return refuse(x, err)
		}
		if routed, err := s.route(x, false); routed {
			return err
		}
	}
	err := error(knot.Status(404))
	if m := x.Method(); s.Files != nil && (m == "GET" || m == "HEAD") {
		err = s.Files.Handle(x)
	}
	if err == error(knot.Status(404)) {
		if routed, err := s.route(x, true); routed {
			return err
		}
	}
	if m := x.Method(); s.Files != nil && m != "GET" && m != "HEAD" {
		err = s.Files.Handle(x)
	}
	path := x.PathBytes()
	if s.Files == nil && len(path) == 1 && path[0] == '*' {
		return x.Send(204, "", nil) // OPTIONS *, which is about no backend (RFC 9110, 9.3.7)
	}
	if err != error(knot.Status(404)) || s.Files == nil {
		return err
	}
	if s.Listing && path[len(path)-1] == '/' {
		if err := s.list(x); err != error(knot.Status(404)) {
			return err
		}
	}
	if s.Fallback != "" && !namesAsset(x.Path()) {
		return s.Files.HandleAs(x, s.Fallback)
	}
	return err
}

// namesAsset reports whether path ends as the name of a file that is no page.
func namesAsset(path string) bool {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if !strings.Contains(name, ".") {
		return false
	}
	ctype, _, _ := strings.Cut(contenttype.Of(name), ";")
	switch ctype {
	case "application/octet-stream", "text/html", "application/xhtml+xml":
		return false
	}
	return true
}

// prepare has the site's lines on the response, once for a request: later its path may be that of a rewrite.
func (s *Site) prepare(x *knot.Ctx) {
	if !ownctx.Of(x).(interface{ MarkPrepared() (first bool) }).MarkPrepared() {
		return
	}
	for _, prepare := range s.Prepare {
		prepare(x)
	}
	addAlways(x, s.Headers)
}

// ErrorPage is Server.ErrorPage for this site.
func (s *Site) ErrorPage(x *knot.Ctx, status int) (ctype string, page []byte) {
	s.prepare(x)
	if s.Errors == nil {
		return "", nil
	}
	return s.Errors.page(status)
}
