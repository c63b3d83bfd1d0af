package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
)

// profileOfAgent is the path of an agent's profiles, the same as that of package graphhttp.
const profileOfAgent = handlerPath + "pprof"

// The seconds that a profile covers: at most, and if the request does not say.
const (
	mostSeconds  = 120 // the agent ends answers after three minutes
	usualSeconds = 10
)

// A captureKey says what a profile is about.
type captureKey struct {
	source  string // label of a member; empty: all of them
	seconds int
}

// A capture is the graph of some seconds. Several profiles may be made of it: there can be one trace of a program at a time, and
// Pyroscope and its like want its waits, CPU time and more, each as a profile of its own, and ask for them at about the same time.
// Each capture has a client, and so a slot of the agent's: without a client it ends.
type capture struct {
	key     captureKey
	clients int // guarded by agent.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed when snap or err is there
	snap    *bgraph.Snapshot
	err     error
}

func (a *agent) serveProfile(w http.ResponseWriter, r *http.Request) {
	key, metric, err := parseScrape(r.URL.RawQuery)
	if err != nil {
		http.Error(w, printable(err.Error()), http.StatusBadRequest)
		return
	}
	c, err := a.capture(key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	defer a.leave(c)
	select {
	case <-c.done:
	case <-r.Context().Done():
		return
	}
	var out bytes.Buffer
	err = c.err
	if err == nil && metric != "" {
		err = export.WriteProfileOf(&out, c.snap, metric)
	} else if err == nil {
		err = export.WriteProfile(&out, c.snap)
	}
	if err != nil {
		http.Error(w, explain(err), http.StatusBadGateway)
		return
	}
	writeResponse(w, "application/octet-stream", out.Bytes())
}

// parseScrape reads the query of a request for a profile.
func parseScrape(raw string) (key captureKey, metric string, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return key, "", fmt.Errorf("the query can't be read: %w", err)
	}
	known := []string{"metric", "seconds", "source"}
	for name, all := range values {
		switch {
		case !slices.Contains(known, name):
			return key, "", fmt.Errorf("unknown parameter %q; there are %s", clip(name, 100), strings.Join(known, ", "))
		case len(all) > 1:
			return key, "", fmt.Errorf("%s is given %d times", name, len(all))
		}
	}
	key = captureKey{source: values.Get("source"), seconds: usualSeconds}
	if text := values.Get("seconds"); text != "" {
		if key.seconds, err = strconv.Atoi(text); err != nil || key.seconds < 1 || key.seconds > mostSeconds {
			return key, "", fmt.Errorf("seconds=%q; want a number from 1 to %d", clip(text, 100), mostSeconds)
		}
	}
	metric = values.Get("metric")
	if metric != "" && !slices.Contains(metricsOfProfiles, metric) {
		return key, "", fmt.Errorf("metric=%q; want %s", clip(metric, 100), strings.Join(metricsOfProfiles, ", "))
	}
	return key, metric, nil
}

var metricsOfProfiles = []string{"cpu", "wait", "ready", "count", "heap"}

// capture returns the capture of the key that is under way, or a new one, which the caller must leave. It is an error if there is
// no such source.
func (a *agent) capture(key captureKey) (*capture, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.captures[key]; c != nil {
		c.clients++
		return c, nil
	}
	var chosen []*member
	var names []string
	for _, m := range a.all {
		name := m.label(a.all)
		if names = append(names, name); key.source == "" || key.source == name {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there is no source %q; there are %s", printable(clip(key.source, 100)), naming(names))
	}
	ctx, cancel := context.WithCancel(a.life)
	c := &capture{key: key, clients: 1, cancel: cancel, done: make(chan struct{})}
	a.captures[key] = c
	a.running.Go(func() {
		c.snap, c.err = a.take(ctx, chosen, key.seconds)
		a.mu.Lock()
		a.forget(c)
		a.mu.Unlock()
		close(c.done)
	})
	return c, nil
}

// forget lets no more clients share a capture. Caller holds mu.
func (a *agent) forget(c *capture) {
	if a.captures[c.key] == c {
		delete(a.captures, c.key)
	}
}

// leave is for a client that does not wait for a capture any more. The last one waits until the capture has ended.
func (a *agent) leave(c *capture) {
	a.mu.Lock()
	c.clients--
	last := c.clients == 0
	if last {
		a.forget(c)
	}
	a.mu.Unlock()
	if last {
		c.cancel()
		<-c.done
	}
}

// take takes the graph of what the members do in the next seconds.
func (a *agent) take(ctx context.Context, of []*member, seconds int) (*bgraph.Snapshot, error) {
	set := *a.set
	set.seconds = time.Duration(seconds) * time.Second
	of = slices.Clone(of)
	slices.SortFunc(of, func(a, b *member) int { return strings.Compare(a.Name(), b.Name()) }) // so that no two captures wait for each other
	var own []*member
	for _, m := range of {
		if a.maybeTraced(m) {
			m.scraped.Lock()
			defer m.scraped.Unlock()
		}
		src, err := m.reopen(ctx, &set)
		if err != nil {
			src = absentSource{m.Name(), explain(err)}
		}
		own = append(own, &member{source: src, name: m.name})
	}
	if len(own) == 1 {
		m := own[0]
		if err := askAll(ctx, &set, a.sur, own, func(*member) {}); err != nil || m.err != nil {
			return nil, cmp.Or(m.err, err)
		}
		if m.snap.Kind == bgraph.KindGoroutines {
			a.note(of[0], m.snap, nil) // metrics that the program need not be traced for
		}
		return m.snap, nil
	}
	s, err := sum(ctx, &set, a.sur, own)
	for _, m := range own {
		if err != nil && m.err != nil {
			return nil, fmt.Errorf("%w; the first one: %w", err, m.err)
		}
	}
	return s, err
}

// maybeTraced reports whether a graph of the program may have to be made of a trace. A program can make one trace at a time.
func (a *agent) maybeTraced(m *member) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[m].whole == nil
}
