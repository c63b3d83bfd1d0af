package graphlayout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func rectOf(n *Node) rect { return rect{n.X, n.Y, n.X + n.W, n.Y + n.H} }

func inside(r, outer rect) bool {
	return r.x0 >= outer.x0 && r.y0 >= outer.y0 && r.x1 <= outer.x1 && r.y1 <= outer.y1
}

// checkDrawing fails if anything hides anything else.
func checkDrawing(t *testing.T, d *Drawing) {
	t.Helper()
	page := rect{0, 0, d.Width, d.Height}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		if !inside(rectOf(n), page) {
			t.Errorf("node %s reaches out of the drawing", n.Name)
		}
		for k := range i {
			if rectOf(n).overlaps(rectOf(&d.Nodes[k])) {
				t.Errorf("%s and %s overlap", n.Name, d.Nodes[k].Name)
			}
		}
		for _, l := range n.Lines {
			w := Measure(l.Text, l.Size, l.Bold)
			if !inside(rect{l.X - w/2, l.Y - l.Size, l.X + w/2, l.Y + l.Size/4}, rectOf(n)) {
				t.Errorf("%q reaches out of its box %+v", l.Text, rectOf(n))
			}
		}
	}
	var labels []rect
	for i := range d.Edges {
		e := &d.Edges[i]
		if e.Label == "" {
			continue
		}
		r := rect{e.LabelX - e.LabelW/2, e.LabelY - e.LabelH/2, e.LabelX + e.LabelW/2, e.LabelY + e.LabelH/2}
		for k := range d.Nodes {
			if r.overlaps(rectOf(&d.Nodes[k])) {
				t.Errorf("label %s hides %s", e.Label, d.Nodes[k].Name)
			}
		}
		if slices.ContainsFunc(labels, r.overlaps) || !inside(r, page) {
			t.Errorf("label %s overlaps another or the border", e.Label)
		}
		labels = append(labels, r)
	}
}

// checkLines fails if a line runs through a box, or does not begin and end at its own.
func checkLines(t *testing.T, g *drawGraph) {
	t.Helper()
	for _, e := range g.edges {
		if e.from == e.to {
			continue
		}
		first, last := e.segments[0], e.segments[len(e.segments)-1]
		if first.y0 < e.upper.Y+e.upper.H || last.y1 > e.lower.Y {
			t.Errorf("%s does not go from below %s to above %s", e.Title, e.upper.Name, e.lower.Name)
		}
		if math.Abs(first.x0-e.upper.slot.x) > e.upper.W/2 || math.Abs(last.x1-e.lower.slot.x) > e.lower.W/2 {
			t.Errorf("%s misses its boxes", e.Title)
		}
		for i, c := range e.segments {
			if i > 0 && (c.x0 != e.segments[i-1].x1 || c.y0 != e.segments[i-1].y1) {
				t.Errorf("%s has a hole", e.Title)
			}
			for step := range 21 {
				x, y := c.at(float64(step) / 20)
				for _, n := range g.nodes {
					if x > n.X+0.5 && x < n.X+n.W-0.5 && y > n.Y+0.5 && y < n.Y+n.H-0.5 {
						t.Fatalf("%s runs through %s at %.1f %.1f", e.Title, n.Name, x, y)
					}
				}
			}
		}
	}
}

func laidOut(s *bgraph.Snapshot, o Options) *drawGraph {
	if err := o.Validate(); err != nil {
		panic(err)
	}
	return layOut(s, o)
}

func TestNothingOverlaps(t *testing.T) {
	for _, seed := range []uint64{rand.Uint64(), 13711200517316769460} { // two labels touched, and then were rounded
		r := rand.New(rand.NewPCG(seed, 0))
		for range 40 {
			nodes := 1 + r.IntN(60)
			s := graphcases.RandomGraph(r, nodes, r.IntN(4*nodes))
			g := laidOut(s, Options{})
			checkLines(t, g)
			checkDrawing(t, g.drawing())
			if t.Failed() {
				t.Fatalf("seed %d: %d nodes, %d edges", seed, len(s.Nodes), len(s.Edges))
			}
		}
	}
}

func TestNothingOverlapsInOddGraphs(t *testing.T) {
	all := graphcases.Odd()
	all["sample"] = graphcases.Sample()
	for what, s := range all {
		g := laidOut(s, Options{})
		checkLines(t, g)
		checkDrawing(t, g.drawing())
		if t.Failed() {
			t.Fatal(what)
		}
	}
}

// Edges lead down but for those that close a circle, and without circles all do.
func TestEdgesLeadDown(t *testing.T) {
	s := graphcases.RandomGraph(rand.New(rand.NewPCG(7, 8)), 40, 100)
	g := laidOut(s, Options{})
	for _, e := range g.edges {
		if e.from != e.to && e.Back != (e.from.layer > e.to.layer) {
			t.Errorf("%s: from layer %d to %d, back %v", e.Title, e.from.layer, e.to.layer, e.Back)
		}
	}
	s.Edges = slices.DeleteFunc(s.Edges, func(e bgraph.Edge) bool { return e.From >= e.To })
	for _, e := range Layout(s, Options{}).Edges {
		if e.Back {
			t.Errorf("%s leads back, though there are no circles", e.Title)
		}
	}
}

// The way that most tasks take leads down, from where they begin.
func TestSampleReadsFromTheTop(t *testing.T) {
	d := Layout(graphcases.Sample(), Options{})
	y := map[bgraph.Key]float64{}
	for _, n := range d.Nodes {
		y[n.Key] = n.Y
	}
	way := []bgraph.Key{bgraph.KeyStart, graphcases.SampleRead, graphcases.SampleMutex, graphcases.SampleRender, graphcases.SampleOffload, graphcases.SampleWrite, bgraph.KeyEnd}
	for i := range way[1:] {
		if y[way[i]] >= y[way[i+1]] {
			t.Errorf("%v is not above %v", way[i], way[i+1])
		}
	}
	for _, e := range d.Edges {
		if want := e.To == graphcases.SampleRead && e.From != bgraph.KeyStart || e.To == graphcases.SampleRecv && e.From == graphcases.SampleDisk; e.Back != want {
			t.Errorf("%s: back is %v", e.Title, e.Back)
		}
	}
}

func TestLayoutKeepsTheBusiest(t *testing.T) {
	s := graphcases.RandomGraph(rand.New(rand.NewPCG(9, 10)), 100, 300)
	for i := range s.Nodes {
		s.Nodes[i].Now, s.Nodes[i].Arrivals = int64(i), 1
	}
	for i := range s.Edges {
		s.Edges[i].CPU = bgraph.Times{}
	}
	d := Layout(s, Options{MaxNodes: 10})
	testenv.MustEqual(t, len(d.Nodes), 10, "nodes")
	var now int64
	var count uint64
	kinds := map[bgraph.Key]bool{}
	for _, n := range d.Nodes {
		now += n.Now
		kinds[n.Key] = true
		if n.Key == KeyOthers && (n.Name != "91 others" || n.Now < 1000) {
			t.Errorf("the others: %+v", n)
		}
	}
	testenv.Equal(t, now, int64(99*100/2), "tasks in all")
	for _, k := range []bgraph.Key{KeyOthers, bgraph.KeyStart, bgraph.KeyEnd, 100, 99} {
		if !kinds[k] {
			t.Errorf("node %v is not there", k)
		}
	}
	for _, e := range d.Edges {
		count += e.Count
		if !kinds[e.From] || !kinds[e.To] {
			t.Errorf("edge %s leads nowhere", e.Title)
		}
	}
	var all uint64
	for _, e := range s.Edges {
		if kinds[e.From] || kinds[e.To] {
			all += e.Count
		}
	}
	testenv.Equal(t, count, all, "steps are drawn")
}

func TestMaxNodesHasBounds(t *testing.T) {
	s := graphcases.RandomGraph(rand.New(rand.NewPCG(11, 12)), 520, 600)
	for o, want := range map[int]int{-1: defaultDrawn, 0: defaultDrawn, 1: leastDrawn, 4: 4, 1e9: mostDrawn} {
		testenv.Equal(t, len(Layout(s, Options{MaxNodes: o}).Nodes), want, "MaxNodes %d: N nodes", o)
	}
}

func TestTooManyEdgesAreCounted(t *testing.T) {
	s := graphcases.RandomGraph(rand.New(rand.NewPCG(13, 14)), 50, mostArrows+100)
	d := Layout(s, Options{})
	if len(d.Edges) != mostArrows || d.Hidden != 100 {
		t.Fatalf("%d edges drawn, %d hidden", len(d.Edges), d.Hidden)
	}
	least := d.Edges[0].Count
	for _, e := range d.Edges {
		least = min(least, e.Count)
	}
	rarer := 0
	for _, e := range s.Edges {
		if e.Count < least {
			rarer++
		}
	}
	testenv.AtMost(t, rarer, 100, "edges are rarer than all that are drawn, only 100 are hidden")
}

func TestDrawingIsJSON(t *testing.T) {
	d := Layout(graphcases.Sample(), Options{})
	text := testenv.Need(json.Marshal(d))(t)
	var back Drawing
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(&back, d) {
		t.Errorf("the Drawing changed on its way through JSON: %v", err)
	}
	if m := regexp.MustCompile(`"[a-z_]*[A-Z]\w*":`).Find(text); m != nil {
		t.Errorf("field %s is not in lower case", m)
	}
	if text, _ := json.Marshal(Layout((&bgraph.Snapshot{}), Options{})); bytes.Contains(text, []byte("null")) {
		t.Errorf("null in the drawing of nothing: %s", text)
	}
}

// spread is compared with what a naive search by small moves finds.
func TestSpreadIsTheLeastSumOfSquares(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	cost := func(x, want, weight []float64) (sum float64) {
		for i := range x {
			sum += weight[i] * (x[i] - want[i]) * (x[i] - want[i])
		}
		return sum
	}
	for range 200 {
		n := 1 + r.IntN(6)
		want, weight, gap := make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range n {
			want[i], weight[i], gap[i] = r.Float64()*100, 0.1+r.Float64(), r.Float64()*20
		}
		x := spread(want, weight, gap)
		for i := 1; i < n; i++ {
			if x[i]-x[i-1] < gap[i]-1e-9 {
				t.Fatalf("%v: too near at %d; gaps %v", x, i, gap)
			}
		}
		least := cost(x, want, weight)
		for range 300 {
			// Moving a row of neighbours keeps their gaps, and reaches all improvements.
			y, from := slices.Clone(x), r.IntN(n)
			to, by := from+r.IntN(n-from), r.NormFloat64()
			for i := from; i <= to; i++ {
				y[i] += by
			}
			if (from == 0 || y[from]-y[from-1] >= gap[from]) && (to == n-1 || y[to+1]-y[to] >= gap[to+1]) && cost(y, want, weight) < least-1e-9 {
				t.Fatalf("%v is not the best for %v, %v is better", x, want, y)
			}
		}
	}
}

func TestInversions(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 18))
	for range 100 {
		list := make([]int, r.IntN(40))
		for i := range list {
			list[i] = r.IntN(20)
		}
		want := 0
		for i := range list {
			for k := range i {
				if list[k] > list[i] {
					want++
				}
			}
		}
		testenv.MustEqual(t, inversions(list, 20), want, "inversions(%v)", list)
	}
}

// The order found has fewer crossings than the first; a tree has none at all.
func TestOrderHasFewCrossings(t *testing.T) {
	before := func(s *bgraph.Snapshot) *drawGraph {
		o := Options{}
		testenv.Must(t, o.Validate())
		g := pickDrawn(s, o)
		g.size()
		g.breakCycles()
		g.assignLayers()
		g.addSlots()
		return g
	}
	g := before(graphcases.RandomGraph(rand.New(rand.NewPCG(19, 20)), 60, 150))
	first := g.crossings()
	g.orderSlots()
	testenv.AtMost(t, g.crossings(), first*2/3, "crossings, %d before", first)
	tree := graphcases.RandomGraph(rand.New(rand.NewPCG(19, 20)), 40, 0)
	for i := range 39 {
		tree.Edges = append(tree.Edges, bgraph.Edge{From: bgraph.Key(i/3 + 1), To: bgraph.Key(i + 2), Count: uint64(100 * i % 17)})
	}
	g = before(tree)
	g.orderSlots()
	testenv.Equal(t, g.crossings(), 0, "crossings in a tree")
}

// The limits are ten times what it takes under the race detector, and more otherwise, to
// notice work that grows with the square only.
func TestLayoutIsFast(t *testing.T) {
	for _, c := range []struct {
		nodes, edges int
		limit        time.Duration
	}{{60, 200, 500 * time.Millisecond}, {200, 800, 5 * time.Second}} {
		s := graphcases.RandomGraph(rand.New(rand.NewPCG(21, 22)), c.nodes, c.edges)
		best := time.Duration(math.MaxInt64)
		for try := 0; try < 3 && best > c.limit; try++ {
			before := graphcases.CPUTime(t)
			Layout(s, Options{MaxNodes: c.nodes})
			best = min(best, graphcases.CPUTime(t)-before)
		}
		testenv.AtMost(t, best, c.limit, "%d nodes, %d edges take, more than %v", c.nodes, c.edges, c.limit)
	}
}

func BenchmarkLayout(b *testing.B) {
	for _, c := range [][2]int{{12, 19}, {60, 200}, {200, 800}} {
		s := graphcases.RandomGraph(rand.New(rand.NewPCG(21, 22)), c[0], c[1])
		b.Run(fmt.Sprintf("nodes=%d/edges=%d", c[0], c[1]), func(b *testing.B) {
			for b.Loop() {
				Layout(s, Options{MaxNodes: c[0]})
			}
		})
	}
}

// Parts that nothing connects do not stand in one endless row, and small ones fill the room
// beside a high one.
func TestPartsStandInRows(t *testing.T) {
	s := &bgraph.Snapshot{}
	for k := bgraph.Key(300); k < 315; k++ {
		s.Nodes = append(s.Nodes, bgraph.Node{Key: k, Reason: "read", Label: "of a chain", Arrivals: 5})
		s.Edges = append(s.Edges, bgraph.Edge{From: k, To: k + 1, Count: 5})
	}
	for i := range 40 {
		a, b := bgraph.Key(100+2*i), bgraph.Key(101+2*i)
		s.Nodes = append(s.Nodes, bgraph.Node{Key: a, Reason: "read", Label: "reader", Arrivals: 5}, bgraph.Node{Key: b, Reason: "write", Label: "writer", Arrivals: 5})
		s.Edges = append(s.Edges, bgraph.Edge{From: a, To: b, Count: 5})
	}
	d := Layout(s, Options{MaxNodes: 100})
	var chain float64
	for _, n := range d.Nodes {
		if n.Key >= 300 && n.Key <= 315 {
			chain = max(chain, n.Y+n.H)
		}
	}
	if len(d.Nodes) != 96 || d.Width > packedWidth || d.Height > chain+loopReach {
		t.Errorf("%d nodes, %v wide, %v high; want 96, at most %v wide, as high as the chain, %v", len(d.Nodes), d.Width, d.Height, packedWidth, chain)
	}
	checkDrawing(t, d)
}

// Where no step that is drawn begins or ends, neither does the drawing.
func TestEndsWithoutStepsAreNotDrawn(t *testing.T) {
	s := &bgraph.Snapshot{
		Nodes: []bgraph.Node{{Key: bgraph.KeyStart, Arrivals: 5}, {Key: bgraph.KeyEnd, Arrivals: 5}, {Key: 100, Reason: "read", Now: 1}},
		Edges: []bgraph.Edge{{From: bgraph.KeyStart, To: 100, Count: 1}},
	}
	if d := Layout(s, Options{}); len(d.Nodes) != 2 || d.Nodes[0].Key != bgraph.KeyStart {
		t.Errorf("%+v; want start and the node that it leads to", d.Nodes)
	}
}

// What findings name is drawn, however few boxes are wanted: nodes, and both ends of steps.
func TestMarksAreAlwaysDrawn(t *testing.T) {
	s := &bgraph.Snapshot{Span: 1e9}
	for k := bgraph.Key(10); k < 30; k++ {
		s.Nodes = append(s.Nodes, bgraph.Node{Key: k, Reason: "read", Now: int64(100 - k), Arrivals: 10})
		s.Edges = append(s.Edges, bgraph.Edge{From: k, To: 10 + (k+1)%20, Count: uint64(1000 - k)})
	}
	s.Sort()
	step := Mark{Node: 27, To: 10 + (27+1)%20, Step: true, Number: 1}
	d := Layout(s, Options{MaxNodes: 3, Marks: []Mark{step, {Node: 29, Number: 2}, {Node: 25, To: 10 + (25+1)%20, Number: 3}}})
	var numbers []int
	drawn := map[bgraph.Key]bool{}
	for i := range d.Nodes {
		drawn[d.Nodes[i].Key] = true
		if m := d.Nodes[i].Mark; m != nil {
			numbers = append(numbers, m.Number)
		}
	}
	for _, k := range []bgraph.Key{step.Node, step.To, 29, 25} {
		testenv.Equal(t, drawn[k], true, "drawn is %v", k)
	}
	slices.Sort(numbers)
	testenv.EqualSlices(t, numbers, []int{2, 3}, "numbers beside boxes")
	marked := 0
	for i := range d.Edges {
		if m := d.Edges[i].Mark; m != nil && m.Node == d.Edges[i].From && m.To == d.Edges[i].To {
			marked++
			if d.Edges[i].MarkX == 0 && d.Edges[i].MarkY == 0 {
				t.Errorf("the number of step %v has no place", d.Edges[i].From)
			}
		}
	}
	testenv.Equal(t, marked, 2, "marked edges")
}
