package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Chart is one panel of a picture. A metric whose parameter is swept becomes
// lines over a logarithmic x axis; bars compare systems at a single parameter.
type Chart struct {
	Title  string
	Metric string
	XLabel string
	Bars   bool
	LogY   bool // for values that differ by orders of magnitude; not with Bars
}

const (
	chartWidth  = 720
	chartHeight = 300
	marginLeft  = 74
	marginRight = 130
	marginTop   = 34
	marginBelow = 42
	plotWidth   = chartWidth - marginLeft - marginRight
	plotHeight  = chartHeight - marginTop - marginBelow
)

// colours keeps each system's colour the same in every picture.
var colours = map[string]string{
	"capriccio": "#c22f2f", "knot": "#c22f2f",
	"goroutine": "#2f6fc2", "net-http": "#2f6fc2",
	"pthread": "#8a5a2b", "fasthttp": "#8a5a2b",
	"state-threads": "#3c9a4a", "gnet": "#3c9a4a",
	"epoll-c": "#7a4fb5", "nginx": "#7a4fb5", "fio": "#7a4fb5",
	"epoll-go": "#c28a2f", "capriccio-fifo": "#c28a2f", "capriccio-task": "#c28a2f",
	"knot-uring": "#c28a2f", "knot-epoll": "#d46a9f",
	"failsafe-go":    "#3c9a4a",
	"nginx-sendfile": "#7a4fb5", "nginx-threads": "#3c9a4a",
}

// WriteSVG draws the charts under one another. Charts without rows are left
// out; with none left nothing is written and drawn is false.
func (r *Report) WriteSVG(w io.Writer, charts []Chart) (drawn bool, err error) {
	charts = slices.DeleteFunc(slices.Clone(charts), func(c Chart) bool {
		_, xs, _ := r.axes(c.Metric)
		return len(xs) == 0
	})
	if len(charts) == 0 {
		return false, nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		chartWidth, chartHeight*len(charts))
	fmt.Fprint(&out, `<rect width="100%" height="100%" fill="white"/>`+"\n")
	for i, c := range charts {
		fmt.Fprintf(&out, `<g transform="translate(0 %d)">`+"\n", i*chartHeight)
		r.drawChart(&out, c)
		fmt.Fprintln(&out, "</g>")
	}
	fmt.Fprintln(&out, "</svg>")
	_, err = io.WriteString(w, out.String())
	return true, err
}

func (r *Report) drawChart(out *strings.Builder, c Chart) {
	systems, xs, unit := r.axes(c.Metric)
	axis := r.valueAxis(c)
	text(out, marginLeft, 18, "start", "bold", c.Title)
	for _, v := range axis.ticks() {
		y := axis.y(v)
		fmt.Fprintf(out, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`+"\n", marginLeft, y, marginLeft+plotWidth, y)
		text(out, marginLeft-6, y+4, "end", "normal", Number(v))
	}
	text(out, 6, marginTop-8, "start", "normal", unit)
	text(out, marginLeft+plotWidth/2, chartHeight-8, "middle", "normal", c.XLabel)
	if c.Bars {
		r.drawBars(out, c.Metric, systems, xs, axis)
	} else {
		r.drawLines(out, c.Metric, systems, xs, axis)
	}
	for i, system := range systems {
		y := float64(marginTop + 16*i)
		fmt.Fprintf(out, `<rect x="%d" y="%.1f" width="10" height="10" fill="%s"/>`+"\n", marginLeft+plotWidth+12, y, colour(system))
		text(out, marginLeft+plotWidth+26, y+9, "start", "normal", system)
	}
}

// valueAxis is the y axis: from 0, or logarithmic over whole decades.
type valueAxis struct {
	low, high float64
	log       bool
}

func (r *Report) valueAxis(c Chart) valueAxis {
	least, most := math.Inf(1), 0.0
	for _, row := range r.Rows {
		if row.Metric == c.Metric {
			least, most = min(least, row.Min), max(most, row.Max)
		}
	}
	if c.LogY && !c.Bars && least > 0 {
		low := math.Pow(10, math.Floor(math.Log10(least)))
		high := math.Pow(10, math.Ceil(math.Log10(most)))
		return valueAxis{low: low, high: max(high, 10*low), log: true}
	}
	return valueAxis{high: niceTop(most)}
}

func (a valueAxis) ticks() []float64 {
	var at []float64
	if a.log {
		for v := a.low; v < a.high*1.01; v *= 10 {
			at = append(at, v)
		}
		return at
	}
	for i := range 5 {
		at = append(at, a.high*float64(i)/4)
	}
	return at
}

// y is where a value is drawn.
func (a valueAxis) y(v float64) float64 {
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return marginTop + plotHeight*(1-share)
}

// logarithmic places parameters, in ascending order, on a logarithmic axis; 0 stands at half
// the least that is more.
func logarithmic(xs []float64) func(x float64) float64 {
	zero := 1.0
	if i := slices.IndexFunc(xs, func(x float64) bool { return x > 0 }); i >= 0 {
		zero = xs[i] / 2
	}
	at := func(x float64) float64 {
		if x <= 0 {
			x = zero
		}
		return math.Log(x)
	}
	low, high := at(xs[0]), at(xs[len(xs)-1])
	return func(x float64) float64 {
		if high == low {
			return marginLeft + plotWidth/2
		}
		return marginLeft + plotWidth*(at(x)-low)/(high-low)
	}
}

// drawLines draws each system's medians, with a thin bar from least to most.
func (r *Report) drawLines(out *strings.Builder, metric string, systems []string, xs []float64, axis valueAxis) {
	xOf := logarithmic(xs)
	for _, x := range xs {
		text(out, xOf(x), marginTop+plotHeight+16, "middle", "normal", Number(x))
	}
	for _, system := range systems {
		var points []string
		for _, x := range xs {
			row, ok := r.Find(system, metric, x)
			if !ok {
				continue
			}
			px, py := xOf(x), axis.y(row.Value)
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-opacity="0.5"/>`+"\n",
				px, axis.y(row.Min), px, axis.y(row.Max), colour(system))
			fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", px, py, colour(system))
		}
		fmt.Fprintf(out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.6"/>`+"\n",
			strings.Join(points, " "), colour(system))
	}
}

// drawBars draws a group of bars for each parameter.
func (r *Report) drawBars(out *strings.Builder, metric string, systems []string, xs []float64, axis valueAxis) {
	group := float64(plotWidth) / float64(len(xs))
	width := group * 0.8 / float64(len(systems))
	for i, x := range xs {
		left := marginLeft + group*float64(i)
		text(out, left+group/2, marginTop+plotHeight+16, "middle", "normal", Number(x))
		for j, system := range systems {
			row, ok := r.Find(system, metric, x)
			if !ok {
				continue
			}
			y := axis.y(row.Value)
			fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
				left+group*0.1+width*float64(j), y, width*0.9, marginTop+plotHeight-y, colour(system))
		}
	}
}

// niceTop rounds the largest value up to 1, 2, 2.5, 4 or 5 times a power of ten.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 2.5, 4, 5} {
		if v <= step*scale {
			return step * scale
		}
	}
	return 10 * scale
}

func colour(system string) string {
	if c, ok := colours[system]; ok {
		return c
	}
	return "#666"
}

func text(out *strings.Builder, x, y float64, anchor, weight, s string) {
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">`, x, y, anchor, weight)
	_ = xml.EscapeText(out, []byte(s)) // a Builder takes everything
	fmt.Fprint(out, "</text>\n")
}
