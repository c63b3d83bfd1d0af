package gotrace

import (
	"cmp"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Events that end waits, and how often.

// wokenBy counts a wake.
func (n *node) wokenBy(p *place) {
	if p == nil {
		p = &scheduler
	}
	n.wakers = countAt(n.wakers, p)
}

// together counts a wake by a sync.Cond.Broadcast in a step that has just ended another wait at n so.
func (m *model) together(n *node, e *trace.Event) {
	w := m.all.get(e.Goroutine())
	if w == nil || m.stack(n, e.Stack()).known&broadcasts == 0 {
		return
	}
	if n.by == w && n.byStep == w.steps {
		n.Together++
	}
	n.by, n.byStep = w, w.steps
}

// assisted counts where a goroutine allocated that has to help the collector.
func (m *model) assisted(of trace.Stack) {
	n := bgraph.Node{Stack: trim(framesOf(of))}
	if f := n.Place(); f != nil && !ofRuntime(f.Function) {
		m.assists = countAt(m.assists, m.intern(place{f.Function, f.File, f.Line}))
	}
}

// countAt counts one more at p. The frequent places are near the front of the list.
func countAt(all []waker, p *place) []waker {
	for i := range all {
		if w := &all[i]; w.place == p {
			w.count++
			if i > 0 && w.count > all[i-1].count {
				all[i], all[i-1] = all[i-1], all[i]
			}
			return all
		}
	}
	if len(all) < graphlimits.Wakers-1 || p == &others {
		return append(all, waker{p, 1})
	}
	return countAt(all, &others)
}

// counts are places with their counts, the most frequent first.
func counts(all []waker) (out []bgraph.Waker) {
	for _, w := range all {
		out = append(out, bgraph.Waker{Function: clean(w.function), File: clean(w.file), Line: w.line, Count: w.count})
	}
	slices.SortFunc(out, func(a, b bgraph.Waker) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
	return out
}
