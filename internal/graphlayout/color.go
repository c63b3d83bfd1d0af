package graphlayout

import (
	"fmt"
	"math"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A heatScale turns figures into colours. The ramps grow darker throughout, so that they
// can be told apart without seeing hues.
type heatScale struct {
	color string
	most  float64 // share of CPU at the hot end
}

type rgb [3]float64

// ramps of boxes, cold to hot: light for most of the way, as on light colours text is
// easiest to read.
var ramps = map[string][]rgb{
	ColorCPU:  {{253, 246, 230}, {252, 222, 172}, {249, 188, 116}, {241, 142, 66}, {150, 46, 6}},
	ColorWait: {{236, 244, 252}, {202, 224, 244}, {160, 200, 234}, {112, 168, 218}, {18, 70, 132}},
}

// lineRamps are in the middle between black and white, to be seen on either.
var lineRamps = map[string][]rgb{
	ColorCPU:  {{140, 149, 159}, {196, 150, 98}, {224, 122, 40}, {214, 77, 14}},
	ColorWait: {{140, 149, 159}, {112, 152, 192}, {66, 140, 206}, {30, 118, 214}},
}

// Muted is a colour of text and frames that is readable on white and on black.
const Muted = "#6e7781"

// othersFill is on no scale.
const othersFill = "#dfe3e8"

// The waits at the ends of the scale, in powers of 10 of nanoseconds.
const (
	coldWait = 4  // 10µs
	hotWait  = 10 // 10s
)

// heat is the position of a figure on the scale: the share of CPU by its square root,
// as a few steps use most of it, and the wait by its logarithm.
func (h heatScale) heat(share float64, wait bgraph.Nanos) float64 {
	if h.color == ColorWait {
		if wait <= 0 {
			return 0
		}
		return min(max((math.Log10(float64(wait))-coldWait)/(hotWait-coldWait), 0), 1)
	}
	return min(max(math.Sqrt(words.Ratio(share, h.most)), 0), 1)
}

func (h heatScale) fill(heat float64) string   { return ramped(ramps[h.color], heat) }
func (h heatScale) stroke(heat float64) string { return ramped(lineRamps[h.color], heat) }

// stops are five colours at equal distances on the scale, with the figures that they stand for.
func (h heatScale) stops() []ColorStop {
	const n = 4
	var out []ColorStop
	for i := range n + 1 {
		heat := float64(i) / n
		text := words.Percent(h.most * heat * heat)
		if h.color == ColorWait {
			text = words.Duration(bgraph.Nanos(math.Pow(10, coldWait+heat*(hotWait-coldWait))))
		}
		out = append(out, ColorStop{Fill: h.fill(heat), Text: text})
	}
	return out
}

func ramped(ramp []rgb, at float64) string {
	at = min(max(at, 0), 1) * float64(len(ramp)-1)
	i := min(int(at), len(ramp)-2)
	var c [3]int
	for k := range c {
		c[k] = int(math.Round(ramp[i][k] + (ramp[i+1][k]-ramp[i][k])*(at-float64(i))))
	}
	return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2])
}

// inks for text, the most pleasant first; one of them has enough contrast with any
// colour.
var inks = []string{"#1f2328", "#ffffff", "#000000"}

const enoughContrast = 4.5 // as WCAG 2 asks for

func inkOn(fill string) string {
	for _, ink := range inks {
		if contrast(ink, fill) >= enoughContrast {
			return ink
		}
	}
	return inks[0]
}

// contrast is that of WCAG 2, 1 to 21.
func contrast(a, b string) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(color string) float64 {
	var c [3]int
	if n, err := fmt.Sscanf(color, "#%02x%02x%02x", &c[0], &c[1], &c[2]); n != 3 || err != nil {
		return 0
	}
	linear := func(v int) float64 {
		if x := float64(v) / 255; x > 0.04045 {
			return math.Pow((x+0.055)/1.055, 2.4)
		} else {
			return x / 12.92
		}
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}
