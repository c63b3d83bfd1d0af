package compress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// Defaults of Options.
const (
	DefaultMin    = 512
	DefaultMemory = 64 << 20
)

// Options say which responses are compressed, and how. The zero value of each field is its default.
type Options struct {
	// Types are the media types that are compressed: "application/json", or "text/*" for all that begin so. Default: text,
	// JSON, XML, scripts, and other types that get smaller. Event streams (text/event-stream) only if they are named as that.
	Types []string
	// Codings are the codings that clients are offered, best first. Default: zstd, br, gzip.
	Codings []string
	// Min is the least length of a body that is compressed, in bytes, if the length is known before the response begins.
	// Default: DefaultMin. Negative: any.
	Min int
	// Memory is how much the encoders of responses under way take together, in bytes: 1.1 MB each with gzip, 1.8 MB with
	// zstd, 3 MB with br. A response for which there is none left is sent as it is. Default: DefaultMemory. Negative: no limit.
	Memory int64
}

// Validate reports all that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	for _, name := range o.Codings {
		if !slices.ContainsFunc(encoders[:], func(k *encoderKind) bool { return k.name == name }) {
			errs = append(errs, fmt.Errorf("coding %q; want zstd, br or gzip", name))
		}
	}
	if len(o.Codings) > h1.MaxCodings {
		errs = append(errs, fmt.Errorf("%d codings; there are three", len(o.Codings)))
	}
	for _, one := range o.Types {
		main, sub, ok := strings.Cut(one, "/")
		if !ok || !h1.IsToken(main) || !h1.IsToken(sub) || strings.Contains(main, "*") || strings.Contains(sub, "*") && sub != "*" {
			errs = append(errs, fmt.Errorf("type %q; want one like application/json or text/*", one))
		}
	}
	return errors.Join(errs...)
}

// Handler is h with its responses compressed for clients that accept that, as they come: Ctx.Flush sends what has been
// written so far. Left as they are: responses with a Content-Encoding, parts (206), those whose Cache-Control is no-transform,
// and those with a digest of their content. A compressed response has a weak ETag. It panics with options that
// Validate refuses.
func Handler(h knot.Handler, o Options) knot.Handler {
	c := newCompressor(o)
	return func(x *knot.Ctx) error {
		x.Filter(c)
		return h(x)
	}
}

// HTTP is Handler for handlers of net/http. Under a server other than Knot it is h.
func HTTP(h http.Handler, o Options) http.Handler {
	c := newCompressor(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for inner := w; ; {
			switch outer := inner.(type) {
			case interface{ Filter(f knot.Filter) }:
				outer.Filter(c)
			case interface{ Unwrap() http.ResponseWriter }:
				inner = outer.Unwrap()
				continue
			}
			break
		}
		h.ServeHTTP(w, r)
	})
}

// A compressor is a knot.Filter. Its fields are fixed, but for used.
type compressor struct {
	types   []string // nil: those of store.Compressible
	codings []*encoderKind
	min     int64
	memory  int64        // below 0: no limit
	used    atomic.Int64 // of memory; atomic
}

func newCompressor(o Options) *compressor {
	if err := o.Validate(); err != nil {
		panic("compress: " + err.Error())
	}
	c := &compressor{min: int64(o.Min), memory: o.Memory, codings: encoders[:]}
	if o.Min == 0 {
		c.min = DefaultMin
	}
	if o.Memory == 0 {
		c.memory = DefaultMemory
	}
	for _, one := range o.Types {
		c.types = append(c.types, strings.ToLower(one))
	}
	if len(o.Codings) > 0 {
		c.codings = nil
	}
	for _, name := range o.Codings {
		i := slices.IndexFunc(encoders[:], func(k *encoderKind) bool { return k.name == name })
		c.codings = append(c.codings, encoders[i])
	}
	return c
}

// FilterHead implements knot.Filter.
func (c *compressor) FilterHead(x *knot.Ctx, h knot.ResponseHead) {
	if x.Status() == http.StatusNotModified {
		if ctype := h.Get("Content-Type"); ctype == "" || c.takes(ctype) {
			addVary(h)
			if tag := weak(h.Get("ETag")); lists(x, tag) { // the client has a compressed one
				h.Set("ETag", tag)
			}
		}
		return
	}
	if !c.suits(x, h) {
		return
	}
	addVary(h)
	kind := c.choose(x)
	if kind == nil {
		return
	}
	tag := weak(h.Get("ETag"))
	if lists(x, tag) { // a handler that compares tags letter by letter does not know the weak one
		h.Set("ETag", tag)
		h.NotModified()
		return
	}
	if h.Encode(func(out io.Writer) knot.Encoder { return c.start(kind, out) }) {
		h.Set("Content-Encoding", kind.name)
		h.Del("Accept-Ranges")
		if tag != "" {
			h.Set("ETag", tag)
		}
	}
}

// suits reports whether a response is compressed for clients that accept it.
func (c *compressor) suits(x *knot.Ctx, h knot.ResponseHead) bool {
	switch length := h.Length(); {
	case x.Status() == http.StatusPartialContent, length >= 0 && length < c.min, !c.takes(h.Get("Content-Type")):
		return false
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return false
	}
	for _, name := range [...]string{"Content-Range", "Content-Digest", "Repr-Digest", "Digest", "Content-MD5"} {
		if h.Get(name) != "" {
			return false
		}
	}
	return !hasToken(h.Get("Cache-Control"), "no-transform") && !hasToken(x.Header("Cache-Control"), "no-transform")
}

// takes reports whether content of a type is compressed.
func (c *compressor) takes(ctype string) bool {
	ctype, _, _ = strings.Cut(ctype, ";")
	ctype = strings.ToLower(strings.TrimSpace(ctype))
	if c.types == nil {
		return ctype != "text/event-stream" && store.Compressible(ctype)
	}
	main, _, _ := strings.Cut(ctype, "/")
	return slices.ContainsFunc(c.types, func(one string) bool {
		return one == ctype || one == main+"/*" && ctype != "text/event-stream"
	})
}

// choose is the coding that suits the client best; nil: none.
func (c *compressor) choose(x *knot.Ctx) *encoderKind {
	var a h1.Acceptance
	x.EachHeader(func(name, value []byte) bool {
		if h1.TextIs(name, "accept-encoding") {
			a.Take(value, len(c.codings), func(i int) string { return c.codings[i].name })
		}
		return true
	})
	var buf [h1.MaxCodings]uint8
	if best := a.Ranked(buf[:0], len(c.codings)); len(best) > 0 {
		return c.codings[best[0]]
	}
	return nil
}

// addVary says that the response depends on Accept-Encoding.
func addVary(h knot.ResponseHead) {
	switch vary := h.Get("Vary"); {
	case vary == "":
		h.Add("Vary", "Accept-Encoding")
	case !hasToken(vary, "*") && !hasToken(vary, "accept-encoding"):
		h.Set("Vary", vary+", Accept-Encoding")
	}
}

// weak is the tag of the compressed form of a response that has this tag (RFC 9110, 8.8.3.3); "" for none.
func weak(tag string) string {
	if strings.HasPrefix(tag, "W/") || tag == "" {
		return tag
	}
	return "W/" + tag
}

// lists reports whether the client's If-None-Match has this weak tag.
func lists(x *knot.Ctx, tag string) (found bool) {
	if tag == "" {
		return false
	}
	x.EachHeader(func(name, value []byte) bool {
		// A tag may have commas in it, but no blanks.
		found = found || h1.TextIs(name, "if-none-match") && strings.Contains(","+strings.ReplaceAll(string(value), " ", "")+",", ","+tag+",")
		return !found
	})
	return found
}

// hasToken reports whether a list has an element of that name, in lower case.
func hasToken(list, lower string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(one), lower) {
			return true
		}
	}
	return false
}
