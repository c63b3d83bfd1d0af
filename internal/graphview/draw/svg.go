package draw

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/words"
)

// WriteSVG draws the Snapshot as an SVG image: boxes for nodes, larger where more tasks
// wait, arrows for edges, wider where more tasks go, colours by o.Color, figures when
// the pointer rests, and a legend. It contains no scripts and refers to nothing outside,
// and is readable on light and dark backgrounds. An unknown o.Color is an error. It does
// not park.
func WriteSVG(w io.Writer, s *bgraph.Snapshot, o Options) error {
	d, err := layout(s, o)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	p := svgWriter{&b}
	width := max(d.Width, svgLeast)
	height := svgHead + d.Height + svgLegend
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" font-family='%s'>`+"\n",
		width, height, width, height, graphlayout.Font)
	p.printf("<title>Blocking graph of %s</title>\n", escaped(words.OrUnknown(s.Program.Name)))
	p.head(s, width)
	if len(d.Nodes) == 0 {
		p.text(width/2, svgHead+d.Height/2, 12.5, "middle", "Nothing has waited yet.")
	}
	p.printf(`<g transform="translate(%g %d)">`+"\n", math.Floor((width-d.Width)/2), svgHead)
	for i := range d.Edges {
		p.edge(&d.Edges[i])
	}
	for i := range d.Nodes {
		p.node(&d.Nodes[i])
	}
	for i := range d.Edges {
		p.label(&d.Edges[i])
	}
	p.printf("</g>\n")
	p.legend(d, width, svgHead+d.Height)
	p.printf("</svg>\n")
	_, err = w.Write(b.Bytes())
	return err
}

// Sizes of an SVG image, in pixels.
const (
	svgLeast  = 720 // width
	svgHead   = 46
	svgLegend = 96
)

type svgWriter struct{ b *bytes.Buffer }

func (p svgWriter) printf(format string, args ...any) { fmt.Fprintf(p.b, format, args...) }

// escaped makes text fit for XML.
func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a Buffer takes all
	return b.String()
}

// head writes whose graph it is.
func (p svgWriter) head(s *bgraph.Snapshot, width float64) {
	lines := words.Head(s)
	for i, text := range lines[:2] {
		size := 12.5 - float64(i)
		for text != "" && graphlayout.Measure(text, size, i == 0) > width-20 {
			text = words.Shorten(text, words.Width(text)-4)
		}
		weight := ""
		if i == 0 {
			weight = ` font-weight="bold"`
		}
		p.printf(`<text x="%g" y="%d" font-size="%g"%s text-anchor="middle" fill="%s">%s</text>`+"\n",
			width/2, 18+16*i, size, weight, graphlayout.Muted, escaped(text))
	}
}

func (p svgWriter) text(x, y, size float64, anchor, text string) {
	p.printf(`<text x="%g" y="%g" font-size="%g" text-anchor="%s" fill="%s">%s</text>`+"\n",
		graphlayout.Tenth(x), graphlayout.Tenth(y), size, anchor, graphlayout.Muted, escaped(text))
}

func (p svgWriter) edge(e *graphlayout.Edge) {
	dash := ""
	if e.Back {
		dash = fmt.Sprintf(` stroke-dasharray="%g %g"`, graphlayout.Tenth(4+2*e.Width), graphlayout.Tenth(2+e.Width))
	}
	p.printf(`<g><title>%s</title><path d="%s" fill="none" stroke="%s" stroke-width="%g"%s/><path d="%s" fill="%s"/></g>`+"\n",
		escaped(e.Title), e.Path, e.Stroke, graphlayout.Tenth(e.Width), dash, e.Arrow, e.Stroke)
}

func (p svgWriter) node(n *graphlayout.Node) {
	round, dash := 7.0, ""
	switch n.Key {
	case bgraph.KeyStart, bgraph.KeyEnd:
		round = n.H / 2
	case bgraph.KeyOverflow, graphlayout.KeyOthers:
		dash = ` stroke-dasharray="4 3"`
	}
	stroke := graphlayout.Muted
	if n.Mark != nil {
		stroke, dash = n.Mark.Color, dash+` stroke-width="3"`
	}
	p.printf(`<g><title>%s</title><rect x="%g" y="%g" width="%g" height="%g" rx="%g" fill="%s" stroke="%s"%s/>`+"\n",
		escaped(n.Title), n.X, n.Y, n.W, n.H, round, n.Fill, stroke, dash)
	for _, l := range n.Lines {
		weight := ""
		if l.Bold {
			weight = ` font-weight="bold"`
		}
		p.printf(`<text x="%g" y="%g" font-size="%g"%s text-anchor="middle" fill="%s">%s</text>`+"\n",
			l.X, l.Y, graphlayout.Tenth(l.Size), weight, n.Ink, escaped(l.Text))
	}
	p.mark(n.Mark, n.X, n.Y)
	p.printf("</g>\n")
}

// mark writes the number of a finding beside what it is about.
func (p svgWriter) mark(m *graphlayout.Mark, x, y float64) {
	if m == nil {
		return
	}
	p.printf(`<circle cx="%g" cy="%g" r="9" fill="%s"/><text x="%g" y="%g" font-size="12" font-weight="bold" text-anchor="middle" fill="#ffffff">%d</text>`+"\n",
		x, y, m.Color, x, graphlayout.Tenth(y+4.3), m.Number)
}

func (p svgWriter) label(e *graphlayout.Edge) {
	if e.Mark != nil && e.Mark.Step {
		p.mark(e.Mark, e.MarkX, e.MarkY)
	}
	if e.Label == "" {
		return
	}
	p.printf(`<g><title>%s</title><rect x="%g" y="%g" width="%g" height="%g" rx="4" fill="#f6f8fa" stroke="%s" stroke-width="0.6"/>`,
		escaped(e.Title), graphlayout.Tenth(e.LabelX-e.LabelW/2), graphlayout.Tenth(e.LabelY-e.LabelH/2), e.LabelW, e.LabelH, e.Stroke)
	p.printf(`<text x="%g" y="%g" font-size="%g" text-anchor="middle" fill="#1f2328">%s</text></g>`+"\n",
		e.LabelX, graphlayout.Tenth(e.LabelY+graphlayout.LabelSize*0.36), graphlayout.LabelSize, escaped(e.Label))
}

// legend explains sizes, widths and colours.
func (p svgWriter) legend(d *graphlayout.Drawing, width, y float64) {
	const ramp, bar, legendGap = 200.0, 10.0, 50.0
	what := "colour: CPU of the steps from there"
	if d.Color == graphlayout.ColorWait {
		what = "colour: mean wait"
	}
	lines := []string{
		"box: how many wait there, " + words.Count(d.MostNow) + " at most · mean wait",
		"arrow width: steps; on it: steps/s · mean CPU of one",
		"dashed: back up to where they have been",
	}
	if slices.ContainsFunc(d.Nodes, func(n graphlayout.Node) bool { return n.Mark != nil }) || slices.ContainsFunc(d.Edges, func(e graphlayout.Edge) bool { return e.Mark != nil }) {
		lines = append(lines, "number: the finding that is about the box or the step")
	}
	if left := notDrawn(d); left != "" {
		lines = append(lines, "not drawn: "+left)
	}
	var widest float64
	for _, line := range lines {
		widest = max(widest, graphlayout.Measure(line, graphlayout.LabelSize, false))
	}
	x := math.Floor((width - ramp - legendGap - widest) / 2)
	p.printf(`<defs><linearGradient id="heat">`)
	for i, stop := range d.Scale {
		p.printf(`<stop offset="%g" stop-color="%s"/>`, float64(i)/float64(len(d.Scale)-1), stop.Fill)
	}
	p.printf("</linearGradient></defs>\n")
	text := func(x, y float64, anchor, text string) { p.text(x, y, graphlayout.LabelSize, anchor, text) }
	text(x, y+18, "start", what)
	p.printf(`<rect x="%g" y="%g" width="%g" height="%g" rx="2" fill="url(#heat)" stroke="%s" stroke-width="0.5"/>`+"\n", x, y+26, ramp, bar, graphlayout.Muted)
	for i, stop := range d.Scale {
		text(x+ramp*float64(i)/float64(len(d.Scale)-1), y+50, "middle", stop.Text)
	}
	for i, line := range lines {
		text(x+ramp+legendGap, y+18+16*float64(i), "start", line)
	}
}

// notDrawn reports what was left out, "" if nothing was.
func notDrawn(d *graphlayout.Drawing) string {
	switch {
	case d.Rare > 0:
		return fmt.Sprintf("%s, %s that no other edge joins", words.Plural(d.Hidden, "rare edge"), words.Plural(d.Rare, "node"))
	case d.Hidden > 0:
		return words.Plural(d.Hidden, "rare edge")
	}
	return ""
}
