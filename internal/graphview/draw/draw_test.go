package draw

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

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// By wait, only colours and their legend are others.
func TestWriteSVG(t *testing.T) {
	draw := func(color string) []byte {
		var b bytes.Buffer
		testenv.Must(t, WriteSVG(&b, graphcases.Sample(), Options{Color: color}))
		return b.Bytes()
	}
	cpu, wait := draw(graphlayout.ColorCPU), draw(graphlayout.ColorWait)
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

// What findings name is drawn with their number, however rare it is, in the colour of the severity.
func TestFindingsAreDrawn(t *testing.T) {
	place := func(k bgraph.Key, name string, now int64) bgraph.Node {
		return bgraph.Node{Key: k, Reason: "select", Stack: []bgraph.Frame{{Function: "main." + name}}, Now: now, Arrivals: 1}
	}
	edge := func(from, to bgraph.Key, n uint64) bgraph.Edge {
		return bgraph.Edge{From: from, To: to, Count: n, CPU: bgraph.Times{Count: n, Sum: bgraph.Nanos(n)}}
	}
	s := &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9, Nodes: []bgraph.Node{place(20, "busy", 1), place(21, "answer", 1), place(22, "leaves", 3404), place(23, "rare", 1), place(24, "unseen", 1)},
		Edges: []bgraph.Edge{edge(20, 21, 1e6), edge(21, 20, 1e6), edge(21, 23, 2), edge(23, 20, 2)}}
	for _, found := range []bool{false, true} {
		o := Options{Prune: 0.02}
		if found {
			o.Findings = []lint.Finding{{Severity: lint.SeverityWarning}, {Severity: lint.SeverityError, Node: 22}, {Severity: lint.SeverityWarning, Node: 20, To: 23, Name: "select main.busy → select main.rare"}}
			s.Edges = append(s.Edges, edge(20, 23, 1))
			s.Sort()
		}
		var b bytes.Buffer
		testenv.Must(t, WriteSVG(&b, s, o))
		for text, want := range map[string]bool{">main.busy<": true, ">main.leaves<": found, ">main.rare<": found, ">main.unseen<": false,
			">2</text>": found, ">3</text>": found, "#cf222e": found, "#bc4c00": found, "busy → select main.rare": found, "rare → select main.busy": found} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("findings %v: %s is there: %v\n%s", found, text, !want, b.String())
			}
		}
	}
}

func TestWriteDOT(t *testing.T) {
	var b bytes.Buffer
	testenv.Must(t, WriteDOT(&b, graphcases.Sample(), Options{}))
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
			graphcases.CheckPlain(t, string(token))
			if len(within) > 0 && within[len(within)-1] == "title" {
				doc.Titles = append(doc.Titles, string(token))
			}
		}
	}
	return doc
}

func TestSVGIsWellFormedAndStandsForItself(t *testing.T) {
	all := graphcases.Odd()
	all["sample"] = graphcases.Sample()
	for what, s := range all {
		var b bytes.Buffer
		testenv.Must(t, WriteSVG(&b, s, Options{}))
		doc := readSVG(t, b.Bytes())
		testenv.Equal(t, doc.XMLName.Space, "http://www.w3.org/2000/svg", "%s: %v is no SVG", what, doc.XMLName)
		d := graphlayout.Layout(s, graphlayout.Options{})
		testenv.Equal(t, doc.Paths, 2*len(d.Edges), "%s: N paths: two for each edge", what)
		testenv.AtLeast(t, doc.Rects, len(d.Nodes)+1, "%s: N boxes for %d nodes and the legend", what, len(d.Nodes))
		if len(doc.Titles) < len(d.Nodes)+len(d.Edges)+1 {
			t.Errorf("%s: %d titles for %d nodes and %d edges", what, len(doc.Titles), len(d.Nodes), len(d.Edges))
		}
		testenv.Equal(t, regexp.MustCompile(`NaN|Inf|e\+`).FindString(pathsOf(d)), "", "%s: among the coordinates", what)
	}
}

func pathsOf(d *graphlayout.Drawing) string {
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
	testenv.Must(t, WriteSVG(&b, &bgraph.Snapshot{}, Options{}))
	testenv.Contains(t, b.String(), "Nothing has waited yet.", "an empty image")
}

func TestUnknownColor(t *testing.T) {
	s := graphcases.Sample()
	for name, err := range map[string]error{
		"SVG": WriteSVG(io.Discard, s, Options{Color: "heat"}),
		"DOT": WriteDOT(io.Discard, s, Options{Color: "heat"}),
	} {
		testenv.ErrorSays(t, err, `"heat"; there are cpu, wait`, "%s: error", name)
	}
}

// Graphviz takes what is written, whatever names there are, and finds all nodes and
// edges.
func TestDotAcceptsDOT(t *testing.T) {
	dot := testenv.Program(t, "dot")
	all := graphcases.Odd()
	all["sample"] = graphcases.Sample()
	for what, s := range all {
		var b bytes.Buffer
		testenv.Must(t, WriteDOT(&b, s, Options{}))
		graphcases.CheckPlain(t, strings.ReplaceAll(b.String(), "\t", ""))
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
		d := graphlayout.Layout(s, graphlayout.Options{})
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
