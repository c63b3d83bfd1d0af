package graphview

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// By wait, only colours and their legend are others.
func TestWriteSVG(t *testing.T) {
	draw := func(color string) []byte {
		var b bytes.Buffer
		testenv.Must(t, WriteSVG(&b, sampleSnapshot(), DrawOptions{Color: color}))
		return b.Bytes()
	}
	cpu, wait := draw(colorCPU), draw(colorWait)
	testenv.Golden(t, "graph-cpu.svg.golden", cpu)
	colors := regexp.MustCompile(`#[0-9a-f]{6}`)
	shapes := func(svg []byte) string {
		drawn, _, _ := bytes.Cut(svg, []byte("<defs>"))
		return colors.ReplaceAllString(string(drawn), "")
	}
	testenv.Equal(t, shapes(cpu), shapes(wait), "by wait, other things are drawn than by CPU")
	if a, b := colors.FindAll(cpu, -1), colors.FindAll(wait, -1); reflect.DeepEqual(a, b) || !bytes.Contains(wait, []byte(">colour: mean wait<")) {
		t.Error("by wait, the colours or what is said of them are the same as by CPU")
	}
}

func TestWriteDOT(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, WriteDOT(&b, sampleSnapshot(), DrawOptions{}))
	testenv.Golden(t, "graph.dot.golden", b.Bytes())
}

// svgDocument reads what is drawn back from an SVG image.
type svgDocument struct {
	XMLName xml.Name
	Titles  []string
	Rects   int
	Paths   int
}

func readSVG(t *testing.T, text []byte) svgDocument {
	t.Helper()
	var doc svgDocument
	in := xml.NewDecoder(bytes.NewReader(text))
	var within []string
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		testenv.Must(t, err, "not well-formed")
		switch token := token.(type) {
		case xml.StartElement:
			within = append(within, token.Name.Local)
			switch token.Name.Local {
			case "svg":
				doc.XMLName = token.Name
			case "rect":
				doc.Rects++
			case "path":
				doc.Paths++
			case "script", "style", "image", "foreignObject", "use", "a":
				t.Errorf("element %s", token.Name.Local)
			}
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					t.Errorf("attribute %s", a.Name.Local)
				}
			}
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.CharData:
			checkPlain(t, string(token))
			if len(within) > 0 && within[len(within)-1] == "title" {
				doc.Titles = append(doc.Titles, string(token))
			}
		}
	}
	return doc
}

func TestSVGIsWellFormedAndStandsForItself(t *testing.T) {
	all := oddSnapshots()
	all["sample"] = sampleSnapshot()
	for what, s := range all {
		var b bytes.Buffer
		testenv.Must(t, WriteSVG(&b, s, DrawOptions{}))
		doc := readSVG(t, b.Bytes())
		testenv.Equal(t, doc.XMLName.Space, "http://www.w3.org/2000/svg", "%s: %v is no SVG", what, doc.XMLName)
		d := Layout(s, DrawOptions{})
		testenv.Equal(t, doc.Paths, 2*len(d.Edges), "%s: N paths: two for each edge", what)
		testenv.AtLeast(t, doc.Rects, len(d.Nodes)+1, "%s: N boxes for %d nodes and the legend", what, len(d.Nodes))
		if len(doc.Titles) < len(d.Nodes)+len(d.Edges)+1 {
			t.Errorf("%s: %d titles for %d nodes and %d edges", what, len(doc.Titles), len(d.Nodes), len(d.Edges))
		}
		testenv.Equal(t, regexp.MustCompile(`NaN|Inf|e\+`).FindString(pathsOf(d)), "", "%s: among the coordinates", what)
	}
}

func pathsOf(d *Drawing) string {
	var b strings.Builder
	for _, e := range d.Edges {
		fmt.Fprintln(&b, e.Path, e.Arrow, e.Width, e.LabelX, e.LabelY)
	}
	for _, n := range d.Nodes {
		fmt.Fprintln(&b, n.X, n.Y, n.W, n.H)
	}
	return b.String()
}

func TestSVGOfNothingSaysSo(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, WriteSVG(&b, &bgraph.Snapshot{}, DrawOptions{}))
	if !strings.Contains(b.String(), "Nothing has waited yet.") {
		t.Error("an empty image")
	}
}

func TestUnknownColor(t *testing.T) {
	s := sampleSnapshot()
	for name, err := range map[string]error{
		"SVG": WriteSVG(io.Discard, s, DrawOptions{Color: "heat"}),
		"DOT": WriteDOT(io.Discard, s, DrawOptions{Color: "heat"}),
	} {
		testenv.ErrorSays(t, err, `"heat"; there are cpu, wait`, "%s: error", name)
	}
	testenv.Equal(t, Layout(s, DrawOptions{Color: "heat"}).Color, colorCPU, "Layout took the colours for")
}

// Graphviz takes what is written, whatever names there are, and finds all nodes and
// edges.
func TestDotAcceptsDOT(t *testing.T) {
	dot, err := exec.LookPath("dot")
	if err != nil {
		t.Skip("Graphviz is not installed")
	}
	all := oddSnapshots()
	all["sample"] = sampleSnapshot()
	for what, s := range all {
		var b bytes.Buffer
		testenv.Must(t, WriteDOT(&b, s, DrawOptions{}))
		checkPlain(t, strings.ReplaceAll(b.String(), "\t", ""))
		cmd := exec.CommandContext(t.Context(), dot, "-Tjson")
		cmd.Stdin = &b
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil || strings.Contains(complaints.String(), "yntax error") {
			t.Errorf("%s: dot: %v %s", what, err, &complaints)
			continue
		}
		var got struct {
			Objects []struct{ Tooltip string }
			Edges   []struct{ Label string }
		}
		testenv.Must(t, json.Unmarshal(out, &got))
		d := Layout(s, DrawOptions{})
		if len(got.Objects) != len(d.Nodes) || len(got.Edges) != len(d.Edges) {
			t.Errorf("%s: dot found %d nodes and %d edges, want %d and %d", what, len(got.Objects), len(got.Edges), len(d.Nodes), len(d.Edges))
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"a":       `"a"`,
		`say "x"`: `"say \"x\""`,
		`back\`:   `"back\\"`,
		"a\nb\\n": `"a\nb\\n"`,
		"\x1b":    "\"\ufffd\"",
	} {
		testenv.Equal(t, quoted(in), want, "quoted(%q)", in)
	}
}

// Text has enough contrast everywhere on both scales, which get darker all the way.
func TestColors(t *testing.T) {
	for _, color := range []string{colorCPU, colorWait} {
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
		testenv.AtLeast(t, contrast(svgMuted, page), 3.9, "text in %s on %s has contrast", svgMuted, page)
	}
}

func TestHeat(t *testing.T) {
	cpu, wait := heatScale{color: colorCPU, most: 0.5}, heatScale{color: colorWait}
	for _, c := range []struct {
		got, want float64
	}{
		{cpu.heat(0.5, 0), 1}, {cpu.heat(0.125, 0), 0.5}, {cpu.heat(0, 1e9), 0}, {heatScale{color: colorCPU}.heat(0, 0), 0},
		{wait.heat(1, 0), 0}, {wait.heat(0, 1e7), 0.5}, {wait.heat(0, 1e18), 1}, {wait.heat(0, 1), 0},
	} {
		testenv.Equal(t, c.got, c.want)
	}
}
