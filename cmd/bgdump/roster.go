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
}

// newRoster opens the sources of the command line.
func newRoster(ctx context.Context, set *settings, sur *surroundings) (*roster, error) {
	r := &roster{finder: finder{lists: set.targets, sur: sur, set: set}}
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
func (r *roster) begin(ctx context.Context) (bad []error, err error) {
	bad = r.refresh(ctx)
	switch n := len(r.all); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case n == 0 && len(bad) == 1:
		return nil, bad[0]
	case n == 0:
		return bad, errors.New("there is no target to ask")
	}
	return bad, nil
}

// refresh reads the lists again, and returns what is wrong with them. A member that is still there stays the same.
func (r *roster) refresh(ctx context.Context) (bad []error) {
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
		at := t.name
		if t.at != nil {
			at = printable(t.at.Redacted())
		}
		if names[at] {
			continue // an argument, too
		}
		m := known[t.name+" "+at]
		if m == nil {
			m = &member{source: t.source(r.finder.sur, r.finder.set), name: t.name,
				reopen: func(_ context.Context, set *settings) (source, error) { return t.source(r.finder.sur, set), nil }}
		} else if t.absent != "" {
			m.source = absentSource{t.name, t.absent} // the reason may be another one
		}
		all = append(all, m)
	}
	if r.all = all; len(all) > maxSources {
		r.all = all[:maxSources]
		bad = append(bad, fmt.Errorf("%d sources; want at most %d", len(all), maxSources))
	}
	return bad
}
