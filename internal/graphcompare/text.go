package graphcompare

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// WriteText writes c as two tables, the greatest change first. To see fewer rows, cut
// c.Nodes and c.Edges short.
func (c *Comparison) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "before: %v\nafter:  %v\n", c.Before, c.After)
	fmt.Fprintf(&b, "all:    %s processors, after %s (%s); %s steps/s, after %s (%s)\n",
		words.Rate(c.Load.Before), words.Rate(c.Load.After), growthText(c.Load), words.Rate(c.Steps.Before), words.Rate(c.Steps.After), growthText(c.Steps))
	c.writeNodes(&b)
	c.writeEdges(&b)
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("bgraph: writing the comparison: %w", err)
	}
	return nil
}

// String is one line about where and when the graph was learned.
func (s Side) String() string {
	name := words.Clean(s.Program.Name)
	if name == "" {
		name = "unknown program"
	}
	if s.Program.PID != 0 {
		name += fmt.Sprintf(", process %d", s.Program.PID)
	}
	if s.Program.Host != "" {
		name += " on " + words.Clean(s.Program.Host)
	}
	if !s.Program.Started.IsZero() {
		name += ", started " + s.Program.Started.UTC().Format(time.DateTime) + " UTC"
	}
	timed := fmt.Sprintf("one wait in %d timed", s.Sampling)
	if s.Sampling <= 1 {
		timed = "every wait timed"
	}
	return fmt.Sprintf("%s, %v, %s", name, s.Span, timed)
}

func (c *Comparison) writeNodes(b *bytes.Buffer) {
	what := "tasks"
	if c.Goroutines {
		what = "goroutines"
	}
	fmt.Fprintf(b, "\nNODES. %s: how many more wait or are ready there, on average\n\n", what)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, what+"\tvisits/s\tafter\t\tmean wait\tafter\t\tp99 wait\tafter\t\t  node\n")
	for i := range c.Nodes {
		n := &c.Nodes[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s%s\n", deltaText(n.Tasks),
			words.Rate(n.Visits.Before), words.Rate(n.Visits.After), growthText(n.Visits),
			meanText(n.Wait.Before), meanText(n.Wait.After), growthText(n.Wait),
			meanText(n.P99.Before), meanText(n.P99.After), growthText(n.P99), n.Name, presence(n.Before, n.After))
	}
	t.Flush() // to a buffer
}

func (c *Comparison) writeEdges(b *bytes.Buffer) {
	fmt.Fprint(b, "\nEDGES. load: how many more processors they keep busy\n\n")
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "load\tsteps/s\tafter\t\tmean CPU\tafter\t\tp99 CPU\tafter\t\t  edge\n")
	for i := range c.Edges {
		e := &c.Edges[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s → %s%s\n", deltaText(e.Load),
			words.Rate(e.Steps.Before), words.Rate(e.Steps.After), growthText(e.Steps),
			meanText(e.CPU.Before), meanText(e.CPU.After), growthText(e.CPU),
			meanText(e.P99.Before), meanText(e.P99.After), growthText(e.P99), e.From, e.To, presence(e.Before[0], e.After[0]))
	}
	t.Flush() // to a buffer
}

// presence is the remark that something is in one of the snapshots only, "" if it is in both.
func presence(before, after bgraph.Key) string {
	switch {
	case before == 0:
		return " (new)"
	case after == 0:
		return " (gone)"
	}
	return ""
}

// deltaText writes by how much a number has changed.
func deltaText(p Pair) string {
	d := p.After - p.Before
	if math.Abs(d) < 0.005 {
		return "0"
	}
	return words.Signed(words.Rate(d))
}

// meanText writes a time in nanoseconds; "-" is 0.
func meanText(ns float64) string {
	if ns <= 0 {
		return "-"
	}
	return words.Duration(words.Nanos(ns))
}

// growthText writes by how much a number has changed in proportion.
func growthText(p Pair) string {
	switch change := p.Change(); {
	case p.Before == 0 && p.After == 0:
		return "-"
	case p.Before == 0:
		return "new"
	case p.After == 0:
		return "gone"
	case math.Abs(change) < 0.5:
		return "="
	case change >= 1000:
		return "×" + words.Rate(p.After/p.Before)
	default:
		return fmt.Sprintf("%+.0f%%", change)
	}
}
