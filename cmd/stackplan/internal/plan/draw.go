package plan

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// The drawing of a sweep, in pixels.
const (
	sweepWidth, sweepHeight = 640, 400
	sweepLeft, sweepTop     = 64, 48
	sweepRight, sweepBottom = 24, 64
)

// WriteSweepSVG draws rows of a sweep: the share of calls that are checkpoints, over
// MaxPath on a logarithmic scale. It is Figure 7 of the paper.
func WriteSweepSVG(w io.Writer, title string, rows []SweepRow) error {
	if len(rows) < 2 {
		return fmt.Errorf("a sweep of %d sizes can't be drawn; want 2 or more", len(rows))
	}
	least, most := math.Log2(float64(rows[0].MaxPath)), math.Log2(float64(rows[len(rows)-1].MaxPath))
	x := func(b Bytes) float64 {
		return sweepLeft + (math.Log2(float64(b))-least)/(most-least)*(sweepWidth-sweepLeft-sweepRight)
	}
	top := 0.0
	for _, r := range rows {
		top = max(top, r.Share)
	}
	top = max(math.Ceil(top*10)/10, 0.1)
	y := func(share float64) float64 {
		return sweepTop + (1-share/top)*(sweepHeight-sweepTop-sweepBottom)
	}
	var b bytes.Buffer
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, escape(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" font-size="12">`+"\n", sweepWidth, sweepHeight, sweepWidth, sweepHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", sweepWidth, sweepHeight)
	text(sweepLeft, 20, "start", title)
	text(sweepLeft, 36, "start", fmt.Sprintf("share of %d calls that are checkpoints", rows[0].CallSites))
	for i := range 6 {
		share := top * float64(i) / 5
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", sweepLeft, sweepWidth-sweepRight, y(share), y(share))
		text(sweepLeft-6, y(share)+4, "end", fmt.Sprintf("%.0f %%", share*100))
	}
	var points bytes.Buffer
	for i, r := range rows {
		fmt.Fprintf(&points, "%.1f,%.1f ", x(r.MaxPath), y(r.Share))
		if r.MaxPath&(r.MaxPath-1) == 0 {
			label := strconv.FormatInt(int64(r.MaxPath), 10) + " B"
			if r.MaxPath >= 1024 {
				label = strconv.FormatInt(int64(r.MaxPath>>10), 10) + " KB"
			}
			text(x(r.MaxPath), sweepHeight-sweepBottom+20, "middle", label)
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#1f6fb4"><title>%s</title></circle>`+"\n", x(rows[i].MaxPath), y(r.Share),
			escape(fmt.Sprintf("%v: %d checkpoints", r.MaxPath, r.Checkpoints)))
	}
	fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="#1f6fb4" stroke-width="2"/>`+"\n", bytes.TrimSpace(points.Bytes()))
	text((sweepLeft+sweepWidth-sweepRight)/2, sweepHeight-20, "middle", "MaxPath")
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

var escape = strings.NewReplacer("<", "&lt;", "&", "&amp;").Replace
