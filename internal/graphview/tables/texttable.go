package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/words"
)

// A column is one figure of the rows of a table.
type column[R any] struct {
	name string // by which it can be sorted; "": it can't
	head string
	left bool // alignment; also, what can be cut if there is no room
	text func(*R) string
	rank func(*R) float64 // the highest goes first; nil: by text, ascending
}

// narrowest is the least width that a column of names is cut to.
const narrowest = 16

// A textTable writes rows as text. The rows are in their default order until sortBy is called.
type textTable[R any] struct {
	title   string
	columns []column[R]
	rows    []R
	width   int // of a line
	limit   int // of rows; 0: all
	rare    int // rows that were left out, see Options.Prune
	below   func(*R) []string
}

// sortBy brings the rows into the order of the column of that name, and reports whether there is
// one; equal rows keep their order. A minus before the name reverses it.
func (t *textTable[R]) sortBy(order string) bool {
	name, reverse := strings.CutPrefix(order, "-")
	i := slices.IndexFunc(t.columns, func(c column[R]) bool { return c.name != "" && c.name == name })
	if i < 0 {
		return false
	}
	c := &t.columns[i]
	slices.SortStableFunc(t.rows, func(a, b R) int {
		var d int
		if c.rank != nil {
			d = cmp.Compare(c.rank(&b), c.rank(&a))
		} else {
			d = cmp.Compare(c.text(&a), c.text(&b))
		}
		if reverse {
			d = -d
		}
		return d
	})
	return true
}

// write appends title, heads and rows to b, nothing if there are no rows.
func (t *textTable[R]) write(b *bytes.Buffer) {
	if len(t.rows) == 0 {
		return
	}
	if t.title != "" {
		fmt.Fprintf(b, "\n%s\n", t.title)
	}
	shown := t.rows
	if t.limit > 0 && len(shown) > t.limit {
		shown = shown[:t.limit]
	}
	t.columns = t.used(shown)
	cells := make([][]string, len(shown)+1)
	for _, c := range t.columns {
		cells[0] = append(cells[0], c.head)
	}
	for i := range shown {
		for _, c := range t.columns {
			cells[i+1] = append(cells[i+1], words.Clean(c.text(&shown[i])))
		}
	}
	widths := t.fit(cells)
	for i, line := range cells {
		t.writeLine(b, line, widths)
		if i > 0 && t.below != nil {
			for _, text := range t.below(&shown[i-1]) {
				for _, line := range words.Fold(words.Clean(text), ", ", max(t.width-6, narrowest)) {
					fmt.Fprintf(b, "      %s\n", line)
				}
			}
		}
	}
	if rest := len(t.rows) - len(shown); rest > 0 {
		fmt.Fprintf(b, "  … and %s more\n", words.Count(rest))
	}
	if t.rare > 0 {
		fmt.Fprintf(b, "  … and %s, which -prune 0 shows\n", words.Plural(t.rare, "rare one"))
	}
}

// used are the columns in which some row has something.
func (t *textTable[R]) used(rows []R) []column[R] {
	return slices.DeleteFunc(slices.Clone(t.columns), func(c column[R]) bool {
		return !slices.ContainsFunc(rows, func(r R) bool { return c.text(&r) != "" })
	})
}

// fit returns how wide each column is, names cut as far as the line asks for.
func (t *textTable[R]) fit(cells [][]string) []int {
	widths := make([]int, len(t.columns))
	total := 0
	for i := range widths {
		for _, line := range cells {
			widths[i] = max(widths[i], words.Width(line[i]))
		}
		total += widths[i] + 2
	}
	for ; t.width > 0 && total > t.width; total-- {
		widest := -1
		for i, c := range t.columns {
			if c.left && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	return widths
}

func (t *textTable[R]) writeLine(b *bytes.Buffer, line []string, widths []int) {
	var out strings.Builder
	for i, text := range line {
		out.WriteString("  ")
		text = words.Shorten(text, widths[i])
		pad := strings.Repeat(" ", widths[i]-words.Width(text))
		if t.columns[i].left {
			out.WriteString(text + pad)
		} else {
			out.WriteString(pad + text)
		}
	}
	b.WriteString(strings.TrimRight(out.String(), " "))
	b.WriteByte('\n')
}
