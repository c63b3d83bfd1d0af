package web

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
)

type layoutJSON struct {
	Width  float64     `json:"width"`
	Height float64     `json:"height"`
	Hidden int         `json:"hidden,omitempty"`
	Rare   int         `json:"rare,omitempty"`
	Nodes  []drawnJSON `json:"nodes"`
	Edges  []arrowJSON `json:"edges"`
}

type drawnJSON struct {
	ID    int      `json:"id"`
	X     float64  `json:"x"`
	Y     float64  `json:"y"`
	W     float64  `json:"w"`
	H     float64  `json:"h"`
	Now   int64    `json:"now,omitempty"`
	Lines [][3]any `json:"lines"`
}

type arrowJSON struct {
	From  int         `json:"from"`
	To    int         `json:"to"`
	Path  string      `json:"path"`
	Arrow string      `json:"arrow"`
	Width float64     `json:"width"`
	Label *[2]float64 `json:"label,omitempty"`
}

// traceShare is what share of all steps or of all CPU time an edge of a trace has that is drawn,
// as bgdump -prune is by default.
const traceShare = 0.02

func (p *Page) serveLayout(w http.ResponseWriter, r *http.Request) {
	p.look()
	text := r.URL.Query().Get("n")
	n, err := strconv.Atoi(text)
	if err != nil && text != "" || n < 0 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("n=%q; want the number of nodes to draw", clip(text)))
		return
	}
	v, err := p.view(r)
	if err != nil && !errors.Is(err, errNothing) {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	out := layoutJSON{Nodes: []drawnJSON{}, Edges: []arrowJSON{}}
	if v.at != nil {
		shown := v.stable()
		o := graphlayout.Options{MaxNodes: n}
		if shown.Kind == bgraph.KindGoroutines {
			o.Prune = traceShare
		}
		for i, f := range v.findings {
			if f.Node != 0 {
				o.Marks = append(o.Marks, graphlayout.Mark{Node: f.Node, To: f.To, Step: f.IsStep(), Number: i + 1})
			}
		}
		drawing := graphlayout.Layout(shown, o)
		number := p.places.begin(v)
		out.fill(drawing, number)
		number.end(0, 0)
	}
	reply(w, r, &out)
}

// stable is what is shown, with the nodes and edges where nothing happened in the
// period: as rare steps come and go, a drawing without them would never rest.
func (v *view) stable() *bgraph.Snapshot {
	if v.base == nil {
		return v.plan
	}
	s := *v.plan
	s.Span = v.shown.Span
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if shown := v.shown.Node(n.Key); shown != nil {
			*n = *shown
		} else {
			*n = bgraph.Node{Key: n.Key, Reason: n.Reason, Label: n.Label, Stack: n.Stack, Now: n.Now}
		}
	}
	s.Edges = make([]bgraph.Edge, 0, len(v.plan.Edges))
	eachEdge(v.shown, v.plan, func(shown, e *bgraph.Edge) {
		if shown != nil {
			s.Edges = append(s.Edges, *shown)
		} else {
			s.Edges = append(s.Edges, bgraph.Edge{From: e.From, To: e.To})
		}
	})
	return &s
}

func (out *layoutJSON) fill(d *graphlayout.Drawing, number *numbering) {
	out.Width, out.Height, out.Hidden = d.Width, d.Height, d.Hidden
	out.Rare = d.Rare
	for i := range d.Nodes {
		n := &d.Nodes[i]
		drawn := drawnJSON{ID: number.id(n.Key), X: n.X, Y: n.Y, W: n.W, H: n.H, Now: n.Now, Lines: make([][3]any, 0, len(n.Lines))}
		for _, l := range n.Lines {
			drawn.Lines = append(drawn.Lines, [3]any{clean(l.Text, 200), l.Size, l.Bold})
		}
		out.Nodes = append(out.Nodes, drawn)
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		arrow := arrowJSON{From: number.id(e.From), To: number.id(e.To), Path: e.Path, Arrow: e.Arrow, Width: e.Width}
		if e.Label != "" {
			arrow.Label = &[2]float64{e.LabelX, e.LabelY}
		}
		out.Edges = append(out.Edges, arrow)
	}
}
