package graphlayout

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Text is measured without a font: by the widths of a wide one (Verdana and DejaVu Sans
// are as wide), so that it fits in the fonts that a reader is likely to have.

// Font is the CSS font family that the widths are meant for.
const Font = `-apple-system, BlinkMacSystemFont, "Segoe UI", Helvetica, Arial, "DejaVu Sans", sans-serif`

// advances are the widths of the characters from blank to tilde, plain and bold, in
// hundredths of the size.
var advances = [2][95]uint8{{
	32, 41, 46, 84, 64, 95, 78, 28, 39, 39, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
	64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 77, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
	61, 79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 39, 34, 39, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
	64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
}, {
	35, 46, 53, 84, 70, 101, 88, 31, 46, 46, 53, 84, 38, 42, 38, 37, 70, 70, 70, 70, 70, 70, 70, 70,
	70, 70, 40, 40, 84, 84, 84, 58, 100, 78, 77, 74, 83, 69, 69, 83, 84, 38, 38, 78, 64, 100, 84, 85,
	74, 85, 77, 72, 69, 82, 78, 111, 78, 73, 73, 46, 37, 46, 84, 50, 50, 68, 72, 60, 72, 68, 44, 72,
	72, 35, 35, 67, 35, 105, 72, 69, 72, 72, 50, 60, 48, 72, 66, 93, 65, 66, 59, 72, 37, 72, 84,
}}

// Measure is the width of text in pixels.
func Measure(text string, size float64, bold bool) float64 {
	face := 0
	if bold {
		face = 1
	}
	var sum int
	for _, r := range text {
		switch {
		case r >= ' ' && r <= '~':
			sum += int(advances[face][r-' '])
		case r == 'µ' || r == '·':
			sum += 74
		default:
			sum += 110 * words.RuneWidth(r)
		}
	}
	return float64(sum) * size / 100
}

// The sizes of boxes and their text.
const (
	nameSize     = 12.5 // font size of a node without waiting tasks
	nameGrowth   = 7.5  // added to nameSize at the node with most waiting tasks
	smallSize    = 11   // pixels: smaller text is hard to read
	boxPad       = 11
	padGrowth    = 13
	longestBox   = 34 // columns of a name
	longestChain = 44 // columns of the functions that lead to a node

	widestForLines = 480 // of a box that has that many lines
)

// size writes the lines of each box and makes it large enough for them; where more tasks
// wait all is larger.
func (g *drawGraph) size() {
	var most float64
	for _, n := range g.nodes {
		if n.Key != KeyOthers {
			most = max(most, float64(n.Now))
		}
	}
	for _, n := range g.nodes {
		n.setLines(words.TermsOf(g.s), math.Sqrt(min(max(words.Ratio(float64(n.Now), most), 0), 1)), g.s.Node(n.Key))
		lines := len(n.in) + len(n.out)
		n.W = max(n.W, min(float64(lines)*lineGap/2+2*portSide, widestForLines))
	}
}

// setLines takes the share of the largest box that this one gets.
func (n *drawNode) setLines(w words.Terms, large float64, of *bgraph.Node) {
	name, above, below := n.Name, "", ""
	if n.Key > bgraph.KeyOverflow && of != nil {
		name, above = strings.TrimSpace(words.Clean(of.Label)), n.Reason
		if place := of.Place(); name == "" && place != nil {
			name = words.Clean(funcname.Short(place.Function))
		}
		if name == "" {
			name, above = n.Name, ""
		}
		if _, via, ok := strings.Cut(n.Name, " via "); ok {
			below = "via " + via
		}
		if chain := words.Chain(of, longestChain); chain != "" && strings.Contains(chain, strings.TrimPrefix(below, "via ")) {
			below = chain
		}
	}
	figures := words.Count(n.Now) + " " + w.Tasks
	switch {
	case n.Key == bgraph.KeyStart || n.Key == bgraph.KeyEnd:
		figures = words.Rate(n.Arrivals) + "/s"
	case n.Now == 1:
		figures = "1 " + w.Task
	}
	if n.Wait > 0 {
		figures += " · " + words.Duration(n.Wait)
	}
	small := smallSize + large*2
	add := func(text string, size float64, bold bool) {
		if text == "" {
			return
		}
		text = words.Shorten(text, longestChain)
		n.Lines = append(n.Lines, TextLine{Text: text, Size: size, Bold: bold})
		n.W = max(n.W, Measure(text, size, bold))
		n.H += size * 1.28
	}
	add(above, small, false)
	add(words.Shorten(name, longestBox), nameSize+large*nameGrowth, true)
	add(below, small, false)
	add(figures, small, false)
	pad := boxPad + large*padGrowth
	n.W, n.H = math.Ceil(n.W+2*pad), math.Ceil(n.H+1.3*pad)
}

// setText puts the lines where the box is.
func (n *drawNode) setText() {
	var height float64
	for _, l := range n.Lines {
		height += l.Size * 1.28
	}
	y := n.Y + (n.H-height)/2
	for i := range n.Lines {
		l := &n.Lines[i]
		l.X, l.Y = Tenth(n.X+n.W/2), Tenth(y+l.Size*0.98)
		y += l.Size * 1.28
	}
}

// Tenth rounds, so that drawings are the same on machines that compute with a little
// more precision.
func Tenth(v float64) float64 { return math.Round(v*10) / 10 }

// point writes coordinates as SVG paths have them.
func point(x, y float64) string { return fmt.Sprintf("%g %g", Tenth(x), Tenth(y)) }

const (
	LabelSize = 11.0
	labelH    = 16
)

// setLabel sets the label of the edge: the rate of its steps, or their number, and the CPU time of one.
func (e *drawEdge) setLabel() {
	e.Label = words.Rate(e.Rate) + "/s"
	if e.Rate == 0 {
		e.Label = words.Count(e.Count)
	}
	if e.CPU > 0 {
		e.Label += " · " + words.Duration(e.CPU)
	}
	e.LabelW, e.LabelH = math.Ceil(Measure(e.Label, LabelSize, false))+10, labelH
	if !utf8.ValidString(e.Label) {
		e.Label = ""
	}
}
