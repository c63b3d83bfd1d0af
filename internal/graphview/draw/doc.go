// Package draw draws blocking graphs, those of package bgraph: as an SVG image (WriteSVG), or as
// input for the dot command of Graphviz (WriteDOT). Both show the same nodes, edges, figures and
// colours; dot places them anew.
//
// A box is a node: larger where more tasks wait. An arrow is an edge: wider where more tasks go.
// Colours are by Options.Color. Where there are more nodes than Options.MaxNodes, a last box stands
// for the others; Options.Prune leaves out rare edges.
//
// The same Snapshot gives the same drawing, and is not changed. The package needs no runtime and starts
// no goroutine; its functions may be called from any goroutine and never park.
package draw

import (
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
)

// Options say what a drawing shows. The zero value is useful.
type Options struct {
	// Color is what the colours of nodes and edges stand for: "cpu", the share of all
	// CPU time in the steps that begin at the node, or "wait", how long tasks wait at
	// it on average. "": "cpu".
	Color string
	// MaxNodes is how many nodes are drawn, 3 to 500: if there are more, the busiest,
	// and one that stands for all others. 0: 60.
	MaxNodes int
	// Prune leaves out edges that have less than this share (0 to 1) of all steps, and less
	// of all CPU time too, and nodes to which no other edge leads. 0: none. Each node that is drawn keeps an edge that leads
	// there, and one that leads away, if it has any.
	Prune float64
	// Findings are those of package lint. The nodes that they name are always drawn, with their number, from 1, in
	// the colour of their severity.
	Findings []lint.Finding
}

// layout places what is drawn. An unknown Color is an error.
func layout(s *bgraph.Snapshot, o Options) (*graphlayout.Drawing, error) {
	lo := graphlayout.Options{Color: o.Color, MaxNodes: o.MaxNodes, Prune: o.Prune}
	for i, f := range o.Findings {
		if f.Node != 0 {
			lo.Marks = append(lo.Marks, graphlayout.Mark{Node: f.Node, To: f.To, Step: f.IsStep(), Number: i + 1, Color: severityColor[f.Severity]})
		}
	}
	if err := lo.Validate(); err != nil {
		return nil, err
	}
	return graphlayout.Layout(s, lo), nil
}

// severityColor are colours on which white text is easy to read.
var severityColor = map[string]string{lint.SeverityError: "#cf222e", lint.SeverityWarning: "#bc4c00", lint.SeverityInfo: "#57606a"}
