package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

const (
	// watchFor is for how long a watch is asked. After that it is asked for again, with the token as it is then.
	watchFor = 5 * time.Minute
	// again is how long to wait before the API server is asked again, after an error or the end of a watch.
	again = 5 * time.Second
)

// List returns the objects as they are now, sorted by name.
func (p *Objects[T]) List(ctx context.Context) ([]T, error) {
	all, _, err := p.list(ctx)
	return sorted(all), err
}

// sorted are the values, by their keys.
func sorted[T any](all map[string]T) (values []T) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values = append(values, all[name])
	}
	return values
}

// A Watch knows objects as they come and go.
type Watch[T any] struct {
	objects *Objects[T]
	ended   chan bool     // closed after the last use of objects
	changes chan struct{} // has room for one

	mu   sync.Mutex
	came *sync.Cond   // note was called
	all  map[string]T // guarded by mu; nil: no list has come yet
	err  error        // guarded by mu: of the latest attempt; nil: it works
}

// Watch lists the objects and then follows their changes until ctx ends. The Objects must not be used otherwise.
func (p *Objects[T]) Watch(ctx context.Context) *Watch[T] {
	w := &Watch[T]{objects: p, ended: make(chan bool), changes: make(chan struct{}, 1)}
	w.came = sync.NewCond(&w.mu)
	go w.run(ctx)
	return w
}

// Now returns the objects that are known, sorted by name, and why they may be out of date, nil if they are not. The first call
// waits for the first list or its failure.
func (w *Watch[T]) Now() ([]T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.all == nil && w.err == nil {
		w.came.Wait()
	}
	return sorted(w.all), w.err
}

// Changes receives after the objects that are known, or what Now says of them, may have changed.
func (w *Watch[T]) Changes() <-chan struct{} { return w.changes }

func (w *Watch[T]) changed() {
	w.came.Broadcast()
	select {
	case w.changes <- struct{}{}:
	default:
	}
}

// Wait waits for the end of the watch, after that of its context.
func (w *Watch[T]) Wait() { <-w.ended }

func (w *Watch[T]) run(ctx context.Context) {
	defer close(w.ended)
	defer w.objects.Close()
	for {
		all, version, err := w.objects.list(ctx)
		if err == nil {
			w.note(all, nil)
			err = w.follow(ctx, version)
		}
		if !errors.Is(err, errGone) {
			w.note(nil, err)
		}
		if !w.pause(ctx) {
			return
		}
	}
}

// note records what is known: all objects, unless they are nil, and an error.
func (w *Watch[T]) note(all map[string]T, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all != nil {
		w.all = all
	}
	w.err = err
	w.changed()
}

// pause reports whether the watch goes on after a while.
func (w *Watch[T]) pause(ctx context.Context) bool {
	select {
	case <-w.objects.clock.After(again):
		return ctx.Err() == nil
	case <-ctx.Done():
		w.note(nil, context.Cause(ctx))
		return false
	}
}

// follow watches from a version on, one watch after the other. It returns errGone if the objects must be listed again.
func (w *Watch[T]) follow(ctx context.Context, version string) error {
	for {
		err := w.watch(ctx, &version)
		if err != nil {
			return err
		}
		if !w.pause(ctx) {
			return context.Cause(ctx)
		}
	}
}

// An event is a change that a watch tells.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch reads the events of one watch. It returns nil if that has ended and can go on at the version.
func (w *Watch[T]) watch(ctx context.Context, version *string) error {
	within, cancel := w.objects.within(ctx, watchFor+w.objects.timeout)
	defer cancel()
	resp, err := w.objects.get(within, "watch", url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"1"}, "resourceVersion": {*version}, "timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	limited := &io.LimitedReader{R: resp.Body}
	for events := json.NewDecoder(limited); ; {
		limited.N = mostEvent
		var e event
		switch err := events.Decode(&e); {
		case err == nil:
		case limited.N == 0:
			return fmt.Errorf("the API server tells of a change in more than %d bytes", mostEvent)
		case errors.As(err, new(*json.SyntaxError)):
			return fmt.Errorf("the API server's watch cannot be read: %w", err)
		default:
			return nil // the connection has ended, as it does now and then
		}
		if err := w.apply(&e, version); err != nil {
			return err
		}
	}
}

// apply changes what is known by an event.
func (w *Watch[T]) apply(e *event, version *string) error {
	if e.Type == "ERROR" {
		var s status
		if err := json.Unmarshal(e.Object, &s); err == nil && s.Code == http.StatusGone {
			return errGone
		}
		return fmt.Errorf("the API server ends the watch: %d %s", s.Code, s.Message)
	}
	var o struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(e.Object, &o)
	name, v, fault := w.objects.kind.read(e.Object)
	if err = cmp.Or(err, fault); err != nil {
		return fmt.Errorf("the API server's watch cannot be read: %w", err)
	}
	if o.Metadata.ResourceVersion != "" {
		*version = o.Metadata.ResourceVersion
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case "ADDED", "MODIFIED":
		if w.all[name] = v; len(w.all) > graphlimits.Sources {
			return w.objects.tooMany()
		}
	case "DELETED":
		delete(w.all, name)
	}
	w.err = nil
	w.changed()
	return nil
}
