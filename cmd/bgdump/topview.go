//go:build linux

package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/bgraph/graphview"
)

// A topView is what -top shows, without the terminal that it is shown on.
type topView struct {
	source        string
	interval      time.Duration
	width, height int

	sort    string
	reverse bool
	paused  bool
	help    bool
	focus   *regexp.Regexp
	ignore  *regexp.Regexp
	prompt  *prompt // open while a new focus is typed
	scroll  int     // rows above the first that is shown

	last   *bgraph.Snapshot // the latest
	shown  *bgraph.Snapshot // what happened before it: since the one before, or since the start
	ever   bool             // shown is since the start
	rows   []topRow
	failed string    // why there is no later one; empty: there is
	since  time.Time // when it began to fail
}

// A prompt is a line that is being typed.
type prompt struct {
	text    string
	problem string
}

// feed takes the next snapshot.
func (v *topView) feed(s *bgraph.Snapshot) {
	v.failed = ""
	switch {
	case v.last != nil && sameRun(v.last, s) && !s.Taken.After(v.last.Taken):
		return // nothing new: the end of a recording
	case v.last != nil && sameRun(v.last, s):
		delta, err := bgraph.Diff(v.last, s)
		v.shown, v.ever = delta, false
		if err != nil { // it has counted backwards; the next two may fit together again
			v.shown, v.ever = s, true
		}
	default: // the first one, or the program was started anew
		v.shown, v.ever = s, true
	}
	v.last = s
	v.arrange()
}

// fail notes that there was no snapshot.
func (v *topView) fail(err error, now time.Time) {
	if v.failed == "" {
		v.since = now
	}
	v.failed = strings.Join(strings.Fields(printable(strings.ReplaceAll(explain(err), "\n", " "))), " ")
}

// arrange makes the rows anew.
func (v *topView) arrange() {
	s := v.shown
	if v.focus != nil || v.ignore != nil {
		s = s.Filter(v.focus, v.ignore)
	}
	v.rows = topRows(s)
	sortRows(v.rows, v.sort, v.reverse)
	v.clampScroll()
}

const (
	headLines   = 4 // above the rows
	footLines   = 1
	leastWidth  = 20
	leastHeight = headLines + footLines + 1
)

func (v *topView) page() int { return max(1, v.height-headLines-footLines) }

func (v *topView) clampScroll() {
	v.scroll = max(0, min(v.scroll, len(v.rows)-v.page()))
}

// Attributes of text on a terminal.
const (
	bold    = "\x1b[1m"
	inverse = "\x1b[7m"
	plain   = "\x1b[0m"
)

// Terminals that know these two show what is between them at once.
const (
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
)

// A line is text and how it is shown.
type line struct{ text, look string }

// draw returns what to write to a terminal of the size of v to show it, the cursor
// being anywhere.
func (v *topView) draw() []byte {
	lines := []line{{text: "The terminal is too small; make it larger, or press q."}}
	if v.width >= leastWidth && v.height >= leastHeight {
		lines = v.lines()
	}
	var b bytes.Buffer
	b.WriteString(beginFrame + "\x1b[H")
	for i, l := range lines[:min(len(lines), max(v.height, 1))] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		text := graphview.ShortenText(l.text, v.width)
		if l.look != "" {
			text = l.look + text + strings.Repeat(" ", max(0, v.width-graphview.TextWidth(text))) + plain
		}
		b.WriteString(text)
		if graphview.TextWidth(text) < v.width {
			b.WriteString("\x1b[K")
		}
	}
	b.WriteString("\x1b[J" + endFrame)
	return b.Bytes()
}

func (v *topView) lines() []line {
	lines := v.headings()
	if v.help {
		lines = append(lines, v.helpLines()...)
	} else {
		lines = append(lines, v.table()...)
	}
	lines = lines[:min(len(lines), v.height-footLines)]
	for len(lines) < v.height-footLines {
		lines = append(lines, line{})
	}
	return append(lines, v.footer())
}

// headings say what program it is and how it is doing as a whole.
func (v *topView) headings() []line {
	s := v.shown
	p := &s.Program
	title := fmt.Sprintf("%s, process %d on %s, %s", printable(p.Name), p.PID, printable(p.Host), printable(p.Go))
	if !strings.Contains(v.source, fmt.Sprint("process ", p.PID)) {
		title += ", from " + v.source
	}
	if up := s.Taken.Sub(p.Started); up > 0 && !p.Started.IsZero() {
		title += ", up " + graphview.DurationText(bgraph.Nanos(up))
	}
	var tasks int64
	var steps, overruns uint64
	for _, l := range s.Loops {
		tasks += l.Tasks
		steps += l.Steps
	}
	var cpu bgraph.Nanos
	for i := range s.Edges {
		cpu += s.Edges[i].TotalCPU()
		overruns += s.Edges[i].Overruns
	}
	seconds := max(s.Span.Duration().Seconds(), 1e-9)
	totals := fmt.Sprintf("%s tasks, %s steps/s, CPU %s of %s, %s nodes", graphview.CountText(tasks), graphview.RateText(float64(steps)/seconds),
		percent(cpu.Duration().Seconds()/seconds/float64(max(len(s.Loops), 1))), plural(len(s.Loops), "loop"), graphview.CountText(int64(len(s.Nodes))))
	if overruns > 0 {
		totals += fmt.Sprintf(", %s too long", plural(int(overruns), "step"))
	}
	return []line{{text: title, look: bold}, {text: totals}, v.state()}
}

// state says of what time the figures are, and what is the matter.
func (v *topView) state() line {
	taken := v.last.Taken.Local().Format(time.TimeOnly)
	if v.failed != "" {
		return line{fmt.Sprintf("NO ANSWER since %s: %s", v.since.Local().Format(time.TimeOnly), v.failed), inverse}
	}
	text := fmt.Sprintf("%s, the last %s", taken, graphview.DurationText(v.shown.Span))
	if v.ever {
		text = fmt.Sprintf("%s, all since the start (%s)", taken, graphview.DurationText(v.shown.Span))
	}
	if v.focus != nil {
		text += ", focus " + printable(v.focus.String())
	}
	if v.ignore != nil {
		text += ", without " + printable(v.ignore.String())
	}
	if v.paused {
		return line{"PAUSED at " + text, inverse}
	}
	return line{text: text}
}

func (v *topView) table() []line {
	columns := columnsFor(v.width, v.sort)
	left := 0
	for _, c := range columns {
		left += c.width + 1
	}
	mark := func(head string, sorted bool) string {
		switch {
		case sorted && v.reverse:
			return "^" + head
		case sorted:
			return "*" + head
		}
		return head
	}
	var head strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&head, "%*s ", c.width, mark(c.head, c.name == v.sort))
	}
	head.WriteString(mark("Node", v.sort == nameColumn))
	lines := []line{{head.String(), inverse}}
	for i := v.scroll; i < min(len(v.rows), v.scroll+v.page()); i++ {
		r := &v.rows[i]
		var b strings.Builder
		for _, c := range columns {
			text := c.text(r)
			b.WriteString(strings.Repeat(" ", max(0, c.width-graphview.TextWidth(text))) + text + " ")
		}
		b.WriteString(graphview.ShortenText(r.name, max(v.width-left, 1)))
		lines = append(lines, line{text: b.String()})
	}
	if len(v.rows) == 0 {
		lines = append(lines, line{text: "There is no node to show."})
	}
	return lines
}

func (v *topView) footer() line {
	if v.prompt != nil {
		text := "focus on nodes that match (Enter: all): " + v.prompt.text + "_"
		if v.prompt.problem != "" {
			text = v.prompt.problem + ": " + v.prompt.text + "_"
		}
		// Of a long line the end is of interest.
		runes := []rune(text)
		if over := len(runes) - v.width; over > 0 {
			text = string(runes[over:])
		}
		return line{text, bold}
	}
	text := "q quit  p pause  / focus  ←→ sort  ↑↓ scroll  ? help"
	if hidden := len(v.rows) - v.scroll - v.page(); hidden > 0 && !v.help {
		text += fmt.Sprintf("  (%d more below)", hidden)
	}
	return line{text, inverse}
}

func (v *topView) helpLines() []line {
	lines := []line{{"Keys", inverse},
		{text: "  q, Ctrl-C      quit"},
		{text: "  p, space       pause, and go on"},
		{text: "  /              show only nodes that match a regular expression"},
		{text: "  ← →            sort by the column on that side"},
		{text: "  -              reverse the order"},
		{text: "  ↑ ↓ PgUp PgDn  scroll; Home and End too"},
		{text: "  ?              show this, and hide it again"},
		{text: "Columns, and the keys that sort by them; figures are those of the last " + v.interval.String()},
	}
	for _, c := range topColumns {
		lines = append(lines, line{text: fmt.Sprintf("  %c  %-9s %s", c.letter, c.head, c.help)})
	}
	return append(lines, line{text: fmt.Sprintf("  %c  %-9s %s", nameLetter, "Node", "the place where tasks wait")})
}

// move sorts by the column n places to the right.
func (v *topView) move(by int) {
	names := append([]string{}, nameColumn)
	for _, c := range slices.Backward(columnsFor(v.width, v.sort)) {
		names = append(names, c.name)
	}
	slices.Reverse(names)
	i := slices.Index(names, v.sort) + by
	v.sortBy(names[(i+len(names))%len(names)])
}

func (v *topView) sortBy(column string) {
	v.sort, v.reverse, v.scroll = column, false, 0
	v.arrange()
}
