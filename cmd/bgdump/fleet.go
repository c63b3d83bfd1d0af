package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
)

// atOnce is how many programs are asked at a time. A reader that is slow makes programs keep their traces in memory.
const atOnce = 32

// leastSkew is by how much a clock must differ to be told.
const leastSkew = 2 * time.Second

// A member is a source of several that are added up.
type member struct {
	source
	name string
	snap *bgraph.Snapshot
	skew time.Duration // of its clock
	err  error
}

// members are the sources of the command line and the targets that -targets names.
func members(ctx context.Context, set *settings, sur *surroundings) ([]*member, error) {
	var all []*member
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
		all = append(all, &member{source: src, name: src.Name()})
	}
	if len(set.targets) > 0 {
		found, bad, err := findTargets(ctx, set.targets, sur, set)
		if err != nil {
			return nil, err
		}
		for _, err := range bad {
			fmt.Fprintln(sur.stderr, "bgdump:", explain(err))
		}
		for _, t := range found {
			if slices.ContainsFunc(all, func(m *member) bool { return m.Name() == printable(t.at.Redacted()) }) {
				continue // an argument, too
			}
			all = append(all, &member{source: newURLSource(t.at, sur, set), name: t.name})
		}
	}
	switch n := len(all); {
	case n == 0:
		return nil, errors.New("there is no target to ask")
	case n > maxSources:
		return nil, fmt.Errorf("%d sources; want at most %d", n, maxSources)
	}
	return all, nil
}

// why is the error without the name of the source.
func (m *member) why() string { return strings.TrimPrefix(explain(m.err), m.source.Name()+": ") }

// fleet shows the sum of all sources. A program that gives no graph is reported, and the others are shown.
func fleet(ctx context.Context, set *settings, sur *surroundings) (int, error) {
	all, err := members(ctx, set, sur)
	if err != nil {
		return exitFailed, err
	}
	if err := askAll(ctx, set, sur, all); err != nil {
		return exitFailed, err
	}
	var snaps []*bgraph.Snapshot
	var sources []bgraph.Source
	for _, m := range all {
		from := bgraph.Source{Name: bgraph.CleanText(m.name), Skew: bgraph.Nanos(m.skew)}
		if m.err != nil {
			from.Failed = bgraph.CleanText(m.why())
		} else {
			snaps = append(snaps, m.snap)
		}
		sources = append(sources, from)
	}
	reportFailures(sur.stderr, all)
	if len(snaps) == 0 {
		return exitFailed, fmt.Errorf("no graph of %s", plural(len(all), "source"))
	}
	s, err := bgraph.Merge(snaps...)
	if err != nil {
		return exitFailed, err
	}
	if len(all) > 1 {
		graphcompare.Describe(sources, snaps)
		s.Sources = sources
	}
	return show(set, s, sur)
}

// askAll takes the graphs of all members at once, as far as atOnce allows. An error is one that concerns all.
func askAll(ctx context.Context, set *settings, sur *surroundings, all []*member) error {
	urls := 0
	for _, m := range all {
		if u, ok := m.source.(*urlSource); ok {
			u.stderr = io.Discard // told once for all
			urls++
		}
	}
	if urls > 0 {
		fmt.Fprintf(sur.stderr, "bgdump: asking %s, at most %d at a time; to take an execution trace costs a program 1 to 15 %% of its throughput meanwhile\n", plural(urls, "program"), atOnce)
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, m := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			began := sur.clock.Now()
			m.snap, m.err = take(ctx, set, m.source, sur)
			if u, ok := m.source.(*urlSource); ok {
				u.transport.CloseIdleConnections()
				m.correctClock(began, sur.clock.Now())
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	onlyOfOneKind(all)
	for _, m := range all {
		if _, ok := m.source.(*urlSource); !ok && m.err != nil {
			return m.err
		}
	}
	return nil
}

// correctClock moves the times of a graph that cannot have been taken when the program was asked.
func (m *member) correctClock(began, ended time.Time) {
	if m.err != nil || m.snap.Taken.IsZero() {
		return
	}
	switch taken := m.snap.Taken; {
	case taken.Before(began.Add(-leastSkew)):
		m.skew = taken.Sub(began)
	case taken.After(ended.Add(leastSkew)):
		m.skew = taken.Sub(ended)
	}
	m.snap.Taken = m.snap.Taken.Add(-m.skew)
	m.snap.Program.Started = m.snap.Program.Started.Add(-m.skew)
}

// onlyOfOneKind fails those members whose graphs cannot be added to that of the first, or would count twice.
func onlyOfOneKind(all []*member) {
	var first *member
	for i, m := range all {
		switch {
		case m.err != nil:
		case first == nil:
			first = m
		case m.snap.Kind != first.snap.Kind:
			m.err = fmt.Errorf("%s: its graph cannot be added to that of %s: one is a graph of tasks, the other an execution trace", m.Name(), first.name)
		case m.snap.Program.PID != 0:
			for _, other := range all[:i] {
				if other.err == nil && sameRun(other.snap, m.snap) {
					m.err = fmt.Errorf("%s: it is the same process as %s, and would count twice", m.Name(), other.name)
				}
			}
		}
	}
}

// mostNamed is how many programs with the same error are named.
const mostNamed = 5

// reportFailures says which programs gave no graph, those with the same reason together.
func reportFailures(w io.Writer, all []*member) {
	names := map[string][]string{}
	for _, m := range all {
		if m.err != nil {
			names[m.why()] = append(names[m.why()], m.name)
		}
		if m.skew != 0 {
			ahead := "ahead"
			if m.skew < 0 {
				ahead = "behind"
			}
			fmt.Fprintf(w, "bgdump: %s: its clock is %s %s; the times shown are corrected\n", m.name, m.skew.Abs().Round(time.Second), ahead)
		}
	}
	var reasons []string
	for why := range names {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(len(names[b]), len(names[a])), cmp.Compare(a, b)) })
	for _, why := range reasons {
		list := names[why]
		more := ""
		if len(list) > mostNamed {
			list, more = list[:mostNamed], fmt.Sprintf(" and %d more", len(list)-mostNamed)
		}
		fmt.Fprintf(w, "bgdump: %s%s: %s\n", strings.Join(list, ", "), more, why)
	}
}
