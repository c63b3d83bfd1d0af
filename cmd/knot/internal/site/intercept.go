package site

import (
	"errors"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/knot"
)

// intercepted are lines about the content of a response, which that has no more.
var intercepted = []string{
	"Content-Encoding", "Content-Language", "Content-Location", "Content-Disposition", "Content-Range", "Content-Digest", "Repr-Digest", "Digest",
	"Content-MD5", "ETag", "Last-Modified", "Accept-Ranges",
}

// An interception is a knot.Filter that puts the error pages of a site in place of what a backend says. It is fixed.
type interception struct {
	site     *Site
	statuses []string // as "404" or "5xx"
}

// Intercept is h with the site's pages for these statuses, as "404" or "5xx", in place of its own. The header of a response
// stays, but for what is about its content.
func (s *Site) Intercept(h knot.Handler, statuses []string) knot.Handler {
	if len(statuses) == 0 {
		return h
	}
	i := &interception{s, statuses}
	return func(x *knot.Ctx) error {
		x.Filter(i)
		return h(x)
	}
}

// CheckIntercept reports what is wrong with the statuses of Intercept, for a site with these error pages.
func CheckIntercept(statuses []string, pages map[string]string) error {
	var errs []error
	for _, status := range statuses {
		_, own := pages[status]
		_, class := pages[status[:min(1, len(status))]+"xx"]
		_, standard := pages["default"]
		switch {
		case status == "default" || !errorStatus(status):
			errs = append(errs, fmt.Errorf("%q is not the status of an error; want 400 to 599, 4xx or 5xx", status))
		case !own && !class && !standard:
			errs = append(errs, fmt.Errorf("the site has no page for %s; want one in its error-pages", status))
		}
	}
	return errors.Join(errs...)
}

// FilterHead implements knot.Filter.
func (i *interception) FilterHead(x *knot.Ctx, h knot.ResponseHead) {
	if i.site.Errors == nil || !HasStatus(i.statuses, x.Status()) {
		return
	}
	ctype, page := i.site.Errors.page(x.Status())
	if page == nil || !h.Encode(func(out io.Writer) knot.Encoder { return &inPlace{out: out, page: page} }) {
		return
	}
	for _, name := range intercepted {
		h.Del(name)
	}
	h.Set("Content-Type", ctype)
}

// inPlace is a knot.Encoder whose result is the page, whatever it is given.
type inPlace struct {
	out  io.Writer
	page []byte // what is still to be written
}

func (p *inPlace) Write(b []byte) (int, error) { return len(b), nil }

// Flush writes the page: the end of what it stands for may be far.
func (p *inPlace) Flush() error {
	page := p.page
	p.page = nil
	_, err := p.out.Write(page)
	return err
}

func (p *inPlace) Close() error { return p.Flush() }
func (p *inPlace) Release()     {}
