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

// List returns the pods as they are now, sorted by name.
func (p *Pods) List(ctx context.Context) ([]Pod, error) {
	all, _, err := p.list(ctx)
	return sorted(all), err
}

func sorted(all map[string]Pod) []Pod {
	return slices.SortedFunc(maps.Values(all), func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
}

// A Watch knows pods as they come and go.
type Watch struct {
	pods  *Pods
	ended chan bool // closed after the last use of pods

	mu      sync.Mutex
	changed *sync.Cond
	all     map[string]Pod // guarded by mu; nil: no list has come yet
	err     error          // guarded by mu: of the latest attempt; nil: it works
}

// Watch lists the pods and then follows their changes until ctx ends. The Pods must not be used otherwise.
func (p *Pods) Watch(ctx context.Context) *Watch {
	w := &Watch{pods: p, ended: make(chan bool)}
	w.changed = sync.NewCond(&w.mu)
	go w.run(ctx)
	return w
}

// Now returns the pods that are known, sorted by name, and why they may be out of date, nil if they are not. The first call
// waits for the first list or its failure.
func (w *Watch) Now() ([]Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.all == nil && w.err == nil {
		w.changed.Wait()
	}
	return sorted(w.all), w.err
}

// Wait waits for the end of the watch, after that of its context.
func (w *Watch) Wait() { <-w.ended }

func (w *Watch) run(ctx context.Context) {
	defer close(w.ended)
	defer w.pods.Close()
	for {
		all, version, err := w.pods.list(ctx)
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

// note records what is known: all pods, unless they are nil, and an error.
func (w *Watch) note(all map[string]Pod, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if all != nil {
		w.all = all
	}
	w.err = err
	w.changed.Broadcast()
}

// pause reports whether the watch goes on after a while.
func (w *Watch) pause(ctx context.Context) bool {
	select {
	case <-w.pods.clock.After(again):
		return ctx.Err() == nil
	case <-ctx.Done():
		w.note(nil, context.Cause(ctx))
		return false
	}
}

// follow watches from a version on, one watch after the other. It returns errGone if the pods must be listed again.
func (w *Watch) follow(ctx context.Context, version string) error {
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
func (w *Watch) watch(ctx context.Context, version *string) error {
	within, cancel := w.pods.within(ctx, watchFor+w.pods.timeout)
	defer cancel()
	resp, err := w.pods.get(within, "watch", url.Values{
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
func (w *Watch) apply(e *event, version *string) error {
	if e.Type == "ERROR" {
		var s status
		if err := json.Unmarshal(e.Object, &s); err == nil && s.Code == http.StatusGone {
			return errGone
		}
		return fmt.Errorf("the API server ends the watch: %d %s", s.Code, s.Message)
	}
	var o podObject
	if err := json.Unmarshal(e.Object, &o); err != nil {
		return fmt.Errorf("the API server's watch cannot be read: %w", err)
	}
	if o.Metadata.ResourceVersion != "" {
		*version = o.Metadata.ResourceVersion
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case "ADDED", "MODIFIED":
		pod := o.pod()
		if w.all[pod.Name] = pod; len(w.all) > graphlimits.Sources {
			return w.pods.tooMany()
		}
	case "DELETED":
		delete(w.all, o.Metadata.Name)
	}
	w.err = nil
	return nil
}
