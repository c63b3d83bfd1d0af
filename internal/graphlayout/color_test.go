package graphlayout

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Text has enough contrast everywhere on both scales, which get darker all the way.
func TestColors(t *testing.T) {
	for _, color := range []string{ColorCPU, ColorWait} {
		h := heatScale{color: color, most: 1}
		for i := range 1001 {
			heat := float64(i) / 1000
			fill := h.fill(heat)
			if c := contrast(fill, inkOn(fill)); c < enoughContrast {
				t.Fatalf("%s %.3f: contrast of %s on %s is %.2f", color, heat, inkOn(fill), fill, c)
			}
			if i > 0 && luminance(fill) > luminance(h.fill(heat-0.001)) {
				t.Fatalf("%s: %s at %.3f is lighter than before", color, fill, heat)
			}
			for _, page := range []string{"#ffffff", "#0d1117"} {
				if c := contrast(h.stroke(heat), page); c < 2.2 {
					t.Fatalf("%s: line %s can't be seen on %s: contrast %.2f", color, h.stroke(heat), page, c)
				}
			}
		}
	}
	for _, page := range []string{"#ffffff", "#0d1117"} {
		testenv.AtLeast(t, contrast(Muted, page), 3.9, "text in %s on %s has contrast", Muted, page)
	}
}

func TestUnknownColorIsCPU(t *testing.T) {
	testenv.Equal(t, Layout(graphcases.Sample(), Options{Color: "heat"}).Color, ColorCPU, "Layout took the colours for")
}

func TestHeat(t *testing.T) {
	cpu, wait := heatScale{color: ColorCPU, most: 0.5}, heatScale{color: ColorWait}
	for _, c := range []struct {
		got, want float64
	}{
		{cpu.heat(0.5, 0), 1}, {cpu.heat(0.125, 0), 0.5}, {cpu.heat(0, 1e9), 0}, {heatScale{color: ColorCPU}.heat(0, 0), 0},
		{wait.heat(1, 0), 0}, {wait.heat(0, 1e7), 0.5}, {wait.heat(0, 1e18), 1}, {wait.heat(0, 1), 0},
	} {
		testenv.Equal(t, c.got, c.want)
	}
}
