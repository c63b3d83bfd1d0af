package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// refreshEvery is how often the lists of targets are read again, at most.
const refreshEvery = 10 * time.Second

// A roster has the members of a fleet, which come and go. It is used by one goroutine at a time.
type roster struct {
	finder finder
	given  []*member // of the command line
	all    []*member // these, and the targets in the lists
	read   time.Time // when the lists were read
	wrong  []string  // about the lists, as last told
	say    func(format string, args ...any)
}

// newRoster opens the sources of the command line.
func newRoster(ctx context.Context, set *settings, sur *surroundings) (*roster, error) {
	r := &roster{finder: finder{lists: set.targets, sur: sur, set: set}, say: sur.say}
	for _, arg := range set.sources {
		src, err := openSource(ctx, arg, sur, set)
		if err != nil {
			return nil, err
		}
		if err := suits(src, set); err != nil {
			return nil, err
		}
		if folder, ok := src.(*folderSource); ok {
			folder.last = true
		}
		r.given = append(r.given, &member{source: src, name: src.Name(),
			reopen: func(ctx context.Context, set *settings) (source, error) { return openSource(ctx, arg, sur, set) }})
	}
	return r, nil
}

// begin reads the lists for the first time. It is an error if there is no target at all.
func (r *roster) begin(ctx context.Context) error {
	bad := r.readLists(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(r.all) == 0 && len(bad) == 1 {
		return bad[0]
	}
	if r.tell(bad); len(r.all) == 0 {
		return errors.New("there is no target to ask")
	}
	return nil
}

// refresh reads the lists again if the last time was long ago, and says what is wrong with them.
func (r *roster) refresh(ctx context.Context) {
	if r.finder.sur.clock.Now().Sub(r.read) < refreshEvery {
		return
	}
	if bad := r.readLists(ctx); ctx.Err() == nil {
		r.tell(bad)
	}
}

// tell says what is wrong with the lists, once.
func (r *roster) tell(bad []error) {
	var wrong []string
	for _, err := range bad {
		text := explain(err)
		if wrong = append(wrong, text); !slices.Contains(r.wrong, text) {
			r.say("%s", text)
		}
	}
	if len(wrong) == 0 && len(r.wrong) > 0 {
		r.say("the lists of targets can be read again")
	}
	r.wrong = wrong
}

// readLists reads the lists, and returns what is wrong with them. A member that is still in a list stays the same.
func (r *roster) readLists(ctx context.Context) (bad []error) {
	if r.read = r.finder.sur.clock.Now(); len(r.finder.lists) == 0 {
		r.all = r.given
		return nil
	}
	found, bad := r.finder.find(ctx)
	all := slices.Clone(r.given)
	names, known := map[string]bool{}, map[string]*member{}
	for _, m := range r.given {
		names[m.Name()] = true
	}
	for _, m := range r.all {
		known[m.name+" "+m.Name()] = m
	}
	for _, t := range found {
		at := t.pod
		if t.at != nil {
			at = printable(t.at.Redacted())
		}
		if names[at] {
			continue // an argument, too
		}
		m := known[t.name+" "+at]
		if m == nil || t.absent != "" && m.source != source(absentSource{t.pod, t.absent}) { // the reason may be another one
			m = &member{source: t.source(r.finder.sur, r.finder.set), name: t.name,
				reopen: func(_ context.Context, set *settings) (source, error) { return t.source(r.finder.sur, set), nil }}
		}
		all = append(all, m)
	}
	if r.all = all; len(all) > maxSources {
		r.all = all[:maxSources]
		bad = append(bad, fmt.Errorf("%d sources; want at most %d", len(all), maxSources))
	}
	return bad
}
