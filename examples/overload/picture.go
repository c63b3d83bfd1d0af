package main

import (
	"fmt"
	"strings"
	"time"
)

// A picture has a line for each server: answers in time over the seconds.
type picture struct {
	phase    time.Duration
	capacity float64 // requests a second
	names    []string
	lines    [][]int64 // by bucket
}

func (p *picture) add(name string, inTime []int64) {
	p.names, p.lines = append(p.names, name), append(p.lines, inTime)
}

const (
	width, height         = 720, 300
	left, right, top, low = 60, 590, 40, 255 // the edges of what is drawn in
)

var colours = map[string]string{"knot": "#c22f2f", "net-http": "#2f6fc2"}

func (p *picture) svg() string {
	seconds := 3 * p.phase.Seconds()
	x := func(s float64) float64 { return left + s/seconds*(right-left) }
	y := func(rate float64) float64 { return low - rate/(1.25*p.capacity)*(low-top) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="20">requests a second that are answered within 100 ms</text>`+"\n", left)
	for i, text := range []string{"0.8 × capacity", "2 × capacity", "0.8 × capacity"} {
		from := x(float64(i) * p.phase.Seconds())
		if i == 1 {
			fmt.Fprintf(&b, `<rect x="%.0f" y="%d" width="%.0f" height="%d" fill="#f3eee6"/>`+"\n", from, top, x(2*p.phase.Seconds())-from, low-top)
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" fill="#666">%s</text>`+"\n", from+8, top+14, text)
	}
	for s := 0.0; s <= seconds; s += 2 {
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" text-anchor="middle">%.0f s</text>`+"\n", x(s), low+18, s)
	}
	for _, share := range []float64{0, 0.5, 1} {
		at := y(share * p.capacity)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ccc"/><text x="%d" y="%.1f" text-anchor="end">%.0f</text>`+"\n", left, at, right, left-6, at+4, share*p.capacity)
	}
	for i, line := range p.lines {
		var points []string
		for j, n := range line {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x((float64(j)+0.5)*bucket.Seconds()), y(float64(n)/bucket.Seconds())))
		}
		colour := colours[p.names[i]]
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colour)
		fmt.Fprintf(&b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", right+12, top+40+20*i, colour, p.names[i])
	}
	b.WriteString("</svg>\n")
	return b.String()
}
