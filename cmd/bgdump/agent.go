package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/internal/metrics"
	"github.com/capriccio-go/capriccio/cmd/bgdump/web"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// mostScrapes is how many requests an agent answers at a time.
const mostScrapes = 64

// An agent serves metrics of other programs to Prometheus, and profiles to programs that fetch them again and again.
type agent struct {
	set  *settings
	sur  *surroundings
	life context.Context // of the command: what goes on between two scrapes, or is for several

	slots chan struct{} // has room for mostScrapes
	round chan struct{} // has room for one scrape, which asks all programs for metrics

	roster *roster          // of the scrape in round
	latest []metrics.Family // of the scrape in round: the metrics
	next   time.Time        // of the scrape in round: the programs are not asked again before this time

	mu       sync.Mutex
	all      []*member               // guarded by mu: the programs
	known    map[*member]lastGraphs  // guarded by mu: the answers of the programs that were asked
	captures map[captureKey]*capture // guarded by mu: under way
	running  sync.WaitGroup          // the captures
}

// lastGraphs are the latest answer of a program.
type lastGraphs struct {
	period *bgraph.Snapshot // of a trace its own seconds, of the graph of a runtime the time since it was asked before; nil: it gave none
	whole  *bgraph.Snapshot // the graph of a runtime at the end of the period
}

// newAgent opens the sources of the command line, and reads the lists of targets, whose pods it watches until ctx ends. The caller
// must then wait for the finder of the roster, also if the agent comes with an error.
func newAgent(ctx context.Context, set *settings, sur *surroundings) (*agent, error) {
	r, err := newRoster(ctx, set, sur)
	if err != nil {
		return nil, err
	}
	r.finder.follow()
	a := &agent{set: set, sur: sur, life: ctx, roster: r, slots: make(chan struct{}, mostScrapes), round: make(chan struct{}, 1),
		known: map[*member]lastGraphs{}, captures: map[captureKey]*capture{}}
	err = r.begin(ctx)
	a.all = r.all
	return a, err
}

// serveAgent answers scrapes until ctx ends.
func serveAgent(ctx context.Context, set *settings, sur *surroundings) error {
	ctx, cancel := context.WithCancel(ctx)
	a, err := newAgent(ctx, set, sur)
	if a != nil {
		defer a.roster.finder.wait()
		defer a.running.Wait()
	}
	defer cancel()
	if err != nil {
		return err
	}
	push := func() {}
	if set.otlp != "" {
		r, err := sur.openOTLP(set.otlp)
		if err != nil {
			return fmt.Errorf("-otlp %s: %w", printable(set.otlp), err)
		}
		push = func() { a.push(ctx, r) }
	}
	ln, err := listen("serve", set.serve)
	if err != nil {
		return err
	}
	fmt.Fprintf(sur.stdout, "metrics of %s are on http://%s/metrics, profiles on http://%[2]s%s\nstop with Ctrl-C\n", words.Plural(len(a.all), "source"), ln.Addr(), profileOfAgent)
	announce(sur, a.all)
	a.running.Go(push) // it may change a.all
	return web.ServeHandler(ctx, ln, a)
}

// listen listens at the address that a flag names.
func listen(flag, given string) (net.Listener, error) {
	addr := given
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr // the answers tell how the program works: other machines get it only if asked for
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("-%s %q; want an address like :8000 or 192.0.2.1:8000", flag, given)
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program uses %s already; choose another port with -%s, or port 0 for a free one", addr, flag)
	}
	return ln, err
}

func (a *agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d scrapes are under way, and there may be no more at a time", mostScrapes), http.StatusServiceUnavailable)
		return
	}
	switch r.URL.Path {
	case "/":
		a.serveIndex(w)
	case "/metrics":
		a.serveMetrics(w, r)
	case profileOfAgent:
		a.serveProfile(w, r)
	default:
		http.Error(w, fmt.Sprintf("there is nothing at %s; there are /metrics and %s", printable(r.URL.Path), profileOfAgent), http.StatusNotFound)
	}
}

// serveIndex says what there is to scrape.
func (a *agent) serveIndex(w http.ResponseWriter) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "/metrics\n%s?metric=wait&seconds=10\n", profileOfAgent)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.all {
		fmt.Fprintf(&out, "%s?metric=wait&seconds=10&source=%s\n", profileOfAgent, url.QueryEscape(m.label(a.all)))
	}
	w.Write(out.Bytes())
}

func (a *agent) serveMetrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := scrapeContext(r)
	defer cancel()
	all, err := a.metrics(ctx)
	switch {
	case r.Context().Err() != nil:
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	metrics.Write(w, all)
}

// metrics are those of all programs, which are asked unless that was done just now.
func (a *agent) metrics(ctx context.Context) ([]metrics.Family, error) {
	select {
	case a.round <- struct{}{}:
		defer func() { <-a.round }()
	case <-ctx.Done():
		return nil, errors.New("the programs are being asked for another scrape, which takes long")
	}
	if (a.latest == nil || !a.sur.clock.Now().Before(a.next)) && a.ask(ctx) {
		a.next = a.sur.clock.Now().Add(sumEvery)
	}
	return a.latest, nil
}

// scrapeContext ends before Prometheus, which says in a header how long it waits, gives the scrape up: one program that does not
// answer must not take the others' metrics away.
func scrapeContext(r *http.Request) (context.Context, context.CancelFunc) {
	seconds, err := strconv.ParseFloat(r.Header.Get("X-Prometheus-Scrape-Timeout-Seconds"), 64)
	if err != nil || !(seconds > 0) || seconds > math.MaxInt32 {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeoutCause(r.Context(), time.Duration(0.9*seconds*float64(time.Second)), errors.New("no answer in the time of the scrape"))
}

// ask takes the graphs of all programs and makes metrics of them, and reports whether it did: a scrape whose client leaves
// meanwhile says nothing about the programs that have not answered yet. A program that is being traced for a profile keeps its
// earlier metrics.
func (a *agent) ask(ctx context.Context) bool {
	all := a.refresh()
	var free []*member
	for _, m := range all {
		if m.scraped.TryLock() {
			free = append(free, m)
			if u, ok := m.source.(*urlSource); ok {
				u.next = time.Time{} // metrics says how often traces are taken, rather than livePause
			}
		}
	}
	err := askAll(ctx, a.set, a.sur, free, func(*member) {}) // a program that has not answered in time has an error
	left := errors.Is(err, context.Canceled) && slices.ContainsFunc(free, func(m *member) bool { return m.err != nil })
	for _, m := range free {
		if m.err == nil || !left {
			a.note(m, m.snap, m.err)
		}
		m.snap = nil
		m.scraped.Unlock()
	}
	if left {
		return false
	}
	reportChanges(free, a.sur.say)
	var targets []metrics.Target
	a.mu.Lock()
	for _, m := range all {
		if known, ok := a.known[m]; ok {
			targets = append(targets, metrics.Target{Name: m.label(all), Graph: known.period})
		}
	}
	a.mu.Unlock()
	a.latest = metrics.Of(targets)
	return true
}

// refresh reads the lists of targets again if that is due, and returns the programs.
func (a *agent) refresh() []*member {
	a.roster.refresh(a.life)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = a.roster.all
	maps.DeleteFunc(a.known, func(m *member, _ lastGraphs) bool { return !slices.Contains(a.all, m) })
	return a.all
}

// note keeps what a program has answered.
func (a *agent) note(m *member, s *bgraph.Snapshot, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.known[m].whole
	switch {
	case err != nil:
		a.known[m] = lastGraphs{whole: before}
	case s.Kind == bgraph.KindGoroutines:
		a.known[m] = lastGraphs{period: s}
	default:
		now := lastGraphs{period: s, whole: s}
		if before != nil && bgraph.SameRun(before, s) {
			if d, err := bgraph.Diff(before, s); err == nil {
				now.period = d
			}
		}
		a.known[m] = now
	}
}

// writeResponse answers a request with the body, which is of that media type.
func writeResponse(w http.ResponseWriter, mediaType string, body []byte) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.Copy(w, bytes.NewReader(body))
}
