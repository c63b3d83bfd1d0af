package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Tables that only graphs of goroutines have, as text.

func startTable(s *bgraph.Snapshot) *textTable[[]string] {
	t := &textTable[[]string]{title: "GOROUTINES by where they began", columns: plainColumns("function", " now", " created/s", " ended/s", " CPU", " life", " oldest", " leaked")}
	leaked := slices.ContainsFunc(s.Starts, func(st bgraph.Start) bool { return st.Leaked > 0 })
	_, all := mostUsing(s)
	for i := range s.Starts {
		st := &s.Starts[i]
		cpu := ""
		if all > 0 {
			cpu = words.Percent(words.Ratio(float64(st.CPU), all))
		}
		t.rows = append(t.rows, []string{
			cmp.Or(funcname.Short(st.Function), "not known"), words.Count(st.Now), words.Rate(words.PerSecond(s, st.Created)), words.Rate(words.PerSecond(s, st.Ended)), cpu,
			words.Duration(st.Life.Mean()), words.Duration(st.Oldest), leakedText(st, leaked),
		})
	}
	return t
}

// mostUsing is where the goroutines began that used most CPU time, nil if that is not known, and what all have used.
func mostUsing(s *bgraph.Snapshot) (most *bgraph.Start, all float64) {
	for i := range s.Starts {
		st := &s.Starts[i]
		if all += float64(st.CPU); st.CPU > 0 && (most == nil || st.CPU > most.CPU) {
			most = st
		}
	}
	return most, all
}

// leakedText is "" for all if nothing is known of any.
func leakedText(st *bgraph.Start, known bool) string {
	if !known {
		return ""
	}
	return words.Count(st.Leaked)
}

// WriteSpans writes how long the tasks or the regions of package runtime/trace took, by type, the
// type that took most time in all first, and with tasks, how long after their begin they logged
// something, by category; kind is "task" or "region", limit how many, 0: all. It does not park.
func WriteSpans(w io.Writer, s *bgraph.Snapshot, kind string, limit int) error {
	only := *s
	only.Spans = slices.DeleteFunc(slices.Clone(s.Spans), func(sp bgraph.Span) bool { return sp.Kind != kind && (kind != "task" || sp.Kind != "log") })
	t := spanTable(&only)
	t.title, t.limit, t.width = "", limit, defaultWidth
	var b bytes.Buffer
	if t.write(&b); len(t.rows) == 0 {
		fmt.Fprintf(&b, "No %s of package runtime/trace ended in %s.\n", kind, words.OrUnknown(s.Program.Name))
	}
	names := words.Names(s)
	for i := range only.Spans[:min(len(only.Spans), cmp.Or(limit, len(only.Spans)))] {
		writePath(&b, &only.Spans[i], names, limit)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writePath writes where the time of the tasks of a type went, for one task on average.
func writePath(b *bytes.Buffer, sp *bgraph.Span, names map[bgraph.Key]string, limit int) {
	if len(sp.Path) == 0 {
		return
	}
	t := &textTable[[]string]{title: "WHERE THE TIME OF " + sp.Name + " GOES, with what it waits for", limit: limit, width: defaultWidth,
		columns: plainColumns("node", " share", " a task", " wait", " ready", " steps from there")}
	mean := func(d bgraph.Nanos) string {
		return words.Duration(words.Nanos(words.Ratio(float64(d), float64(sp.Times.Count))))
	}
	known := bgraph.Nanos(0)
	for i := range sp.Path {
		p := &sp.Path[i]
		known += p.Total()
		name := "not known"
		if p.Node != 0 {
			name = words.NameIn(names, p.Node)
		}
		t.rows = append(t.rows, []string{name, words.Percent(words.Ratio(float64(p.Total()), float64(sp.Times.Sum))), mean(p.Total()), mean(p.Wait), mean(p.Ready), mean(p.Step)})
	}
	t.write(b)
	if left := sp.Times.Sum - known; float64(left) > 0.01*float64(sp.Times.Sum) {
		fmt.Fprintf(b, "  %s of the time is not known: it was too long ago, or in too many pieces\n", words.Percent(words.Ratio(float64(left), float64(sp.Times.Sum))))
	}
}

func spanTable(s *bgraph.Snapshot) *textTable[[]string] {
	t := &textTable[[]string]{title: "TASKS AND REGIONS", columns: plainColumns("name", "kind", " count", " mean", " p99", " max")}
	for i := range s.Spans {
		sp := &s.Spans[i]
		if sp.Kind == "request" {
			t.title = "REQUESTS, TASKS AND REGIONS"
		}
		t.rows = append(t.rows, []string{
			spanName(sp.Kind, sp.Name), sp.Kind, words.Count(sp.Times.Count), words.Duration(sp.Times.Mean()), words.QuantileText(&sp.Times, 0.99), words.Duration(sp.Times.Max),
		})
	}
	return t
}
