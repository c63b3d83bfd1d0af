package graphcompare

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/capriccio-go/capriccio/internal/words"
)

// textWidth is how wide the text is, but for names.
const textWidth = 96

// Summary is the verdict in one line.
func (v *Verdict) Summary() string {
	text := "No regression"
	if n := len(v.Regressions); n > 0 {
		text = "REGRESSION: " + words.Plural(n, "difference") + " for the worse"
	}
	if n := len(v.Better); n > 0 {
		text += ", " + fmt.Sprint(n) + " for the better"
	}
	return fmt.Sprintf("%s (%s before, %d after)", text, words.Plural(v.Captures[0], "capture"), v.Captures[1])
}

// rule is the sentence that says when a difference counts.
func (v *Verdict) rule() string {
	if v.Captures == [2]int{1, 1} {
		return "With one capture a side, by how much figures vary is not known: a difference counts if the figure has more than doubled or halved. Give three captures a side, or better five."
	}
	text := "A difference counts if it is more than twice the larger spread within a side, and more than 10 %."
	if min(v.Captures[0], v.Captures[1]) < 3 {
		text += " With fewer than three captures a side, chance looks like a difference now and then."
	}
	return text
}

// sections are the lists of differences with their titles.
func (v *Verdict) sections() []section {
	return []section{
		{"Worse", v.Regressions},
		{"Better", v.Better},
		{"Different; goroutines there may just have less to do, or more", v.Other[:min(len(v.Other), mostOther)]},
	}
}

type section struct {
	title string
	list  []Difference
}

// mostOther is how many of the differences that don't count are shown.
const mostOther = 10

// WriteText writes the verdict for people, what counts most first.
func (v *Verdict) WriteText(w io.Writer) error {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, "%s\n\nbefore: %s\nafter:  %s\n", v.Summary(), captureText(v.Before, v.Captures[0]), captureText(v.After, v.Captures[1]))
	for _, s := range v.sections() {
		if len(s.list) > 0 {
			fmt.Fprintf(b, "\n%s:\n", s.title)
		}
		for i := range s.list {
			d := &s.list[i]
			fmt.Fprintf(b, "\n  %s\n", d.title())
			words.WriteParagraph(b, d.figures(v.Captures), textWidth)
		}
	}
	fmt.Fprintln(b)
	words.WriteParagraph(b, v.rule(), textWidth)
	return written(w, b)
}

// WriteMarkdown writes the verdict as a comment on a change.
func (v *Verdict) WriteMarkdown(w io.Writer) error {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, "**%s**\n", v.Summary())
	for _, s := range v.sections() {
		if len(s.list) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n\n", s.title)
		for i := range s.list {
			d := &s.list[i]
			fmt.Fprintf(b, "- **%s**: %s\n", words.Markdown(d.title()), words.Markdown(d.figures(v.Captures)))
		}
	}
	fmt.Fprintf(b, "\nbefore: %s  \nafter: %s\n\n%s\n", words.Markdown(captureText(v.Before, v.Captures[0])), words.Markdown(captureText(v.After, v.Captures[1])), v.rule())
	return written(w, b)
}

func written(w io.Writer, b *bytes.Buffer) error {
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("bgraph: writing the comparison: %w", err)
	}
	return nil
}

// captureText names the first of n captures.
func captureText(first Side, n int) string {
	if n == 1 {
		return first.String()
	}
	return fmt.Sprintf("%v, and %d more", first, n-1)
}

// title is the place, with its line where the name lacks that.
func (d *Difference) title() string {
	text := words.Clean(d.Name)
	if d.At != "" && !strings.Contains(text, d.At) {
		text += " (" + words.Clean(d.At) + ")"
	}
	return text
}

// figures is a sentence.
func (d *Difference) figures(captures [2]int) string {
	if d.Kind == KindFinding {
		return fmt.Sprintf("found in %.0f of %d captures before and in %.0f of %d after: %s", d.Before, captures[0], d.After, captures[1], words.Clean(d.Text))
	}
	write := meanText
	if d.Kind == KindCapacity {
		write = words.Rate
	}
	was, is := write(d.Before), write(d.After)
	text := ""
	switch d.Kind {
	case KindWait:
		text = fmt.Sprintf("waits %s a %s, before %s", is, d.Unit, was)
	case KindCPU:
		text = fmt.Sprintf("CPU %s a %s, before %s", is, d.Unit, was)
	case KindTask:
		text = fmt.Sprintf("takes %s on average, before %s", is, was)
	case KindCapacity:
		text = fmt.Sprintf("%s %s wait here on average, before %s", is, d.Unit, was)
	}
	text += fmt.Sprintf(" (%s", growthText(Pair{d.Before, d.After}))
	if captures != [2]int{1, 1} && d.Spread > 0 {
		text += fmt.Sprintf("; varies by %s", write(d.Spread))
	}
	return text + ")"
}
