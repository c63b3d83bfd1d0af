package web

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log"
	"net"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A Source is where snapshots come from: a process, a URL, a file.
type Source interface {
	// Snapshot returns the graph as it is now, in a Snapshot that the caller owns. It
	// returns soon after ctx is done. It is called by one goroutine at a time.
	Snapshot(ctx context.Context) (*bgraph.Snapshot, error)
	// Name says which source this is.
	Name() string
}

// Options say how a Page asks and what it remembers. A zero field has the default that
// is named with it.
type Options struct {
	Interval     time.Duration // between questions while a browser shows the page (1 s)
	IdleInterval time.Duration // between questions otherwise (10 s)
	Timeout      time.Duration // of a question (10 s)
	MaxMoments   int           // snapshots remembered (600)
	MaxBytes     int           // of all of these, estimated; the first and the last stay even beyond it (64 MiB)
	MaxNodes     int           // sent to the page (2000)
	MaxEdges     int           // sent to the page (6000)
	// Lazy asks for nothing before a browser shows the page, for a source whose answers are
	// expensive. If the first answer is a trace, the page goes on asking only while it is shown, as a
	// trace costs the program throughput.
	Lazy bool
	// Past are earlier snapshots, the oldest first, which come into the history before the source is asked (none).
	Past iter.Seq[*bgraph.Snapshot]
	// Focus and Ignore leave out nodes as bgraph.Snapshot.Filter does, before what a request leaves out (none).
	Focus, Ignore *regexp.Regexp
	// Loopback accepts requests only that name localhost or a loopback address as their
	// host. Serve sets it if it listens on one.
	Loopback bool
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.IdleInterval = max(cmp.Or(o.IdleInterval, 10*time.Second), o.Interval)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.MaxMoments = cmp.Or(o.MaxMoments, 600)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.MaxNodes = cmp.Or(o.MaxNodes, 2000)
	o.MaxEdges = cmp.Or(o.MaxEdges, 6000)
	return o
}

// lookFor is for how long after a request the page counts as shown.
const lookFor = 5 * time.Second

// A Page shows the graph of one source. It is an http.Handler; Run must be running for
// it to have something to show. Its methods may be called from any goroutine.
type Page struct {
	src     Source
	opts    Options
	routes  http.Handler
	history history
	views   viewCache
	places  placeTable
	looked  chan struct{} // capacity 1: a browser has asked

	mu       sync.Mutex
	lastLook time.Time // guarded by mu
	answer   answer    // guarded by mu
}

// An answer is how the source has behaved.
type answer struct {
	state   string    // stateNew, stateOK or stateGone
	err     string    // why it is gone
	since   time.Time // when the state began
	asked   time.Time // when the question under way was put; zero: none is
	last    time.Time // when the last question was put
	repeats int       // answers in a row that brought nothing new
	kind    string    // of the latest graph
}

const (
	stateNew  = "new"
	stateOK   = "ok"
	stateGone = "gone"
)

// stillAfter is how many answers in a row bring nothing new until the source counts as
// one that does not change.
const stillAfter = 3

// New makes a Page that has not asked src anything yet.
func New(src Source, opts Options) *Page {
	p := &Page{src: src, opts: opts.withDefaults(), looked: make(chan struct{}, 1)}
	p.history.maxMoments = p.opts.MaxMoments
	p.history.maxBytes = p.opts.MaxBytes
	p.answer = answer{state: stateNew, since: time.Now()}
	p.routes = p.handler()
	return p
}

// ServeHTTP answers a request of the page, or for it.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.routes.ServeHTTP(w, r) }

// Run asks the source for snapshots until ctx is done. It must be called once.
func (p *Page) Run(ctx context.Context) {
	if p.opts.Past != nil {
		for s := range p.opts.Past {
			if ctx.Err() != nil {
				return
			}
			p.history.add(s, s.Taken)
		}
	}
	for p.pause(ctx); ctx.Err() == nil; p.pause(ctx) {
		p.ask(ctx)
	}
}

// pause waits until the source is due to be asked again.
func (p *Page) pause(ctx context.Context) {
	for ctx.Err() == nil {
		wait := p.due(time.Now())
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-p.looked: // maybe it is due earlier now
		}
		timer.Stop()
	}
}

// due reports how long it is until the source should be asked again.
func (p *Page) due(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	every := p.opts.IdleInterval
	switch {
	case now.Sub(p.lastLook) < max(lookFor, 2*p.opts.Interval):
		every = p.opts.Interval
	case p.answer.kind == bgraph.KindGoroutines || p.opts.Lazy && p.answer.state == stateNew:
		return time.Hour // or when a browser asks
	}
	return every - now.Sub(p.answer.last)
}

// look records a request of a browser.
func (p *Page) look() {
	p.mu.Lock()
	p.lastLook = time.Now()
	p.mu.Unlock()
	select {
	case p.looked <- struct{}{}:
	default:
	}
}

// ask takes one snapshot.
func (p *Page) ask(ctx context.Context) {
	began := time.Now()
	p.mu.Lock()
	p.answer.asked, p.answer.last = began, began
	p.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	s, err := p.src.Snapshot(within)
	if err == nil && s == nil {
		err = errors.New("the source gave neither a snapshot nor an error")
	}
	isNew := err == nil && p.history.add(s, time.Now())
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.answer
	a.asked = time.Time{}
	state := stateOK
	a.err = ""
	if err == nil {
		a.kind = s.Kind
	}
	if err != nil {
		state, a.err = stateGone, err.Error()
	}
	if state != a.state {
		a.state, a.since = state, time.Now()
	}
	switch {
	case isNew:
		a.repeats = 0
	case err == nil:
		a.repeats++
	}
}

// Serve shows the graph of src to the clients of ln, until ctx is done; then it
// closes ln, leaves no goroutine behind and returns nil. If ln is bound to a loopback
// address, only requests that name a loopback address as their host are answered. Serve returns an
// error if ln fails. It blocks without parking and must not be called from a task.
func Serve(ctx context.Context, ln net.Listener, src Source, opts Options) error {
	opts.Loopback = opts.Loopback || bindsLoopback(ln)
	p := New(src, opts)
	return serve(ctx, ln, p, p.Run)
}

// ServeHandler answers the clients of ln with h as Serve does with a page.
func ServeHandler(ctx context.Context, ln net.Listener, h http.Handler) error {
	return serve(ctx, ln, guard(bindsLoopback(ln), h), func(ctx context.Context) { <-ctx.Done() })
}

func bindsLoopback(ln net.Listener) bool {
	addr, ok := ln.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// serve answers the clients of ln with h until ctx is done. Meanwhile run is running.
func serve(ctx context.Context, ln net.Listener, h http.Handler, run func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      mostWriting,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(discard{}, "", 0), // of broken connections; the terminal belongs to the command
	}
	running.Go(func() {
		<-ctx.Done()
		grace, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(ln)
	stopped := ctx.Err() != nil
	cancel()
	running.Wait()
	if stopped || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// mostWriting is how long an answer may take. To ask 500 programs that don't answer takes 80 s.
const mostWriting = 3 * time.Minute

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
