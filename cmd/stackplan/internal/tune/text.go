package tune

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// WriteText writes the proposal and the tables that it is made from.
func (a *Advice) WriteText(w io.Writer) error {
	e := &sticky{w: w}
	r := a.Run
	e.printf("In the run, tasks passed %d checkpoints (%d places).\n", r.Passed, r.Sites)
	e.printf("  %s had room, %s linked a chunk, %s had neither and grew their stack\n",
		share(r.Direct, r.Passed), share(r.Links, r.Passed), share(r.InPlace, r.Passed))
	if r.Outside > 0 {
		e.printf("  %d were passed by goroutines that are no tasks\n", r.Outside)
	}
	if r.Links > 0 {
		e.printf("  wasted by a link: %s on the stack that was left, %s of the chunk, on average\n", r.Internal, r.External)
	}
	e.printf("  chunks held at most %s at a time; all checkpoints took about %s\n", r.Peak, duration(r.CostNs))

	e.printf("\nMinChunk: links that larger chunks would have saved (estimated)\n\n")
	e.table(func(t io.Writer) {
		fmt.Fprintln(t, "MinChunk\tlinks\tmean chunk\tcheckpoints cost\t")
		for _, c := range a.Chunks {
			fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", short(c.MinChunk), c.Links, c.Mean, duration(c.CostNs), mark(c.MinChunk == a.MinChunk))
		}
	})
	if r.MinChunk > smallest {
		e.printf("\nSmaller values can't be judged, as the run had -minchunk %s.\n", short(r.MinChunk))
	}
	if len(a.Paths) > 0 {
		e.printf("\nMaxPath: checkpoints that would have been passed\n\n")
		e.table(func(t io.Writer) {
			fmt.Fprintln(t, "MaxPath\tplaces\tpassed\tlongest path\t")
			for _, p := range a.Paths {
				passed := fmt.Sprint(p.Passed)
				if !p.Known {
					passed = "?"
				}
				fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\n", short(p.MaxPath), p.Sites, passed, p.Longest, mark(p.MaxPath == a.MaxPath))
			}
		})
		if !a.Paths[0].Known {
			e.printf("\n?: the run was built with a larger value and does not tell.\n")
		}
	}
	if len(a.Sites) > 0 {
		e.printf("\nThese link most:\n\n")
		e.table(func(t io.Writer) {
			fmt.Fprintln(t, "links\tdirect\tneeds\twasted\tplace")
			for _, s := range a.Sites {
				fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\n", s.Links, s.Direct, s.Need, s.Internal, s.Name)
			}
		})
	}
	e.printf("\nProposed:")
	if a.MaxPath > 0 {
		e.printf(" -maxpath %s", short(a.MaxPath))
	}
	e.printf(" -minchunk %s\n", short(a.MinChunk))
	if a.MaxPath == 0 {
		e.printf("Name the package that was run, and -maxpath is looked at too.\n")
	}
	return e.err
}

// sticky keeps the first error of a writer.
type sticky struct {
	w   io.Writer
	err error
}

func (s *sticky) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
}

func (s *sticky) table(f func(io.Writer)) {
	t := tabwriter.NewWriter(s.w, 0, 0, 2, ' ', 0)
	f(t)
	if err := t.Flush(); s.err == nil {
		s.err = err
	}
}

// mark shows the proposed row.
func mark(proposed bool) string {
	if proposed {
		return "<- proposed"
	}
	return ""
}

func share(part, whole uint64) string {
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(max(whole, 1)))
}

// short is how a flag takes a size.
func short(b plan.Bytes) string {
	if b > 0 && b%1024 == 0 {
		return fmt.Sprintf("%dKB", b/1024)
	}
	return fmt.Sprintf("%dB", b)
}

func duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.1f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.1f ms", ns/1e6)
	}
	return fmt.Sprintf("%.0f µs", ns/1e3)
}
