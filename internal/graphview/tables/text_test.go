package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/words"
)

func writeText(t *testing.T, s *bgraph.Snapshot, o Options) string {
	t.Helper()
	var b bytes.Buffer
	testenv.Must(t, WriteText(&b, s, o))
	return b.String()
}

func TestWriteText(t *testing.T) {
	for name, o := range map[string]Options{
		"text.golden":        {},
		"text-narrow.golden": {Width: 100, Limit: 5, Sort: "wait-p99"},
		"text-stacks.golden": {Stacks: true, Sort: "-count", Width: 200},
	} {
		testenv.Golden(t, name, []byte(writeText(t, graphcases.Sample(), o)))
	}
}

func TestWriteStages(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, WriteStages(&b, graphcases.Sample(), 0, 0))
	testenv.Golden(t, "stages.golden", b.Bytes())
	b.Reset()
	testenv.Must(t, WriteMarkdown(&b, graphcases.Sample(), Options{Limit: 1}))
	if md := b.String(); !strings.Contains(md, "| 61,203 |") || strings.Contains(md, "58,877") {
		t.Errorf("as Markdown with one row:\n%s", b.String())
	}
	b.Reset()
	testenv.Must(t, WriteStages(&b, graphcases.Sample(), 2, 100))
	if n := strings.Count(b.String(), "more\n"); n != 2 {
		t.Errorf("%d tables were cut, want 2 with a limit of 2 rows:\n%s", n, b.String())
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if words.Width(line) > 100+8 { // figures are never cut
			t.Errorf("%d columns: %s", words.Width(line), line)
		}
	}
}

// TestLoopsAtRest: they are told apart, and no part of what the loops could do.
func TestLoopsAtRest(t *testing.T) {
	s := graphcases.Sample()
	share := regexp.MustCompile(`\((\S+%) of [^)]*\)`)
	before := share.FindStringSubmatch(writeText(t, s, Options{}))
	s.Loops = append(s.Loops, bgraph.LoopStat{Index: 7, Rests: true}, bgraph.LoopStat{Index: 8, Rests: true})
	got := writeText(t, s, Options{})
	after := share.FindStringSubmatch(got)
	if before == nil || after == nil || after[1] != before[1] || !strings.Contains(after[0], " loops, 2 more at rest)") ||
		strings.Count(got, "  no\n") != 2 || strings.Count(got, "  yes\n") != len(s.Loops)-2 {
		t.Errorf("%q, %q before, in\n%s", after, before, got)
	}
}

// A sum of dumps has no process of its own.
func TestWriteTextOfSeveralProcesses(t *testing.T) {
	s := graphcases.Sample()
	s.Program.PID = 0
	if got := writeText(t, s, Options{}); !strings.Contains(got, ", several processes on ") {
		t.Errorf("%s\nwant several processes", got)
	}
}

func TestWriteTextWithoutAnything(t *testing.T) {
	got := writeText(t, &bgraph.Snapshot{}, Options{})
	testenv.Contains(t, got, "Nothing has waited yet.")
}

func TestWriteTextUnknownColumn(t *testing.T) {
	var b bytes.Buffer
	err := WriteText(&b, graphcases.Sample(), Options{Sort: "speed"})
	if err == nil || b.Len() > 0 {
		t.Fatalf("error %v after %d bytes; want an error and nothing written", err, b.Len())
	}
	for _, name := range Columns() {
		testenv.Contains(t, err.Error(), name, "%q does not name the column", err)
	}
}

// Every column can be sorted by, both ways, and moves the rows of just one table.
func TestEveryColumnSorts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := graphcases.RandomGraph(r, 30, 80)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.Key += 50 // not the first keys, which nobody waits at
		n.Peak, n.Oldest, n.Ready = r.Int64N(1000), bgraph.Nanos(r.IntN(1e9)), graphcases.TimesOfMean(9, bgraph.Nanos(r.IntN(1e6)))
		n.Ready.Hist, n.Wait.Hist = []uint64{0, 0, uint64(r.IntN(10)), 1}, []uint64{0, uint64(r.IntN(10)), 1}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		e.From, e.To = e.From+50, e.To+50
		e.Heap, e.Recent, e.CPU.Hist = bgraph.Change{Steps: 1, Sum: r.Int64N(1e6)}, bgraph.Moments{Mean: r.Float64()}, []uint64{0, uint64(r.IntN(10)), 1}
	}
	names := words.Names(s)
	for _, name := range Columns() {
		for _, order := range []string{name, "-" + name} {
			nodes, edges := nodeTable(s, names), edgeTable(s, names)
			if _, _, err := sortTables(order, nodes, edges); err != nil {
				t.Fatal(err)
			}
			up := strings.HasPrefix(order, "-")
			if !inOrder(nodes, name, up) && !inOrder(edges, name, up) {
				t.Errorf("sorted by %s: not in order", order)
			}
		}
	}
}

func inOrder[R any](t *textTable[R], name string, up bool) bool {
	i := slices.IndexFunc(t.columns, func(c column[R]) bool { return c.name == name })
	if i < 0 {
		return false
	}
	c := t.columns[i]
	rows := slices.Clone(t.rows)
	if up {
		slices.Reverse(rows)
	}
	return slices.IsSortedFunc(rows, func(a, b R) int {
		if c.rank == nil {
			return strings.Compare(c.text(&a), c.text(&b))
		}
		return cmp.Compare(c.rank(&b), c.rank(&a))
	})
}

// What a column is sorted by is what it shows, and the default is what an operator wants
// to see first.
func TestDefaultOrder(t *testing.T) {
	s := graphcases.Sample()
	nodes, edges := nodeTable(s, words.Names(s)), edgeTable(s, words.Names(s))
	testenv.EqualSlices(t, []bgraph.Key{nodes.rows[0].Key, nodes.rows[1].Key}, []bgraph.Key{graphcases.SampleRead, graphcases.SampleMutex}, "first nodes")
	if e := edges.rows[0]; e.From != graphcases.SampleRender || e.To != graphcases.SampleRead {
		t.Errorf("first edge %s → %s; want the one with most CPU", e.from, e.to)
	}
	if !inOrder(nodes, "waiting", false) || !inOrder(edges, "cpu", false) {
		t.Errorf("tables are not in their default order")
	}
}

// A place where many wait on average comes before one where some are at the moment, also where a call into the kernel is
// the wait and none happens to be there at the end.
func TestPlacesAreRankedByHowManyAreThereOnAverage(t *testing.T) {
	const call, lock bgraph.Key = 100, 200
	var slow bgraph.Times
	for range 2000 {
		slow.Add(bgraph.Nanos(30 * time.Millisecond))
	}
	s := &bgraph.Snapshot{
		Kind: bgraph.KindGoroutines, Span: bgraph.Nanos(3 * time.Second),
		Nodes: []bgraph.Node{
			{Key: lock, Reason: "mutex", Now: 5, Arrivals: 10_000, Departures: 9_995},
			{Key: call, Reason: "system call", Arrivals: 2000, Departures: 2000, Wait: slow},
		},
		Edges: []bgraph.Edge{{From: lock, To: lock, Count: 9_995}, {From: call, To: call, Count: 2}},
	}
	testenv.Equal(t, nodeTable(s, words.Names(s)).rows[0].Key, call, "first node")
	var summary strings.Builder
	if err := WriteSummary(&summary, s); err != nil {
		t.Fatal(err)
	}
	var markdown strings.Builder
	if err := WriteMarkdown(&markdown, s, Options{}); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"text": writeText(t, s, Options{Prune: 0.02}), "summary": summary.String(), "Markdown": markdown.String()} {
		rows := regexp.MustCompile(`(?m)^[| ]+(system call|mutex).*`).FindAllString(text, 2)
		if len(rows) < 2 || !strings.Contains(rows[0], "system call") || !strings.Contains(rows[0], "20.0") {
			t.Errorf("%s: rows %q; want the system call first, in which 20 are:\n%s", what, rows, text)
		}
	}
}

// The first finding is told in full, though the facts below it would fill the screen.
func TestTheFirstFindingIsToldInFull(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		for i := range 8 {
			s.Resources = append(s.Resources, bgraph.Resource{Name: fmt.Sprintf("resource %d", i), InUse: 9, Limit: 10})
		}
		for range 30 {
			s.Stalled.Add(bgraph.Nanos(50 * time.Millisecond))
		}
	})
	text, _, _ := strings.Cut(writeText(t, s, Options{}), "\nNODES")
	if lines := strings.Count(text, "\n"); lines > firstLines || !strings.Contains(text, "their turn meanwhile.\n") {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}

// Of few times there are no quantiles.
func TestQuantilesNeedTenTimes(t *testing.T) {
	for times, want := range map[int]string{0: "0", 9: "–", 10: "999µs"} {
		var wait bgraph.Times
		for range times {
			wait.Add(bgraph.Nanos(time.Millisecond))
		}
		wait.Max = bgraph.Nanos(time.Millisecond)
		s := &bgraph.Snapshot{Span: 1e9, Nodes: []bgraph.Node{{Key: 100, Reason: "mutex", Arrivals: 10, Departures: 10, Wait: wait}}}
		table := nodeTable(s, words.Names(s))
		for _, c := range table.columns {
			if c.name == "wait-p99" {
				testenv.Equal(t, c.text(&table.rows[0]), want, "p99 of %d waits", times)
			}
		}
	}
}

func TestTextKeepsToItsWidth(t *testing.T) {
	for what, s := range graphcases.Odd() {
		s.Nodes = append(s.Nodes, graphcases.Sample().Nodes...)
		for _, width := range []int{120, 160, 250} {
			text := writeText(t, s, Options{Width: width, Stacks: true})
			graphcases.CheckPlain(t, text)
			for line := range strings.Lines(text) {
				testenv.AtMost(t, words.Width(strings.TrimSuffix(line, "\n")), width, "%s, width %d: N columns: %q", what, width, line)
			}
		}
	}
}

// Tables need 100 columns and more; what stands above them does not.
func TestFirstLinesKeepToANarrowTerminal(t *testing.T) {
	first, _, _ := strings.Cut(writeText(t, graphcases.Sample(), Options{Width: 60}), "\nNODES")
	for line := range strings.Lines(first) {
		testenv.AtMost(t, words.Width(strings.TrimSuffix(line, "\n")), 60, "N columns: %q", line)
	}
}

func TestTextLimitSaysHowManyRowsAreLeftOut(t *testing.T) {
	text := writeText(t, graphcases.Sample(), Options{Limit: 4})
	if !strings.Contains(text, "… and 8 more\n\nEDGES: 19") || !strings.Contains(text, "… and 15 more") {
		t.Errorf("got\n%s", text)
	}
}

func TestColumnsAreAligned(t *testing.T) {
	s := graphcases.Sample()
	for i := range s.Nodes {
		s.Nodes[i].Label = []string{"日本語", "e\u0301", "plain", "🙂🙂"}[i%4] + s.Nodes[i].Label
	}
	lines := strings.Split(writeText(t, s, Options{}), "\n")
	from := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "NODES") })
	width := words.Width(lines[from+1])
	for _, l := range lines[from+1 : from+15] {
		if strings.HasPrefix(l, "      in ") { // below the row
			continue
		}
		testenv.Equal(t, words.Width(l), width, "%q ends in column N, the head in %d", l, width)
	}
}

func TestLongRuns(t *testing.T) {
	usual := func(k bgraph.Key, longest bgraph.Nanos) bgraph.Edge {
		e := bgraph.Edge{From: k, To: k, Count: 1000, CPU: bgraph.Times{Count: 1000, Sum: 5e6, Max: longest, Hist: make([]uint64, buckets.Count)}}
		e.CPU.Hist[buckets.Of(bgraph.Nanos(5000))], e.CPU.Hist[buckets.Of(longest)] = 999, 1
		return e
	}
	often := usual(23, 2_000_000)
	often.CPU.Hist[buckets.Of(bgraph.Nanos(5000))], often.CPU.Hist[buckets.Of(bgraph.Nanos(2_000_000))] = 900, 100
	reported := usual(24, 6000)
	reported.Overruns = 1
	s := &bgraph.Snapshot{Edges: []bgraph.Edge{usual(20, 6000), usual(21, 900_000), usual(22, 50_000_000), often, reported}}
	s.Overruns = []bgraph.Overrun{
		{From: 20, To: bgraph.KeyStart, Held: 80_000_000}, {From: 20, To: bgraph.KeyStart, Held: 70_000_000},
	}
	var got []bgraph.Key
	for _, r := range longRuns(s) {
		got = append(got, r.from)
	}
	// 20 has not ended, 22 has one long run, 23 many, 24 was reported though short.
	if want := []bgraph.Key{20, 22, 23, 24}; !slices.Equal(got, want) {
		t.Fatalf("long runs from %v, want %v", got, want)
	}
	r := longRuns(s)[0]
	if r.longest != 80_000_000 || r.reports != 2 || r.latest.Held != 70_000_000 || r.Edge != nil {
		t.Errorf("a step that has not ended: %+v", r)
	}
	if got := r.title(nil, 100); !strings.HasSuffix(got, "→ (had not ended)") {
		t.Errorf("its title: %q", got)
	}
}

// What is too long is cut in names, not in figures or between the ends of a step.
func TestLinesAreCutWhereItDoesNotMatter(t *testing.T) {
	long, short := strings.Repeat("x", 90), "read a.b"
	r := longRun{from: 20, to: 21, Edge: new(bgraph.Edge)}
	for _, names := range []map[bgraph.Key]string{{20: long, 21: long}, {20: short, 21: long}, {20: long, 21: short}, {20: short, 21: short}} {
		got := r.title(names, 60)
		from, to, _ := strings.Cut(got, " → ")
		if words.Width(got) > 60 || to == "" || names[20] == short && from != short || names[21] == short && to != short {
			t.Errorf("%q", got)
		}
	}
	s := graphcases.Sample()
	s.ProcessCPU, s.CollectorCPU = 1, 2
	whole := strings.Join(words.Head(s), " ")
	for width := 90; width < 200; width += 10 {
		lines := headsWithin(s, width)
		testenv.Equal(t, strings.ReplaceAll(strings.Join(lines, " "), ";  ", "; "), whole, "in %d columns", width)
		for _, line := range lines {
			testenv.AtMost(t, words.Width(line), width, "in %d columns: %q", width, line)
		}
	}
	e := edgeRow{Edge: &bgraph.Edge{Count: 12}}
	for _, c := range edgeColumns {
		if got := c.text(&e); strings.HasPrefix(c.name, "cpu") != (got == "–") {
			t.Errorf("%s of an edge of which no step was timed: %q", c.name, got)
		}
	}
}

func TestTraceOf(t *testing.T) {
	got := traceOf(graphcases.SampleTrace)
	want := []string{"web.(*page).sortOffers  page.go:212", "web.(*page).render  page.go:91", "web.(*conn).serve  conn.go:64"}
	testenv.EqualSlices(t, got, want)
	interrupted := "goroutine 7 [runnable]:\nruntime.asyncPreempt2()\n\t/go/preempt.go:308 +0x39\nruntime.asyncPreempt()\n\t/go/preempt_amd64.s:53 +0xdb\n" +
		strings.TrimPrefix(graphcases.SampleTrace, "goroutine 57 [running]:\n")
	testenv.EqualSlices(t, traceOf(interrupted), want, "interrupted")
	ended := "goroutine 7 [running]:\nruntime/debug.Stack()\n\t/go/stack.go:26 +0x5e\ngithub.com/capriccio-go/capriccio/internal/engine.(*Loop).finish(0x1)\n\tw/worker.go:297 +0x1\n" +
		"iter.Pull[...].func1()\n\t/go/iter.go:301 +0xe5\ncreated by iter.Pull[...] in goroutine 35\n\t/go/iter.go:271 +0x90\n"
	if got := traceOf(ended); len(got) != 0 {
		t.Errorf("at the end of a task: %q", got)
	}
	if got := traceOf("runtime.gopark()\n\tproc.go:1\n"); len(got) != 1 {
		t.Errorf("nothing but the runtime: %q", got)
	}
	if got := traceOf(strings.Repeat("a.b()\n\tx.go:1\n", 100)); len(got) != traceLines+1 || got[traceLines] != "…" {
		t.Errorf("a long trace has %d lines: %q", len(got), got[len(got)-1])
	}
}

func TestWriteSummary(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, WriteSummary(&b, graphcases.Sample()))
	testenv.Golden(t, "summary.golden", b.Bytes())
}

func TestSummaryFitsTheScreen(t *testing.T) {
	all := graphcases.Odd()
	all["sample"] = graphcases.Sample()
	busy := graphcases.RandomGraph(rand.New(rand.NewPCG(5, 6)), 300, 900)
	busy.Resources = graphcases.Hostile().Resources
	busy.Overruns = graphcases.Hostile().Overruns
	busy.Overflow = bgraph.Overflow{Nodes: 1}
	busy.Taken = time.Now()
	all["busy"] = busy
	for what, s := range all {
		var b bytes.Buffer
		testenv.Must(t, WriteSummary(&b, s))
		graphcases.CheckPlain(t, b.String())
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		testenv.AtMost(t, len(lines), 40, "%s: N lines, more than 40", what)
		for _, l := range lines {
			testenv.AtMost(t, words.Width(l), summaryWidth, "%s: N columns: %q", what, l)
		}
	}
}

// What to look at first is no longer than twenty lines, however much there is to say.
func TestWhatToLookAtFirstIsShort(t *testing.T) {
	many := graphcases.Sample()
	many.Chunks = bgraph.Chunks{}
	for i := range 40 {
		many.Resources = append(many.Resources, bgraph.Resource{Name: fmt.Sprint("pool ", i), Limit: 10, InUse: 10})
		if i < 8 {
			lock := *many.Node(graphcases.SampleMutex)
			lock.Key += bgraph.Key(1000 + i)
			many.Nodes = append(many.Nodes, lock)
			many.Edges = append(many.Edges, bgraph.Edge{From: lock.Key, To: graphcases.SampleRead, Count: 1e6, CPU: graphcases.TimesOfMean(1e6, 10_000)})
		}
	}
	idle := &bgraph.Snapshot{Span: 1e9, Edges: []bgraph.Edge{{From: 1, To: 2, Count: 1000, CPU: graphcases.TimesOfMean(1000, 1000)}}}
	for want, s := range map[string]*bgraph.Snapshot{"… and 2 more\n": many, "nothing looks wrong\n": idle} {
		text := writeText(t, s, Options{})
		first, _, _ := strings.Cut(text, "\nNODES")
		first, _, _ = strings.Cut(first, "\nEDGES")
		if n := strings.Count(first, "\n"); n > firstLines || !strings.Contains(first, want) {
			t.Errorf("%d lines, want at most %d, and %q:\n%s", n, firstLines, want, first)
		}
	}
}

// Where no step has ended, there is no share of its CPU time to tell of.
func TestNoShareOfNoCPUTime(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) { s.Edges, s.Starts[0].CPU = nil, 100 })
	var b strings.Builder
	if err := WriteText(&b, s, Options{}); err != nil || !strings.Contains(b.String(), "0 steps (0/s), CPU 0") || strings.Contains(b.String(), "of it in goroutines") {
		t.Errorf("%v, %s", err, b.String())
	}
}

// With -focus only a part of the steps is left: what goroutines did elsewhere is no share of it, but the
// collector works beside all of them.
func TestSharesOfAPart(t *testing.T) {
	for _, c := range []struct {
		all, collector bgraph.Nanos
		want, not      string
	}{
		{50_000_000, 20_000_000, "100% of it in goroutines that began in main.work", "never"},
		{500_000_000, 200_000_000, "collector: 200ms of CPU, besides 500ms of the goroutines", "of it in goroutines"},
		{500_000_000, 20_000_000, "CPU", "collector: "},
	} {
		s := graphcases.Traced(func(s *bgraph.Snapshot) { s.Starts[0].CPU, s.CollectorCPU = c.all, c.collector })
		if text := writeText(t, s, Options{}); !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%+v: %s", c, text)
		}
	}
}

// What a profile, a list of goroutines and tasks of runtime/trace tell stands in the text.
func TestTextOfTraces(t *testing.T) {
	var b bytes.Buffer
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Edges[0].Parts = bgraph.Parts{Samples: 4, Preempted: 3}
		s.Edges[0].Functions = []bgraph.Waker{{Function: "main.sum", Line: 12, Count: 3}, {Function: "main.add", Line: 5, Count: 1}}
		s.Starts[0].Leaked = 321
		s.Spans = []bgraph.Span{{Kind: "task", Name: "order", Times: s.Edges[0].CPU, Path: []bgraph.PathPart{{Node: 100, Wait: 30e6, Step: 15e6}, {Ready: 1e6}}}}
	})
	testenv.Must(t, WriteText(&b, s, Options{}))
	testenv.Must(t, WriteSpans(&b, s, "task", 0))
	for _, want := range []string{"a step: 4 samples in all\n", "in main.sum:12 75.0%, main.add:5 25.0%", "leaked\n", " 321\n",
		"WHERE THE TIME OF order GOES", "request    90.0%  45.0µs  30.0µs       0            15.0µs", "not known   2.0%", "8.0% of the time is not known"} {
		testenv.Contains(t, b.String(), want)
	}
}

// Most wait at the requests, and one of net/http beside each looks if its client goes away.
func TestMostThatWait(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes[0].Now = 32
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "read", Departures: 1000, Now: 33, Stack: []bgraph.Frame{{Function: "cmux.(*bufferedReader).Read"}, {Function: "net/http.(*connReader).backgroundRead"}}})
	})
	text := writeText(t, s, Options{})
	testenv.Contains(t, text, "waiting: 32 goroutines at request")
}

// Places are ranked by how many wait there on average, of system calls too, which have ended when the trace does.
func TestMostThatWaitOnAverage(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes[0].Now = 12
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "system call", Departures: 1000, Now: 1, Stack: []bgraph.Frame{{Function: "main.slowCall"}},
			Wait: graphcases.TimesOfMean(1000, s.Span/50)})
	})
	testenv.Contains(t, writeText(t, s, Options{}), "waiting: 20.0 goroutines on average at system call main.slowCall, for ")
}

// One in a hundred is said of a hundred and more.
func TestLateAmongFew(t *testing.T) {
	for times, want := range map[int]bool{22: false, 200: true} {
		s := graphcases.Traced(func(s *bgraph.Snapshot) {
			for range times {
				s.Nodes[0].Ready.Add(bgraph.Nanos(30 * time.Millisecond))
			}
		})
		text := writeText(t, s, Options{})
		if got := strings.Contains(text, "ready, but not running: 1 in 100"); got != want {
			t.Errorf("%d times: named %v\n%.800s", times, got, text)
		}
	}
}
