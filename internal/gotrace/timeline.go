package gotrace

import (
	"cmp"
	"slices"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A timeline has the visits of one request one by one: a wait, the time until the goroutine ran, and what it did then. Its rows
// are the goroutines of the chain.
type timeline struct {
	base   trace.Time // of the request
	rows   map[uint32]int
	visits []bgraph.PathPart
	last   []int        // the latest visit of each row
	ends   []trace.Time // up to where each row goes
}

func newTimeline(base trace.Time) *timeline {
	return &timeline{base: base, rows: map[uint32]int{}}
}

// add adds a piece to the row of its goroutine. A step or the time before it belongs to the wait that it follows.
func (t *timeline) add(p *piece) {
	row, ok := t.rows[p.who]
	if !ok {
		if row = len(t.last); row > graphlimits.Path {
			return
		}
		t.rows[p.who] = row
		t.last, t.ends = append(t.last, -1), append(t.ends, t.base)
	}
	from := max(p.from, t.ends[row]) // two ways may lead to the same goroutine
	if from >= p.to {
		return
	}
	took := bgraph.Nanos(p.to - from)
	var v *bgraph.PathPart
	if at := t.last[row]; at >= 0 && p.kind != pieceWait && from == t.ends[row] && t.visits[at].Node == p.node.Key && (p.kind == pieceStep || t.visits[at].Step == 0) {
		v = &t.visits[at]
	} else {
		t.last[row] = len(t.visits)
		t.visits = append(t.visits, bgraph.PathPart{Node: p.node.Key, Depth: row, From: bgraph.Nanos(from - t.base)})
		v = &t.visits[t.last[row]]
	}
	t.ends[row] = p.to
	switch p.kind {
	case pieceStep:
		v.Step += took
	case pieceReady:
		v.Ready += took
	default:
		v.Wait += took
		v.Count = 1
		if p.by != nil {
			v.By = bgraph.Frame{Function: clean(p.by.function), File: clean(p.by.file), Line: p.by.line}
		}
	}
}

// longest are the visits in the order of time; if there are too many, the longest visits, and behind them a visit that stands for the others.
func (t *timeline) longest() []bgraph.PathPart {
	all, most := t.visits, graphlimits.Timeline
	var rest []bgraph.PathPart
	if len(all) > most {
		slices.SortStableFunc(all, func(a, b bgraph.PathPart) int { return cmp.Compare(b.Total(), a.Total()) })
		others := bgraph.PathPart{Node: bgraph.KeyOverflow}
		for _, v := range all[most-1:] {
			others.Step, others.Wait, others.Ready = others.Step+v.Step, others.Wait+v.Wait, others.Ready+v.Ready
			others.Count++
		}
		all, rest = all[:most-1], []bgraph.PathPart{others}
	}
	slices.SortStableFunc(all, func(a, b bgraph.PathPart) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Depth, b.Depth))
	})
	return append(slices.Clip(all), rest...)
}
