package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/words"
)

// atOnce is how many programs are asked at a time. A reader that is slow makes programs keep their traces in memory.
const atOnce = 32

// leastSkew is the least difference of a clock that is reported.
const leastSkew = 2 * time.Second

// A member is a source of several that are asked together.
type member struct {
	source
	name    string
	snap    *bgraph.Snapshot
	run     *bgraph.Snapshot // the kind and program of the latest graph, without the rest of it
	skew    time.Duration    // of its clock
	taken   time.Time        // when the graph was taken, by that clock
	repeats bool             // it is the graph that came before: traces are taken only now and then
	err     error
	failing bool                                             // its failure has been reported
	skewed  bool                                             // that its clock differs has been reported
	folder  string                                           // of its recordings
	reopen  func(context.Context, *settings) (source, error) // makes the source anew, for another goroutine
	asking  sync.Mutex                                       // held while askAll or a page asks it: there can be one trace of it at a time
	scraped sync.Mutex                                       // held while a scrape of an agent asks it
}

// members are the sources of the command line and the targets that -targets names.
func members(ctx context.Context, set *settings, sur *surroundings) ([]*member, error) {
	if len(set.sources) == 1 && len(set.targets) == 0 {
		return (&recordedFleet{dir: set.sources[0], set: set, sur: sur}).members()
	}
	r, err := newRoster(ctx, set, sur)
	if err != nil {
		return nil, err
	}
	err = r.begin(ctx)
	return r.all, err
}

// label is the name of a member, with its address if another one has the same name.
func (m *member) label(all []*member) string {
	for _, other := range all {
		if other != m && other.name == m.name {
			return m.name + " " + m.Name()
		}
	}
	return m.name
}

// same reports whether both are one program: a pod that can be asked now has an address that it had not before.
func (m *member) same(other *member) bool {
	_, wasAbsent := m.source.(absentSource)
	_, isAbsent := other.source.(absentSource)
	return m.name == other.name && (m.Name() == other.Name() || wasAbsent != isAbsent)
}

// why is the error without the name of the source.
func (m *member) why() string { return strings.TrimPrefix(explain(m.err), m.source.Name()+": ") }

// fleet shows the sum of all sources. A program that gives no graph is reported, and the others are shown.
func fleet(ctx context.Context, set *settings, sur *surroundings) (int, error) {
	all, err := members(ctx, set, sur)
	if err != nil {
		return exitFailed, err
	}
	announce(sur, all)
	s, err := sum(ctx, set, sur, all)
	if ctx.Err() != nil {
		return exitFailed, context.Cause(ctx)
	}
	for _, m := range all {
		switch m.source.(type) {
		case *urlSource, absentSource, *folderSource:
		default:
			if m.err != nil {
				return exitFailed, m.err
			}
		}
	}
	reportChanges(all, sur.say)
	if err != nil {
		return exitFailed, err
	}
	return show(set, s, sur)
}

// inMemory is how many graphs are in memory at a time until they are added up.
const inMemory = 4 * atOnce

// sum asks all members, adds their graphs up, and keeps what each did.
func sum(ctx context.Context, set *settings, sur *surroundings, all []*member) (*bgraph.Snapshot, error) {
	var total *bgraph.Snapshot
	var differing graphcompare.Fleet
	sources := make([]bgraph.Source, len(all))
	for first := 0; first < len(all); first += inMemory {
		next := all[first:min(first+inMemory, len(all))]
		if err := askAll(ctx, set, sur, next, func(*member) {}); err != nil {
			return nil, err
		}
		onlyOfOneKind(all[:first+len(next)], first)
		var graphs []*bgraph.Snapshot
		if total != nil {
			graphs = append(graphs, total)
		}
		for i, m := range next {
			from := &sources[first+i]
			*from = bgraph.Source{Name: graphlimits.Name.Clean(m.label(all)), Skew: bgraph.Nanos(m.skew)}
			if m.err != nil {
				from.Failed = graphlimits.Name.Clean(m.why())
			} else {
				differing.Add(from, m.snap)
				graphs = append(graphs, m.snap)
			}
			m.snap = nil
		}
		if len(graphs) > 0 {
			var err error
			if total, err = bgraph.Merge(graphs...); err != nil {
				return nil, err
			}
		}
	}
	if total == nil {
		return nil, fmt.Errorf("no graph of %s", words.Plural(len(all), "source"))
	}
	if len(all) > 1 {
		differing.Mark(sources)
		total.Sources = sources
	}
	return total, nil
}

// announce says what is about to be asked.
func announce(sur *surroundings, all []*member) {
	urls := 0
	for _, m := range all {
		if _, ok := m.source.(*urlSource); ok {
			urls++
		}
	}
	if urls > 0 {
		sur.say("asking %s, at most %d at a time; to take an execution trace costs a program 1 to 17 %% of its throughput meanwhile", words.Plural(urls, "program"), atOnce)
	}
}

// askAll takes the graphs of all members at once, as far as atOnce allows, and calls then, from several goroutines, with each
// member whose graph has come.
func askAll(ctx context.Context, set *settings, sur *surroundings, all []*member, then func(*member)) error {
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, m := range all {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			m.asking.Lock()
			defer m.asking.Unlock()
			u, isURL := m.source.(*urlSource)
			if isURL {
				u.stderr = io.Discard // told once for all
			}
			began := sur.clock.Now()
			m.snap, m.err = take(ctx, set, m.source, sur)
			if isURL {
				u.transport.CloseIdleConnections()
				m.correctClock(began, sur.clock.Now())
			}
			if m.err == nil {
				then(m)
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// correctClock moves the times of a graph that cannot have been taken when the program was asked.
func (m *member) correctClock(began, ended time.Time) {
	if m.err != nil || m.snap.Taken.IsZero() {
		return
	}
	taken := m.snap.Taken
	m.repeats = taken.Equal(m.taken)
	m.taken = taken
	fits := func(t time.Time) bool {
		return !t.Before(began.Add(-leastSkew)) && !t.After(ended.Add(leastSkew))
	}
	switch {
	case m.repeats: // its age says nothing about the clock
	case fits(taken.Add(-m.skew)): // another estimate would make another run of the program, see bgraph.SameRun
	case fits(taken):
		m.skew = 0
	case taken.Before(began.Add(-leastSkew)):
		m.skew = taken.Sub(began)
	default:
		m.skew = taken.Sub(ended)
	}
	m.snap.Taken = m.snap.Taken.Add(-m.skew)
	m.snap.Program.Started = m.snap.Program.Started.Add(-m.skew)
}

// onlyOfOneKind fails those members from next on whose graphs cannot be added to that of the first, or would count twice.
func onlyOfOneKind(all []*member, next int) {
	var first *member
	for i, m := range all {
		if m.err == nil && first == nil {
			first = m
		}
		if i < next || m.err != nil {
			continue
		}
		m.run = &bgraph.Snapshot{Kind: m.snap.Kind, Program: m.snap.Program}
		switch {
		case m.run.Kind != first.run.Kind:
			m.err = fmt.Errorf("%s: its graph cannot be added to that of %s: one is a graph of tasks, the other an execution trace", m.Name(), first.label(all))
		case m.run.Program.PID != 0:
			for _, other := range all[:i] {
				if other.err == nil && bgraph.SameRun(other.run, m.run) {
					m.err = fmt.Errorf("%s: it is the same process as %s, and would count twice", m.Name(), other.label(all))
				}
			}
		}
	}
}

// mostNamed is how many programs with the same news are named.
const mostNamed = 5

// naming is a list of at most mostNamed names.
func naming(names []string) string {
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], fmt.Sprintf(" and %d more", len(names)-mostNamed)
	}
	return strings.Join(names, ", ") + more
}

// reportChanges says which programs give no graph though they did when last asked, programs with the same reason together, which programs
// give one again, and which clocks differ.
func reportChanges(all []*member, say func(format string, args ...any)) {
	failed := map[string][]string{}
	var again []string
	for _, m := range all {
		switch {
		case m.err != nil && !m.failing:
			failed[m.why()] = append(failed[m.why()], m.label(all))
		case m.err == nil && m.failing:
			again = append(again, m.label(all))
		}
		m.failing = m.err != nil
		if m.skew != 0 && !m.skewed {
			ahead := "ahead"
			if m.skew < 0 {
				ahead = "behind"
			}
			say("%s: its clock is %s %s; the times shown are corrected", m.label(all), m.skew.Abs().Round(time.Second), ahead)
		}
		m.skewed = m.skew != 0
	}
	var reasons []string
	for why := range failed {
		reasons = append(reasons, why)
	}
	slices.SortFunc(reasons, func(a, b string) int { return cmp.Or(cmp.Compare(len(failed[b]), len(failed[a])), cmp.Compare(a, b)) })
	for _, why := range reasons {
		say("%s: %s", naming(failed[why]), why)
	}
	if len(again) > 0 {
		say("%s: it works again", naming(again))
	}
}
