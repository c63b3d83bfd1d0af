package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// usualSources is how many sources are shown if Options.Limit is 0. Sources that differ or failed come first.
const usualSources = 20

// sourceTable are the processes whose graphs were added up.
func sourceTable(s *bgraph.Snapshot, names map[bgraph.Key]string) *textTable[[]string] {
	t := &textTable[[]string]{columns: plainColumns("source", " "+words.TermsOf(s).Tasks, " steps/s", " CPU", "remarks")}
	var failed, differ int
	for _, from := range sortedSources(s) {
		t.rows = append(t.rows, sourceRow(&from, names))
		if from.Failed != "" {
			failed++
		}
		if len(from.Places) > 0 {
			differ++
		}
	}
	t.title = "SOURCES: " + words.Count(len(s.Sources))
	if failed > 0 {
		t.title += fmt.Sprintf(", %s without a graph", words.Count(failed))
	}
	if differ > 0 {
		t.title += fmt.Sprintf(", %s differing", words.Count(differ))
	}
	return t
}

func sourceRow(from *bgraph.Source, names map[bgraph.Key]string) []string {
	if from.Failed != "" {
		return []string{from.Name, "-", "-", "-", "no graph: " + from.Failed}
	}
	remark := ""
	for i, p := range from.Places {
		if i > 0 {
			remark += "; "
		}
		remark += placeText(p, names)
	}
	if from.Skew != 0 {
		if remark != "" {
			remark += "; "
		}
		remark += "its clock is " + skewText(from.Skew)
	}
	second := float64(max(from.Span, 1)) / float64(time.Second)
	return []string{from.Name, words.Count(from.Tasks), words.Rate(float64(from.Steps) / second), words.Rate(float64(from.CPU) / float64(max(from.Span, 1))), remark}
}

func placeText(p bgraph.SourcePlace, names map[bgraph.Key]string) string {
	return fmt.Sprintf("%s of its time in %s, others %s", words.Percent(p.Share), words.NameIn(names, p.Node), words.Percent(p.Others))
}

func skewText(skew bgraph.Nanos) string {
	if skew < 0 {
		return words.Duration(-skew) + " behind"
	}
	return words.Duration(skew) + " ahead"
}

// sortedSources begins with the sources that differ most, then has failed ones, then the others by CPU time.
func sortedSources(s *bgraph.Snapshot) []bgraph.Source {
	rank := func(from bgraph.Source) (differs, failed float64) {
		if len(from.Places) > 0 {
			differs = from.Places[0].Share - from.Places[0].Others
		}
		if from.Failed != "" {
			failed = 1
		}
		return differs, failed
	}
	return slices.SortedStableFunc(slices.Values(s.Sources), func(a, b bgraph.Source) int {
		aDiffers, aFailed := rank(a)
		bDiffers, bFailed := rank(b)
		return cmp.Or(cmp.Compare(bDiffers, aDiffers), cmp.Compare(bFailed, aFailed), cmp.Compare(b.CPU, a.CPU))
	})
}

// writeSources says which of several processes differs, and lists them.
func writeSources(b *bytes.Buffer, s *bgraph.Snapshot, names map[bgraph.Key]string, o Options) {
	if len(s.Sources) == 0 {
		return
	}
	for i, from := range sortedSources(s) {
		if len(from.Places) == 0 || i == mostDiffering {
			break
		}
		fmt.Fprintf(b, "%s differs: %s\n", words.Clean(from.Name), placeText(from.Places[0], names))
	}
	t := sourceTable(s, names)
	t.width, t.limit = o.Width, cmp.Or(o.Limit, usualSources)
	last := len(t.columns) - 1
	t.columns = t.columns[:last] // on a line of its own
	t.below = func(row *[]string) []string {
		if (*row)[last] == "" {
			return nil
		}
		return strings.Split((*row)[last], "; ")
	}
	t.write(b)
}

// SourceRows describes the sources of s, as in the table of them: name, tasks, steps a second, CPU and remarks of each.
func SourceRows(s *bgraph.Snapshot) [][]string { return sourceTable(s, words.Names(s)).rows }

// mostDiffering is how many processes are said to differ above their table.
const mostDiffering = 3
