//go:build linux

// Package graphhttp serves the blocking graph of the running program over HTTP, for people
// and for bgdump.
package graphhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/task"
)

// Handler serves the graph of rt over HTTP, for people and for bgdump. With rt nil it is the runtime that task.Default
// returns at the time of the request. It may be mounted at any path:
//
//	mux.Handle("/debug/bgraph/", graphhttp.Handler(nil))
//
// Without a query it answers with a page of links and a table. The query says more:
//
//	format=   dump, text, summary, json, dot, svg, folded, pprof or lint
//	seconds=  what happens in the next N seconds, 1 to 300; for at most 32 clients at a time
//	focus=    only nodes whose name, or a function of whose stack, this regular expression matches
//	ignore=   without the nodes that this regular expression matches
//	sort=     column to sort the text by, like now, wait, ready or cpu; an unknown name is answered with all of them
//	limit=    rows of a table, nodes of a drawing
//	color=    cpu or wait: what colours a drawing
//	metric=   cpu, wait, ready, count or heap: what folded stacks count, and the only sample type of pprof
//
// Below it, pprof is the format of that name: /debug/bgraph/pprof?metric=wait&seconds=10 is for programs that fetch
// profiles again and again, as they do from net/http/pprof.
//
// Its clients learn how the program works and what it is doing: mount it
// where only operators have access. It stops no loop, and may be called from a goroutine or a
// task; a task parks.
func Handler(rt *task.Runtime) http.Handler {
	return handlerFor(func() (s *bgraph.Snapshot) {
		from := rt
		if from == nil {
			from = task.Default()
		}
		engine.Offload(func() { s = (*engine.Runtime)(from).Graph().Snapshot() })
		return s
	})
}

// handlerFor serves what snapshot returns; nil means that there is no graph.
func handlerFor(snapshot func() *bgraph.Snapshot) http.Handler {
	return &handler{snapshot: snapshot, pause: pause}
}

const (
	longestDifference = 300  // seconds
	mostDifferences   = 32   // under way at a time; each keeps a snapshot meanwhile
	longestPattern    = 1000 // bytes of a regular expression
	highestLimit      = 1e5  // rows or nodes
	indexRows         = 40   // of a table on the page of links
	plainText         = "text/plain; charset=utf-8"
)

type handler struct {
	snapshot func() *bgraph.Snapshot
	pause    func(ctx context.Context, d time.Duration) error // returns early with the error of ctx

	differences atomic.Int32 // under way
}

// pause waits for d. A task parks.
func pause(ctx context.Context, d time.Duration) error {
	if engine.Current() != nil {
		return engine.Under(ctx, func() error { return engine.Sleep(d) })
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A form is a way to write a graph.
type form struct {
	name  string
	about string // for the page of links
	mime  string
	file  string // end of the file's name; empty: it is for reading in the browser
	write func(w io.Writer, s *bgraph.Snapshot, q *query) error
}

var forms = []form{
	{"dump", "the whole graph, for bgdump and to keep", "application/octet-stream", ".bgraph",
		func(w io.Writer, s *bgraph.Snapshot, _ *query) error { return s.Encode(w) }},
	{"text", "tables of nodes and steps", plainText, "",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error { return tables.WriteText(w, s, q.text) }},
	{"summary", "the most important on one screen", plainText, "",
		func(w io.Writer, s *bgraph.Snapshot, _ *query) error { return tables.WriteSummary(w, s) }},
	{"json", "the whole graph as JSON", "application/json", "",
		func(w io.Writer, s *bgraph.Snapshot, _ *query) error { return export.WriteJSON(w, s) }},
	{"dot", "a drawing for Graphviz", "text/vnd.graphviz; charset=utf-8", "",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error { return draw.WriteDOT(w, s, q.drawing(s)) }},
	{"svg", "a drawing", "image/svg+xml", "",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error { return draw.WriteSVG(w, s, q.drawing(s)) }},
	{"folded", "stacks for a flame graph", plainText, "",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error { return export.WriteFolded(w, s, q.metric) }},
	{"pprof", "a profile for go tool pprof", "application/octet-stream", ".pb.gz",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error {
			if metric := q.values.Get("metric"); metric != "" {
				return export.WriteProfileOf(w, s, metric)
			}
			return export.WriteProfile(w, s)
		}},
	{"lint", "what looks wrong", plainText, "",
		func(w io.Writer, s *bgraph.Snapshot, q *query) error {
			return lint.Write(w, s, lint.FindPart(q.whole, s))
		}},
}

func formNames() string {
	var names []string
	for i := range forms {
		names = append(names, forms[i].name)
	}
	return strings.Join(names, ", ")
}

// A query is what a client asks for.
type query struct {
	values        url.Values
	form          *form // nil: the page of links
	seconds       int   // 0: since the beginning
	focus, ignore *regexp.Regexp
	text          tables.Options
	draw          draw.Options
	metric        string
	whole         *bgraph.Snapshot // the snapshot before focus and ignore are applied
}

var parameters = []string{"format", "seconds", "focus", "ignore", "sort", "limit", "color", "metric"}

func parseQuery(raw string) (*query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, fmt.Errorf("the query can't be read: %w", err)
	}
	for name, all := range values {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("unknown parameter %q; there are %s", name, strings.Join(parameters, ", "))
		}
		if len(all) > 1 {
			return nil, fmt.Errorf("%s is given %d times", name, len(all))
		}
	}
	q := &query{values: values, metric: "cpu", whole: new(bgraph.Snapshot)}
	if name := values.Get("format"); name != "" {
		i := slices.IndexFunc(forms, func(f form) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown format %q; there are %s", name, formNames())
		}
		q.form = &forms[i]
	}
	limit := 0
	for _, n := range []struct {
		name string
		to   *int
		most int
	}{{"seconds", &q.seconds, longestDifference}, {"limit", &limit, highestLimit}} {
		if *n.to, err = numberIn(values, n.name, n.most); err != nil {
			return nil, err
		}
	}
	if q.focus, err = patternIn(values, "focus"); err != nil {
		return nil, err
	}
	if q.ignore, err = patternIn(values, "ignore"); err != nil {
		return nil, err
	}
	q.text = tables.Options{Sort: values.Get("sort"), Limit: limit}
	q.draw = draw.Options{Color: values.Get("color"), MaxNodes: limit}
	if m := values.Get("metric"); m != "" {
		q.metric = m
	}
	if err := q.render(io.Discard, q.whole); err != nil { // now, not after seconds
		return nil, errors.New(strings.TrimPrefix(err.Error(), "bgraph: "))
	}
	return q, nil
}

// drawing says how s is drawn, with what was found in it.
func (q *query) drawing(s *bgraph.Snapshot) draw.Options {
	o := q.draw
	o.Findings = lint.FindPart(q.whole, s)
	return o
}

// formOf is the query of an address whose path may say the format.
func formOf(u *url.URL) string {
	if path.Base(u.Path) == "pprof" && !u.Query().Has("format") {
		return strings.TrimPrefix(u.RawQuery+"&format=pprof", "&")
	}
	return u.RawQuery
}

// numberIn reads a number from 1 to most; 0 if there is none.
func numberIn(values url.Values, name string, most int) (int, error) {
	text := values.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s=%q; want a number from 1 to %d", name, text, most)
	}
	return n, nil
}

func patternIn(values url.Values, name string) (*regexp.Regexp, error) {
	text := values.Get(name)
	switch {
	case text == "":
		return nil, nil
	case len(text) > longestPattern:
		return nil, fmt.Errorf("%s is %d bytes long; want at most %d", name, len(text), longestPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no regular expression (see https://pkg.go.dev/regexp/syntax): %w", name, err)
	}
	return re, nil
}

// A refusal is an answer other than 200, with its text.
type refusal struct {
	status int
	text   string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'self'")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		refuse(w, refusal{http.StatusMethodNotAllowed, "only GET and HEAD are served here"})
		return
	}
	q, err := parseQuery(formOf(r.URL))
	if err != nil {
		refuse(w, refusal{http.StatusBadRequest, err.Error()})
		return
	}
	s, refused := h.take(r, q)
	switch {
	case refused != nil:
		refuse(w, *refused)
		return
	case s == nil: // the client has disconnected
		return
	}
	// Rendered first, so that an error is an error and not half a page; and away from
	// the loop, if this is a task, as a large graph takes some milliseconds.
	var out bytes.Buffer
	engine.Offload(func() {
		q.whole, q.text.Whole = s, s
		err = q.render(&out, s.Filter(q.focus, q.ignore))
	})
	if err != nil {
		refuse(w, refusal{http.StatusInternalServerError, err.Error()})
		return
	}
	header.Set("Content-Type", q.mime())
	if q.form != nil && q.form.file != "" {
		header.Set("Content-Disposition", `attachment; filename="`+fileName(s)+q.form.file+`"`)
	}
	header.Set("Content-Length", strconv.Itoa(out.Len()))
	w.Write(out.Bytes())
}

func refuse(w http.ResponseWriter, r refusal) {
	w.Header().Set("Content-Type", plainText)
	w.WriteHeader(r.status)
	io.WriteString(w, r.text+"\n")
}

// take gets the Snapshot to show: nil without a refusal if the client has gone away.
func (h *handler) take(r *http.Request, q *query) (*bgraph.Snapshot, *refusal) {
	if q.seconds == 0 {
		if s := h.snapshot(); s != nil {
			return s, nil
		}
		return nil, &noGraph
	}
	d := time.Duration(q.seconds) * time.Second
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.WriteTimeout > 0 && d >= srv.WriteTimeout {
		return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("seconds=%d is too long for this server: it ends answers after %v", q.seconds, srv.WriteTimeout)}
	}
	defer h.differences.Add(-1)
	if h.differences.Add(1) > mostDifferences {
		return nil, &refusal{http.StatusServiceUnavailable, fmt.Sprintf("%d requests with seconds are under way, and there may be no more at a time; try again when one has ended", mostDifferences)}
	}
	before := h.snapshot()
	if before == nil {
		return nil, &noGraph
	}
	if h.pause(r.Context(), d) != nil {
		return nil, nil
	}
	after := h.snapshot()
	if after == nil {
		return nil, &noGraph
	}
	s, err := bgraph.Diff(before, after)
	if err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, err.Error()}
	}
	return s, nil
}

var noGraph = refusal{http.StatusServiceUnavailable, "this program has no blocking graph at the moment: no runtime runs, or its graph is switched off (CAPRICCIO_GRAPH=on switches it on)"}

func (q *query) mime() string {
	if q.form == nil {
		return "text/html; charset=utf-8"
	}
	return q.form.mime
}

func (q *query) render(w io.Writer, s *bgraph.Snapshot) error {
	if q.form == nil {
		return q.writeIndex(w, s)
	}
	return q.form.write(w, s, q)
}

// fileName is the name of a file for s, without its end.
func fileName(s *bgraph.Snapshot) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s.Program.Name)
	return strings.TrimLeft(name, ".") + "-" + strconv.Itoa(s.Program.PID)
}
