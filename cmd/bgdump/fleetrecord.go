package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A fleetRecorder writes the graphs of all members of a roster again and again, each member's into a folder of its own.
type fleetRecorder struct {
	recorder // of the folder, without a source
	set      *settings
	roster   *roster

	mu      sync.Mutex
	grown   int64             // guarded by mu: bytes written since the last pruning
	folders map[string]string // the label of the target in each folder
}

// recordFleet records until ctx ends.
func recordFleet(ctx context.Context, set *settings, sur *surroundings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	roster, err := newRoster(ctx, set, sur)
	if err != nil {
		return err
	}
	r := &fleetRecorder{set: set, roster: roster, folders: map[string]string{},
		recorder: recorder{dir: set.record, interval: set.interval, keep: set.keep, sur: sur}}
	roster.say = r.say
	roster.finder.follow()
	defer roster.finder.wait()
	defer cancel()
	return r.run(ctx)
}

// run records until ctx ends, or all members are processes that have ended. In the first round one of them must give a graph.
func (r *fleetRecorder) run(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	next := r.sur.clock.Now()
	if err := r.roster.begin(ctx); err != nil {
		return err
	}
	announce(r.sur, r.roster.all)
	r.round(ctx)
	if ctx.Err() != nil {
		return r.stopped("")
	}
	if r.written == 0 {
		return errors.New("no graph of " + words.Plural(len(r.roster.all), "source"))
	}
	r.say("recording %s every %s in %s, each in a folder of its own; stop with Ctrl-C", words.Plural(len(r.roster.all), "source"), r.interval, printable(r.dir))
	for {
		now := r.sur.clock.Now()
		for next = next.Add(r.interval); !next.After(now); { // a round that took long does not delay all that follow
			next = next.Add(r.interval)
		}
		if wait(ctx, r.sur.clock, next.Sub(now)) != nil {
			return r.stopped("")
		}
		r.refresh(ctx)
		r.round(ctx)
		if ctx.Err() != nil {
			return r.stopped("")
		}
		if len(r.roster.finder.lists) == 0 && !slices.ContainsFunc(r.roster.all, func(m *member) bool { return !isEnded(m.err) }) {
			return r.stopped("all processes have ended; ")
		}
	}
}

// refresh reads the lists of targets again, and says which targets have come and gone.
func (r *fleetRecorder) refresh(ctx context.Context) {
	before := r.roster.all
	if r.roster.refresh(ctx); ctx.Err() != nil {
		return
	}
	both := slices.Concat(before, r.roster.all)
	missing := func(from, in []*member) (names []string) {
		for _, m := range from {
			if !slices.ContainsFunc(in, m.same) {
				names = append(names, m.label(both))
			}
		}
		return names
	}
	if names := missing(r.roster.all, before); len(names) > 0 {
		r.say("%s in the lists of targets: %s", words.Plural(len(names), "new element"), naming(names))
	}
	if names := missing(before, r.roster.all); len(names) > 0 {
		r.say("%s not in the lists of targets any more: %s", words.Plural(len(names), "element"), naming(names))
	}
}

// round asks all members once.
func (r *fleetRecorder) round(ctx context.Context) {
	if askAll(ctx, r.set, r.sur, r.roster.all, r.write) != nil {
		return
	}
	reportChanges(r.roster.all, r.say)
	err := r.keep.prune(r.dir, r.sur.clock.Now())
	r.grown = 0
	r.report(err)
}

// write puts the graph of a member into its folder, and makes room if much was written. It may be called by several goroutines.
func (r *fleetRecorder) write(m *member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := m.snap
	if m.snap = nil; m.repeats {
		return
	}
	dir := filepath.Join(r.dir, r.folder(m))
	if m.err = os.MkdirAll(dir, 0o700); m.err != nil {
		return
	}
	file := filepath.Join(dir, nameRecording(s))
	if m.err = bgraph.WriteFile(file, s); m.err != nil {
		return
	}
	r.written++
	if info, err := os.Lstat(file); err == nil {
		r.grown += info.Size()
	}
	if r.keep.size > 0 && r.grown > r.keep.size/10 {
		m.err = r.keep.prune(r.dir, r.sur.clock.Now())
		r.grown = 0
	}
}

// folder is the name of the folder of a member. Members whose labels differ only in
// characters that a name of a file cannot have get different folders.
func (r *fleetRecorder) folder(m *member) string {
	if m.folder != "" {
		return m.folder
	}
	label := m.label(r.roster.all)
	name := strings.TrimLeft(fileName(strings.TrimPrefix(strings.TrimPrefix(label, "http://"), "https://")), ".")
	if name == "" {
		name = "unknown"
	}
	m.folder = name
	for i := 2; r.folders[m.folder] != "" && r.folders[m.folder] != label; i++ {
		m.folder = name + "-" + strconv.Itoa(i)
	}
	r.folders[m.folder] = label
	return m.folder
}
