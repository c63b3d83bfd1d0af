package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/graphview"
)

// A topRow is a node as -top shows it.
type topRow struct {
	name     string
	key      bgraph.Key
	now      int64
	arrivals float64 // per second
	wait     bgraph.Nanos
	tail     bgraph.Nanos // 99th percentile of wait
	ready    bgraph.Nanos
	cpu      float64 // of one processor, in all steps that begin here
	step     bgraph.Nanos
	heap     float64 // bytes per second, likewise
	oldest   bgraph.Nanos
}

// A topColumn is one column of the table. Letter is the key that sorts by it; the
// first that are dropped when the terminal is narrow have the highest spare.
type topColumn struct {
	name   string
	letter rune
	head   string
	width  int
	spare  int
	rank   func(*topRow) float64
	text   func(*topRow) string
	help   string
}

// topColumns are those left of the name.
var topColumns = []topColumn{
	{"now", 'n', "Now", 8, 0, func(r *topRow) float64 { return float64(r.now) }, func(r *topRow) string { return graphview.CountText(r.now) },
		"tasks that are there now"},
	{"arrivals", 'a', "Arriv./s", 9, 1, func(r *topRow) float64 { return r.arrivals }, func(r *topRow) string { return graphview.RateText(r.arrivals) },
		"tasks that come there, per second"},
	durationColumn("wait", 'w', "Wait", 0, func(r *topRow) bgraph.Nanos { return r.wait }, "how long a task waits there, on average"),
	durationColumn("wait-p99", 't', "Tail", 5, func(r *topRow) bgraph.Nanos { return r.tail }, "the wait that 1 in 100 exceeds"),
	durationColumn("ready", 'r', "Ready", 3, func(r *topRow) bgraph.Nanos { return r.ready }, "how long a task then waits for its turn to run, on average"),
	{"cpu", 'c', "CPU", 7, 0, func(r *topRow) float64 { return r.cpu }, func(r *topRow) string { return percent(r.cpu) },
		"of one processor, by the steps that begin there"},
	durationColumn("cpu-mean", 's', "Step", 2, func(r *topRow) bgraph.Nanos { return r.step }, "CPU time of one of these steps, on average"),
	{"heap", 'h', "Heap/s", 9, 6, func(r *topRow) float64 { return r.heap }, func(r *topRow) string { return graphview.BytesText(r.heap) },
		"bytes that they allocate, per second"},
	durationColumn("oldest", 'o', "Oldest", 4, func(r *topRow) bgraph.Nanos { return r.oldest }, "how long the task that is there longest has waited"),
}

func durationColumn(name string, letter rune, head string, spare int, of func(*topRow) bgraph.Nanos, help string) topColumn {
	return topColumn{name, letter, head, 8, spare, func(r *topRow) float64 { return float64(of(r)) },
		func(r *topRow) string { return graphview.DurationText(of(r)) }, help}
}

// The name is the last column.
const (
	nameColumn = "node"
	nameLetter = 'd'
	nameWidth  = 24 // at least, if columns can be dropped for it
)

// topColumnNames are the names that -sort knows with -top.
func topColumnNames() []string {
	var names []string
	for _, c := range topColumns {
		names = append(names, c.name)
	}
	return append(names, nameColumn)
}

func percent(v float64) string {
	switch {
	case v >= 9.995:
		return graphview.CountText(int64(100*v+0.5)) + "%"
	case v == 0:
		return "0%"
	case v < 0.0005:
		return "<0.1%"
	}
	return graphview.RateText(100*v) + "%"
}

// columnsFor chooses the columns that fit into a terminal. That which the table is
// sorted by is always among them.
func columnsFor(width int, sort string) []topColumn {
	columns := slices.Clone(topColumns)
	for {
		total := 0
		for _, c := range columns {
			total += c.width + 1
		}
		if total+nameWidth <= width {
			return columns
		}
		drop := -1
		for i, c := range columns {
			if c.spare > 0 && c.name != sort && (drop < 0 || c.spare > columns[drop].spare) {
				drop = i
			}
		}
		if drop < 0 {
			return columns
		}
		columns = slices.Delete(columns, drop, drop+1)
	}
}

// topRows makes a row of every node. s is a difference of two snapshots, or everything
// since the start.
func topRows(s *bgraph.Snapshot) []topRow {
	names := graphview.Names(s)
	seconds := s.Span.Duration().Seconds()
	per := func(v float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return v / seconds
	}
	rows := make([]topRow, 0, len(s.Nodes))
	at := make(map[bgraph.Key]int, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key <= bgraph.KeyOverflow && n.Arrivals == 0 && n.Departures == 0 && n.Now == 0 {
			continue
		}
		at[n.Key] = len(rows)
		rows = append(rows, topRow{
			name: names[n.Key], key: n.Key, now: n.Now, arrivals: per(float64(n.Arrivals)), wait: n.MeanWait(),
			tail: n.Wait.Quantile(0.99), ready: n.Ready.Mean(), oldest: n.Oldest,
		})
	}
	cpu, steps := make([]bgraph.Nanos, len(rows)), make([]uint64, len(rows))
	for i := range s.Edges {
		e := &s.Edges[i]
		if j, ok := at[e.From]; ok {
			cpu[j] += e.TotalCPU()
			steps[j] += e.Count
			rows[j].heap += per(e.Heap.Mean() * float64(e.Count))
		}
	}
	for j := range rows {
		rows[j].cpu = per(cpu[j].Duration().Seconds())
		if steps[j] > 0 {
			rows[j].step = bgraph.Nanos(float64(cpu[j]) / float64(steps[j]))
		}
	}
	return rows
}

// sortRows puts the highest figure first, or the name that comes first.
func sortRows(rows []topRow, column string, reverse bool) {
	var rank func(*topRow) float64
	if i := slices.IndexFunc(topColumns, func(c topColumn) bool { return c.name == column }); i >= 0 {
		rank = topColumns[i].rank
	}
	slices.SortFunc(rows, func(a, b topRow) int {
		order := 0
		if rank != nil {
			order = cmp.Compare(rank(&b), rank(&a))
		} else {
			order = strings.Compare(a.name, b.name)
		}
		if reverse {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(b.arrivals, a.arrivals), cmp.Compare(a.key, b.key))
	})
}
