package web

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// A Fleet is several sources. Each gets a page. Its methods may be called by several goroutines.
type Fleet interface {
	// Name says which fleet this is.
	Name() string
	// Sum returns the graph of all sources together, which keeps them in Snapshot.Sources.
	Sum(ctx context.Context) (*bgraph.Snapshot, error)
	// Open returns the source of that name, and its earlier snapshots, the oldest first; nil: there are none.
	Open(name string) (Source, iter.Seq[*bgraph.Snapshot], error)
}

// A Recorded is a fleet whose past is known.
type Recorded interface {
	Fleet
	// History says what the source of that name did, the latest first.
	History(ctx context.Context, name string) ([]Past, error)
	// Compare writes what has changed in the latest time of some length since as much time earlier: in the source of that
	// name, or all together if it is empty.
	Compare(ctx context.Context, name string, length, earlier time.Duration) (string, error)
}

// A Past is what a source did until a recording of it was made, in words.
type Past struct {
	At               time.Time
	Tasks, Rate, CPU string
	Finding          string // the first one
}

//go:embed fleet.html
var fleetHTML embed.FS

var fleetPages = template.Must(template.New("fleet.html").Funcs(template.FuncMap{"escape": url.PathEscape}).ParseFS(fleetHTML, "fleet.html"))

// mostPages is how many sources have a page at a time, each with a history of at most pageBytes.
const (
	mostPages = 8
	pageBytes = 32 << 20
)

// A fleetPage serves the list of the sources of a fleet, and their pages.
type fleetPage struct {
	fleet  Fleet
	opts   Options
	static http.Handler

	mu      sync.Mutex
	ctx     context.Context // guarded by mu: of the pages; nil: not yet
	running sync.WaitGroup  // the pages
	open    []*openPage     // guarded by mu: the page that was asked last is last
}

// An openPage is the page of a source.
type openPage struct {
	*Page
	name   string
	cancel context.CancelFunc
}

// ServeFleet shows a fleet to the clients of ln as Serve shows a source.
func ServeFleet(ctx context.Context, ln net.Listener, fleet Fleet, opts Options) error {
	opts.Loopback = opts.Loopback || bindsLoopback(ln)
	opts.MaxBytes = pageBytes
	f := &fleetPage{fleet: fleet, opts: opts, static: staticFiles(), ctx: ctx}
	return serve(ctx, ln, guard(opts.Loopback, f), func(ctx context.Context) {
		<-ctx.Done()
		f.close()
	})
}

// close ends all pages.
func (f *fleetPage) close() {
	f.mu.Lock()
	for _, p := range f.open {
		p.cancel()
	}
	f.open, f.ctx = nil, nil
	f.mu.Unlock()
	f.running.Wait()
}

func (f *fleetPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The name of a source may have a slash in it, which is escaped.
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/source/"); ok {
		f.serveSource(w, r, rest)
		return
	}
	switch r.URL.Path {
	case "/":
		f.serveList(w, r)
	case "/history":
		f.serveHistory(w, r)
	case "/compare":
		f.serveCompare(w, r)
	default:
		f.static.ServeHTTP(w, r)
	}
}

// serveSource answers with the page of a source, at SOURCE/REST.
func (f *fleetPage) serveSource(w http.ResponseWriter, r *http.Request, path string) {
	escaped, rest, ok := strings.Cut(path, "/")
	name, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		http.NotFound(w, r)
		return
	}
	p, err := f.page(name)
	if err != nil {
		f.fail(w, http.StatusNotFound, err)
		return
	}
	inner := r.Clone(r.Context())
	inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
	p.ServeHTTP(w, inner)
}

// page returns the page of a source, which is opened if it is not. The page that was not asked for longest makes room.
func (f *fleetPage) page(name string) (*Page, error) {
	f.mu.Lock()
	p := f.opened(name)
	f.mu.Unlock()
	if p != nil {
		return p, nil
	}
	src, past, err := f.fleet.Open(name)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.opened(name); p != nil { // since we looked
		return p, nil
	}
	if f.ctx == nil {
		return nil, context.Canceled
	}
	opts := f.opts
	opts.Past = past
	ctx, cancel := context.WithCancel(f.ctx)
	opened := &openPage{New(src, opts), name, cancel}
	f.running.Go(func() { opened.Run(ctx) })
	if len(f.open) == mostPages {
		f.open[0].cancel()
		f.open = f.open[1:]
	}
	f.open = append(f.open, opened)
	return opened.Page, nil
}

// opened returns the page of a source if it is open. Caller holds mu.
func (f *fleetPage) opened(name string) *Page {
	for i, p := range f.open {
		if p.name == name {
			f.open = append(append(f.open[:i:i], f.open[i+1:]...), p)
			return p.Page
		}
	}
	return nil
}

// A fleetView is what fleet.html shows.
type fleetView struct {
	Fleet    string
	Recorded bool
	Error    string
	Source   string // empty: all
	Tasks    string // what they are called
	Rows     [][]string
	Sum      *bgraph.Snapshot
	History  []Past
	Compare  bool
	Length   string
	Earlier  string
	Text     string
}

// reply writes a page.
func (f *fleetPage) reply(w http.ResponseWriter, status int, v *fleetView) {
	v.Fleet = f.fleet.Name()
	_, v.Recorded = f.fleet.(Recorded)
	var b bytes.Buffer
	if err := fleetPages.Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", strings.Replace(contentPolicy, "form-action 'none'", "form-action 'self'", 1))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

func (f *fleetPage) fail(w http.ResponseWriter, status int, err error) {
	f.reply(w, status, &fleetView{Error: err.Error()})
}

// serveList shows all sources.
func (f *fleetPage) serveList(w http.ResponseWriter, r *http.Request) {
	s, err := f.fleet.Sum(r.Context())
	if err != nil {
		f.fail(w, http.StatusBadGateway, err)
		return
	}
	v := &fleetView{Sum: s, Tasks: "tasks", Rows: tables.SourceRows(s), Length: usualLength, Earlier: usualEarlier}
	if s.Kind == bgraph.KindGoroutines {
		v.Tasks = "goroutines"
	}
	f.reply(w, http.StatusOK, v)
}

// serveHistory shows what a source has done.
func (f *fleetPage) serveHistory(w http.ResponseWriter, r *http.Request) {
	recorded, ok := f.fleet.(Recorded)
	if !ok {
		http.NotFound(w, r)
		return
	}
	name := r.FormValue("source")
	past, err := recorded.History(r.Context(), name)
	if err != nil {
		f.fail(w, http.StatusNotFound, err)
		return
	}
	f.reply(w, http.StatusOK, &fleetView{Source: name, History: past, Length: usualLength, Earlier: usualEarlier})
}

// Periods that are compared, unless the page says otherwise: the last hour and the same hour of yesterday.
const (
	usualLength  = "1h"
	usualEarlier = "24h"
)

// serveCompare shows what has changed.
func (f *fleetPage) serveCompare(w http.ResponseWriter, r *http.Request) {
	recorded, ok := f.fleet.(Recorded)
	if !ok {
		http.NotFound(w, r)
		return
	}
	v := &fleetView{Compare: true, Source: r.FormValue("source"), Length: r.FormValue("length"), Earlier: r.FormValue("earlier")}
	length, err := time.ParseDuration(v.Length)
	earlier, err2 := time.ParseDuration(v.Earlier)
	status := http.StatusOK
	if err != nil || err2 != nil || length <= 0 || earlier < length {
		v.Error = "want two durations like 1h and 24h, the second not less than the first"
		status = http.StatusBadRequest
	} else if v.Text, err = recorded.Compare(r.Context(), v.Source, length, earlier); err != nil {
		v.Error = err.Error()
		status = http.StatusNotFound
	}
	f.reply(w, status, v)
}
