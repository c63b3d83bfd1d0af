package main

import (
	"fmt"
	"strings"

	"github.com/capriccio-go/capriccio/internal/simfleet"
)

// A picture has a panel for each cause, with two lines: requests that were answered in each second, in parts of what they
// were before.
type picture struct{ panels []panel }

type panel struct {
	cause         simfleet.Cause
	with, without *simfleet.Result
}

func (p *picture) add(c simfleet.Cause, with, without *simfleet.Result) {
	p.panels = append(p.panels, panel{c, with, without})
}

const (
	columns           = 2
	wide, high        = 400, 190 // of a panel, with what is written at it
	left, right       = 44, 390  // the edges of what is drawn in it
	top, low          = 44, 160
	withRed, withBlue = "#c22f2f", "#2f6fc2"
)

func (p *picture) svg() string {
	var b strings.Builder
	height := (len(p.panels)+columns-1)/columns*high + 30
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", columns*wide, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", columns*wide, height)
	fmt.Fprintf(&b, `<text x="%d" y="20">requests answered in each second, in parts of before: <tspan fill="%s">Knot</tspan>, <tspan fill="%s">without its protection</tspan>; shaded: the cause</text>`+"\n", left, withRed, withBlue)
	for i, x := range p.panels {
		fmt.Fprintf(&b, `<g transform="translate(%d,%d)">`+"\n", i%columns*wide, 30+i/columns*high)
		x.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (x *panel) draw(b *strings.Builder) {
	seconds := len(x.with.Goodput())
	at := func(s float64) float64 { return left + s/float64(seconds)*(right-left) }
	up := func(share float64) float64 { return low - min(share, 1.4)/1.4*(low-top) }
	from, to := at(float64(x.with.From)), at(max(float64(x.with.To), float64(x.with.From)+0.3))
	fmt.Fprintf(b, `<rect x="%.0f" y="%d" width="%.1f" height="%d" fill="#f3eee6"/>`+"\n", from, top, to-from, low-top)
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#666">%s</text>`+"\n", left, top-6, x.cause.What)
	for s := 0; s < seconds; s += 10 {
		fmt.Fprintf(b, `<text x="%.0f" y="%d" text-anchor="middle">%d s</text>`+"\n", at(float64(s)), low+16, s)
	}
	for _, share := range []float64{0, 0.5, 1} {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ccc"/><text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", left, up(share), right, left-6, up(share)+4, share)
	}
	for _, l := range []struct {
		of     *simfleet.Result
		colour string
	}{{x.without, withBlue}, {x.with, withRed}} {
		var points []string
		for s, n := range l.of.Goodput() {
			points = append(points, fmt.Sprintf("%.1f,%.1f", at(float64(s)+0.5), up(float64(n)/l.of.Before)))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), l.colour)
	}
}
