package graphlayout

import (
	"fmt"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Options say what a drawing shows. Package draw documents the fields, in its own Options.
type Options struct {
	Color    string
	MaxNodes int
	Prune    float64
	Marks    []Mark
}

// A Mark is what a finding is about, and is always drawn: a node, or a step from there if To is not 0.
type Mark struct {
	Node, To bgraph.Key
	Step     bool   // it is about the step, rather than about Node and what is done from there
	Number   int    // of the finding, from 1
	Color    string // of its severity
}

// Values of Options.Color.
const (
	ColorCPU  = "cpu"
	ColorWait = "wait"
)

const (
	defaultDrawn = 60
	leastDrawn   = 3
	mostDrawn    = 500
	mostArrows   = 1000 // edges that are drawn
)

// Validate fills in defaults. An unknown Color is an error.
func (o *Options) Validate() error {
	switch o.Color {
	case "":
		o.Color = ColorCPU
	case ColorCPU, ColorWait:
	default:
		return fmt.Errorf("bgraph: no colours for %q; there are %s, %s", o.Color, ColorCPU, ColorWait)
	}
	if o.MaxNodes <= 0 {
		o.MaxNodes = defaultDrawn
	}
	o.MaxNodes = min(max(o.MaxNodes, leastDrawn), mostDrawn)
	return nil
}

// A Drawing is a graph with a place for everything, ready to be drawn: tasks move from
// the top to the bottom, and back up where they go in circles. Lengths are in pixels of
// CSS; x grows to the right, y to the bottom. The same Snapshot gives the same Drawing.
type Drawing struct {
	Width   float64     `json:"width"`
	Height  float64     `json:"height"`
	Title   string      `json:"title"`    // the program, and how busy it was
	Color   string      `json:"color"`    // what colours stand for: "cpu" or "wait"
	Scale   []ColorStop `json:"scale"`    // the colours of nodes, from the lowest figure to the highest
	MostNow int64       `json:"most_now"` // the most tasks at one node; KeyOthers, which is several nodes, does not count
	Hidden  int         `json:"hidden"`   // edges that are not drawn, as there are too many or they are rare
	Rare    int         `json:"rare"`     // nodes that are not drawn, as no edge that is drawn leads there
	Nodes   []Node      `json:"nodes"`    // from the top to the bottom, and from left to right
	Edges   []Edge      `json:"edges"`    // by From, then To
}

// A ColorStop is a figure and its colour.
type ColorStop struct {
	Fill string `json:"fill"` // as in CSS
	Text string `json:"text"` // the figure: "12.5%", "1.00ms"
}

// KeyOthers is the key, in a Drawing, of the node that stands for those not drawn.
const KeyOthers bgraph.Key = 0

// A Node is a box.
type Node struct {
	Key      bgraph.Key   `json:"key"`
	Name     string       `json:"name"`
	Reason   string       `json:"reason"` // of the Node; "others" for KeyOthers
	X        float64      `json:"x"`      // of the left upper corner
	Y        float64      `json:"y"`
	W        float64      `json:"w"`
	H        float64      `json:"h"`
	Now      int64        `json:"now"`      // tasks there
	Arrivals float64      `json:"arrivals"` // per second
	Wait     bgraph.Nanos `json:"wait"`     // on average
	Share    float64      `json:"share"`    // 0 to 1: of all CPU time, in the steps that begin there
	Heat     float64      `json:"heat"`     // 0 to 1: position on the scale of colours
	Fill     string       `json:"fill"`     // as in CSS
	Ink      string       `json:"ink"`      // for the text
	Lines    []TextLine   `json:"lines"`    // what is written in the box
	Title    string       `json:"title"`    // figures, in several lines
	Mark     *Mark        `json:"-"`        // of the first finding that is about it; nil: none
}

// A TextLine is centred at X, with its baseline at Y.
type TextLine struct {
	Text string  `json:"text"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Size float64 `json:"size"` // of the font
	Bold bool    `json:"bold"`
}

// An Edge is an arrow.
type Edge struct {
	From   bgraph.Key   `json:"from"`
	To     bgraph.Key   `json:"to"`
	Path   string       `json:"path"`  // the line, as in the d attribute of an SVG path
	Arrow  string       `json:"arrow"` // its head, a path to be filled
	Count  uint64       `json:"count"`
	Rate   float64      `json:"rate"`   // per second
	Share  float64      `json:"share"`  // 0 to 1: of all CPU time
	CPU    bgraph.Nanos `json:"cpu"`    // of a step, on average
	Width  float64      `json:"width"`  // of the line, by Count
	Heat   float64      `json:"heat"`   // 0 to 1: position on the scale of colours
	Stroke string       `json:"stroke"` // as in CSS
	Back   bool         `json:"back"`   // leads up, closing a circle
	Label  string       `json:"label"`  // "" if there is no room for one
	LabelX float64      `json:"label_x"`
	LabelY float64      `json:"label_y"` // of the middle of the label
	LabelW float64      `json:"label_w"`
	LabelH float64      `json:"label_h"`
	Title  string       `json:"title"` // figures, in several lines
	Mark   *Mark        `json:"-"`     // of the first finding that is about the step; nil: none
	MarkX  float64      `json:"-"`     // of the middle of its number
	MarkY  float64      `json:"-"`
}

// Layout places the nodes and edges of the Snapshot in layers, so that most steps lead
// from one layer to a lower one and few lines cross (Sugiyama, Tagawa and Toda 1981). An
// unknown Options.Color is taken for "cpu". It does not park.
func Layout(s *bgraph.Snapshot, o Options) *Drawing {
	if o.Validate() != nil {
		o.Color = ColorCPU
		_ = o.Validate()
	}
	return layOut(s, o).drawing()
}

// layOut chooses the nodes and edges to draw and places them.
func layOut(s *bgraph.Snapshot, o Options) *drawGraph {
	g := pickDrawn(s, o)
	g.size()
	parts := g.split()
	for _, p := range parts {
		p.breakCycles()
		p.assignLayers()
		p.addSlots()
		p.orderSlots()
		p.placeSlots()
		p.placeLayers()
	}
	g.pack(parts)
	for _, p := range parts {
		p.route()
		p.placeLabels()
		g.layers = append(g.layers, p.layers...)
	}
	return g
}

// A drawGraph is a graph on its way to a Drawing.
type drawGraph struct {
	s      *bgraph.Snapshot
	o      Options
	names  map[bgraph.Key]string
	nodes  []*drawNode
	edges  []*drawEdge
	hidden int
	rare   int // nodes that prune left out
	scale  heatScale

	layers [][]*drawSlot // from the top, each from left to right
	tops   []float64     // of each layer
	bottom []float64
	left   float64 // where the part begins, see pack
	width  float64 // where it ends on the right
	height float64
}

// A drawNode is a node of the drawing. One of them may stand for all nodes that are not drawn.
type drawNode struct {
	Node
	out, in []*drawEdge // self loops are in neither
	loop    *drawEdge   // the self loop, if there is one
	cpu     float64     // of the steps that begin here
	there   float64     // see words.Occupancy
	stands  int         // number of nodes that it stands for
	oldest  bgraph.Nanos
	waits   bgraph.Times
	readies bgraph.Times
	left    uint64 // waits that have ended
	wakers  string
	named   bool // by a finding, itself or as the end of a step
	layer   int
	mark    int // of breakCycles
	slot    *drawSlot
}

// A drawEdge is an edge that is drawn.
type drawEdge struct {
	Edge
	from, to *drawNode
	upper    *drawNode // ends by layer; upper is to if the edge leads back
	lower    *drawNode
	cpu      float64
	cpuMax   bgraph.Nanos
	overruns uint64
	changes  string
	chain    []*drawSlot // from upper to lower, both included
	xUpper   float64     // where it leaves upper
	xLower   float64
	gap      float64 // to the lines beside it at the ends; at most portGap
	segments []curve
}

// drawing collects what has been found out.
func (g *drawGraph) drawing() *Drawing {
	d := &Drawing{
		Width: g.width, Height: g.height, Title: g.title(), Color: g.o.Color, Hidden: g.hidden, Rare: g.rare,
		Scale: g.scale.stops(), Nodes: []Node{}, Edges: []Edge{},
	}
	for _, layer := range g.layers {
		for _, slot := range layer {
			if slot.node != nil {
				d.Nodes = append(d.Nodes, slot.node.Node)
				if slot.node.Key != KeyOthers {
					d.MostNow = max(d.MostNow, slot.node.Now)
				}
			}
		}
	}
	for _, e := range g.edges {
		e.placeMark()
		d.Edges = append(d.Edges, e.Edge)
	}
	slices.SortFunc(d.Edges, compareDrawn)
	return d
}

func (g *drawGraph) title() string {
	lines := words.Head(g.s)
	return words.OrUnknown(g.s.Program.Name) + ": " + lines[1]
}
