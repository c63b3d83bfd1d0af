package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
)

// A view is what a request wants to see: a part of the history, filtered.
type view struct {
	era      uint64
	moments  []*moment // all that are remembered
	at       *moment
	base     *moment          // nil: since the start
	note     string           // why it is not what was asked for
	whole    *bgraph.Snapshot // at, or the difference between it and base
	shown    *bgraph.Snapshot // whole as filtered, by Options and by the request
	plan     *bgraph.Snapshot // at as filtered: with the nodes and edges where nothing happened since base
	findings []lint.Finding   // in whole, as Options filter it
	cpu      map[bgraph.Key]bgraph.Nanos
	calls    map[string][]call // by function, in shown
}

// A question is what a view is made from.
type question struct {
	era           uint64
	at, base      uint64
	focus, ignore string
}

// A viewCache keeps the latest views, as several requests follow for each.
type viewCache struct {
	mu    sync.Mutex
	asked []question // guarded by mu: latest last; at most viewsKept
	views []*view    // guarded by mu: of each
}

const viewsKept = 6

func (c *viewCache) find(q question) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.asked {
		if c.asked[i] == q {
			return c.views[i]
		}
	}
	return nil
}

func (c *viewCache) keep(q question, v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.asked) == viewsKept {
		c.asked, c.views = c.asked[1:], c.views[1:]
	}
	c.asked, c.views = append(c.asked, q), append(c.views, v)
}

// maxPattern bounds the regular expressions that are accepted, in bytes.
const maxPattern = 1000

var errNothing = errors.New("nothing has come from the source yet")

// view finds what a request wants to see. The error is errNothing, or says what is
// wrong with the request.
func (p *Page) view(r *http.Request) (*view, error) {
	params := r.URL.Query()
	moments, era := p.history.all()
	focus, err := pattern(params, "focus")
	if err != nil {
		return nil, err
	}
	ignore, err := pattern(params, "ignore")
	if err != nil {
		return nil, err
	}
	v := &view{era: era, moments: moments}
	if v.at, err = pickMoment(moments, params.Get("at")); err != nil {
		return nil, err
	}
	if v.base, err = pickBase(moments, v.at, params.Get("base")); err != nil {
		return nil, err
	}
	if v.at == nil {
		return v, errNothing
	}
	q := question{era: era, at: v.at.id, focus: params.Get("focus"), ignore: params.Get("ignore")}
	if v.base != nil {
		q.base = v.base.id
	}
	if known := p.views.find(q); known != nil {
		again := *known
		again.moments = moments
		return &again, nil
	}
	v.compute(p.views.find(question{era: q.era, at: q.at, base: q.base}), p.opts, focus, ignore)
	p.views.keep(q, v)
	return v, nil
}

// compute fills the view from the moments it has; unfiltered is the same view without
// a filter of the request, nil if it is not known.
func (v *view) compute(unfiltered *view, o Options, focus, ignore *regexp.Regexp) {
	if unfiltered != nil {
		v.base, v.note, v.whole, v.findings = unfiltered.base, unfiltered.note, unfiltered.whole, unfiltered.findings
	} else {
		v.whole = v.at.snap
		if v.base != nil {
			diff, err := bgraph.Diff(v.base.snap, v.at.snap)
			if err != nil {
				v.base, v.note = nil, err.Error()
			} else {
				v.whole = diff
			}
		}
		v.findings = lint.FindPart(v.whole, v.whole.Filter(o.Focus, o.Ignore))
	}
	v.shown = v.whole.Filter(o.Focus, o.Ignore).Filter(focus, ignore)
	v.plan = v.at.snap.Filter(o.Focus, o.Ignore).Filter(focus, ignore)
	v.calls = callsByFunction(v.shown)
	v.cpu = make(map[bgraph.Key]bgraph.Nanos)
	for i := range v.shown.Edges {
		e := &v.shown.Edges[i]
		v.cpu[e.From] += e.TotalCPU()
	}
}

func pattern(params url.Values, name string) (*regexp.Regexp, error) {
	text := params.Get(name)
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPattern {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a regular expression: %s", name, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

// pickMoment finds the moment with an id, or the nearest before it. It returns nil
// if there are none.
func pickMoment(moments []*moment, text string) (*moment, error) {
	if text == "" {
		text = "0"
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("at=%q is no moment; want its id, a number", clip(text))
	}
	if len(moments) == 0 {
		return nil, nil
	}
	if id == 0 {
		return moments[len(moments)-1], nil
	}
	i := sort.Search(len(moments), func(i int) bool { return moments[i].id > id })
	return moments[max(i-1, 0)], nil
}

// pickBase finds the moment to compare at with, nil if there is none or none is wanted.
func pickBase(moments []*moment, at *moment, text string) (*moment, error) {
	if text == "" || text == "start" {
		return nil, nil
	}
	wrong := fmt.Errorf("base=%q; want start, last:SECONDS or the id of a moment", clip(text))
	var early func(m *moment) bool
	if seconds, ok := strings.CutPrefix(text, "last:"); ok {
		n, err := strconv.ParseUint(seconds, 10, 31)
		if err != nil || n == 0 {
			return nil, wrong
		}
		// Half a second of grace, as moments do not come exactly on time.
		early = func(m *moment) bool { return at.seen.Sub(m.seen) >= time.Duration(n)*time.Second-time.Second/2 }
	} else {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, wrong
		}
		early = func(m *moment) bool { return m.id <= id }
	}
	if at == nil || len(moments) == 0 || moments[0].id >= at.id {
		return nil, nil
	}
	best := moments[0]
	for _, m := range moments {
		if m.id < at.id && early(m) {
			best = m
		}
	}
	return best, nil
}

func clip(text string) string {
	const most = 60
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
