package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/words"
)

// sumEvery is the least time between two rounds in which all sources of a fleet are asked.
const sumEvery = 5 * time.Second

// A liveFleet shows programs as they are now.
type liveFleet struct {
	set  *settings
	sur  *surroundings
	life context.Context // of the command: the watches go on between two requests

	asking sync.Mutex       // held while the programs are asked
	last   *bgraph.Snapshot // guarded by asking
	next   time.Time        // guarded by asking: the programs are not asked again before this time

	mu     sync.Mutex
	roster *roster // guarded by mu
}

// serveLive shows the sources of the command line and the lists until ctx ends.
func serveLive(ctx context.Context, set *settings, sur *surroundings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := newRoster(ctx, set, sur)
	if err != nil {
		return err
	}
	r.finder.follow()
	defer r.finder.wait()
	defer cancel()
	if err := r.begin(ctx); err != nil {
		return err
	}
	f := &liveFleet{set: set, sur: sur, life: ctx, roster: r}
	return servePage(set, sur, words.Plural(len(r.all), "source"), func(ln net.Listener, o web.Options) error {
		o.Lazy = true
		return web.ServeFleet(ctx, ln, f, o)
	})
}

// isFleetFolder reports whether a folder has folders of recordings, and no recordings itself.
func isFleetFolder(dir string) bool {
	if own, err := listRecordings(dir); err != nil || len(own) > 0 {
		return false
	}
	names, err := foldersOfFleet(dir)
	return err == nil && len(names) > 0
}

func (f *liveFleet) Name() string { return "Fleet" }

func (f *liveFleet) Sum(ctx context.Context) (*bgraph.Snapshot, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	if f.last != nil && f.sur.clock.Now().Before(f.next) {
		return f.last, nil
	}
	s, err := sum(ctx, f.set, f.sur, f.members())
	if err != nil {
		return nil, err
	}
	f.last, f.next = s, f.sur.clock.Now().Add(sumEvery)
	return s, nil
}

// members are the sources of the command line and the targets that the lists have now.
func (f *liveFleet) members() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.roster.refresh(f.life)
	return f.roster.all
}

func (f *liveFleet) Open(name string) (web.Source, iter.Seq[*bgraph.Snapshot], error) {
	src := &labelledSource{fleet: f, label: name}
	if err := src.find(f.life); err != nil {
		return nil, nil, err
	}
	return src, nil, nil
}

// A labelledSource is the member of a fleet that has a label, at the address that the lists give it at that time.
type labelledSource struct {
	fleet *liveFleet
	label string
	found *member
	src   source // of found
}

func (l *labelledSource) Name() string { return printable(l.label) }

func (l *labelledSource) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	if err := l.find(ctx); err != nil {
		return nil, err
	}
	l.found.asking.Lock()
	defer l.found.asking.Unlock()
	return l.src.Snapshot(ctx)
}

// find looks for the member again if the one that was found is in the lists no more.
func (l *labelledSource) find(ctx context.Context) error {
	all := l.fleet.members()
	if slices.Contains(all, l.found) {
		return nil
	}
	for _, m := range all {
		if graphlimits.Name.Clean(m.label(all)) == l.label {
			src, err := m.reopen(ctx, l.fleet.set)
			if err == nil {
				l.found, l.src = m, src
			}
			return err
		}
	}
	return fmt.Errorf("there is no source %q", l.Name())
}

// A recordedFleet shows the recordings in the folders of a folder.
type recordedFleet struct {
	dir string
	set *settings

	mu   sync.Mutex
	last *bgraph.Snapshot // guarded by mu
	next time.Time        // guarded by mu: the folders are not read again before this time
	sur  *surroundings
}

func (f *recordedFleet) Name() string { return "recordings in " + printable(f.dir) }

// foldersOfFleet names the folders in a folder that have recordings.
func foldersOfFleet(dir string) (names []string, err error) {
	folders, err := foldersIn(dir)
	for _, folder := range folders {
		if list, err := listRecordings(folder); err == nil && len(list) > 0 {
			names = append(names, filepath.Base(folder))
		}
	}
	return names, err
}

func (f *recordedFleet) Sum(ctx context.Context) (*bgraph.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != nil && f.sur.clock.Now().Before(f.next) {
		return f.last, nil
	}
	all, err := f.members()
	if err != nil {
		return nil, err
	}
	s, err := sum(ctx, f.set, f.sur, all)
	if err != nil {
		return nil, err
	}
	f.last, f.next = s, f.sur.clock.Now().Add(sumEvery)
	return s, nil
}

// members are the folders of the first maxSources sources, each as its last recording.
func (f *recordedFleet) members() (all []*member, err error) {
	names, err := foldersOfFleet(f.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if src, err := openFolder(filepath.Join(f.dir, name), f.sur.clock, f.set.interval); err == nil { // else it is gone
			src.last = true
			all = append(all, &member{source: src, name: name})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no recordings in the folders of %s any more", printable(f.dir))
	}
	return all[:min(len(all), maxSources)], nil
}

// A latestRecording is a folder of recordings as a source: its graph is the latest recording at that time.
type latestRecording struct {
	dir  string
	file *fileSource
}

func (r *latestRecording) Name() string { return "recordings in " + printable(r.dir) }

func (r *latestRecording) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	names, err := listRecordings(r.dir)
	if err == nil && len(names) == 0 {
		err = errors.New("there are no recordings any more")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Name(), err)
	}
	if path := filepath.Join(r.dir, names[len(names)-1]); r.file == nil || r.file.path != path {
		r.file = &fileSource{path: path}
	}
	return r.file.Snapshot(ctx)
}

// folder is the folder of a source, and what it has.
func (f *recordedFleet) folder(name string) (dir string, names []string, err error) {
	known, err := foldersOfFleet(f.dir)
	if err != nil {
		return "", nil, err
	}
	if !slices.Contains(known, name) {
		return "", nil, fmt.Errorf("there are no recordings of %q", printable(name))
	}
	dir = filepath.Join(f.dir, name)
	names, err = listRecordings(dir)
	return dir, names, err
}

// mostPast is how many recordings are read for a page.
const mostPast = 200

func (f *recordedFleet) Open(name string) (web.Source, iter.Seq[*bgraph.Snapshot], error) {
	dir, names, err := f.folder(name)
	if err != nil {
		return nil, nil, err
	}
	past := func(yield func(*bgraph.Snapshot) bool) {
		for _, name := range evenly(names, mostPast) {
			if s, err := bgraph.ReadFile(filepath.Join(dir, name)); err == nil && !yield(s) {
				return
			}
		}
	}
	return &latestRecording{dir: dir}, past, nil
}

// evenly picks at most n elements, the first and the last and others evenly between them.
func evenly[E any](list []E, n int) []E {
	if len(list) <= n {
		return list
	}
	out := make([]E, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/max(n-1, 1)]
	}
	return out
}

func (f *recordedFleet) History(ctx context.Context, name string) ([]web.Past, error) {
	dir, names, err := f.folder(name)
	if err != nil {
		return nil, err
	}
	var out []web.Past
	var before *bgraph.Snapshot
	for _, name := range evenly(names, mostPast) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		s, err := bgraph.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // the recorder has removed it just now
			continue
		case err != nil:
			out = append(out, web.Past{At: recordedAt(name), Finding: explain(err)})
			continue
		}
		past := s
		if before != nil && s.Kind != bgraph.KindGoroutines && !s.Period && bgraph.SameRun(before, s) {
			if d, err := bgraph.Diff(before, s); err == nil {
				past = d
			}
		}
		before = s
		out = append(out, pastOf(past, name))
	}
	slices.Reverse(out)
	return out, nil
}

// pastOf says in words what a graph has.
func pastOf(s *bgraph.Snapshot, name string) web.Past {
	s.Sources = make([]bgraph.Source, 1)
	new(graphcompare.Fleet).Add(&s.Sources[0], s)
	row := tables.SourceRows(s)[0]
	past := web.Past{At: recordedAt(name), Tasks: row[1], Rate: row[2], CPU: row[3]}
	if found := lint.Find(s); len(found) > 0 {
		past.Finding = found[0].Severity + ": " + found[0].Name + ": " + found[0].Message
	}
	return past
}

// mostCaptures is how many recordings of each time are compared, at most. Of a fleet, they are divided among mostCaptures/4
// programs at most.
const mostCaptures = 24

func (f *recordedFleet) Compare(ctx context.Context, name string, length, earlier time.Duration) (string, error) {
	sources := []string{name}
	if name == "" {
		var err error
		if sources, err = foldersOfFleet(f.dir); err != nil {
			return "", err
		}
	} else if _, _, err := f.folder(name); err != nil {
		return "", err
	}
	var end time.Time
	lists := map[string][]string{}
	for _, source := range sources {
		names, err := listRecordings(filepath.Join(f.dir, source))
		if err != nil || len(names) == 0 {
			continue
		}
		lists[source] = names
		if at := recordedAt(names[len(names)-1]); at.After(end) {
			end = at
		}
	}
	var sides [2][]*bgraph.Snapshot
	for i, until := range []time.Time{end.Add(-earlier), end} {
		var err error
		if sides[i], err = f.between(ctx, lists, until.Add(-length), until); err != nil {
			return "", err
		}
	}
	var text bytes.Buffer
	err := graphcompare.Judge(sides[0], sides[1], f.set.focus, f.set.ignore).WriteText(&text)
	return text.String(), err
}

// between reads recordings that were made in a time, evenly distributed over the sources and the time.
func (f *recordedFleet) between(ctx context.Context, lists map[string][]string, from, to time.Time) ([]*bgraph.Snapshot, error) {
	var within [][]string // paths of each source
	for source, names := range lists {
		var paths []string
		for _, name := range names {
			if at := recordedAt(name); at.After(from) && !at.After(to) {
				paths = append(paths, filepath.Join(f.dir, source, name))
			}
		}
		if len(paths) > 0 {
			within = append(within, paths)
		}
	}
	slices.SortFunc(within, slices.Compare)
	within = evenly(within, mostCaptures/4)
	var all []*bgraph.Snapshot
	for _, paths := range within {
		for _, path := range evenly(paths, mostCaptures/len(within)) {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s, err := bgraph.ReadFile(path)
			if err != nil {
				continue // removed by the recorder, or cut off: the others say enough
			}
			if len(all) == 0 || s.Kind == all[0].Kind {
				all = append(all, s)
			}
		}
	}
	all, err := periods(all)
	if err != nil {
		return nil, err
	}
	// A recording that is alone covers all the time since its program began.
	all = slices.DeleteFunc(all, func(s *bgraph.Snapshot) bool { return s.Kind != bgraph.KindGoroutines && !s.Period })
	if len(all) == 0 {
		return nil, fmt.Errorf("there are not two recordings of a program between %s and %s; -interval says how often bgdump -record makes one, -keep, -keep-age and -keep-size for how long they stay",
			from.Format(time.DateTime), to.Format(time.DateTime))
	}
	return all, nil
}
