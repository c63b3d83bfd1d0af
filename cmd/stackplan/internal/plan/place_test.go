package plan

import (
	"bytes"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// handmade makes a program of nodes with frames and edges, without sources. Each edge is
// {from, to, 1 if it may be a checkpoint}.
func handmade(frames []int, edges [][3]int, roots ...int) *Program {
	g := &graph{push: 8, byName: make(map[string][]int), tasks: make(map[int]bool), roots: roots}
	for i, f := range frames {
		g.nodes = append(g.nodes, node{name: string(rune('A' + i)), frame: f})
	}
	for i, e := range edges {
		x := edge{to: e[1], depth: frames[e[0]] + g.push}
		if e[2] == 1 {
			x.site = &site{id: len(g.sites), file: "f.go", line: i + 1, col: 1, offset: i, end: i + 1, pkg: "p", caller: g.nodes[e[0]].name}
			g.sites = append(g.sites, x.site)
		}
		g.nodes[e[0]].out = append(g.nodes[e[0]].out, x)
	}
	p := &Program{Package: "p", graph: g}
	g.p = p
	return p
}

// The graph has the shape of Figure 5: Main calls A and C; A calls B and D; C calls D and
// E; E calls C. The path by A and B is too long, that by C is not. Here they are called
// A, B, C, D, E and F in the order of the constants.
func TestFigure5(t *testing.T) {
	const main, a, b, c, d, e = 0, 1, 2, 3, 4, 5
	p := handmade([]int{200, 800, 1000, 200, 200, 300},
		[][3]int{{main, a, 1}, {main, c, 1}, {a, b, 1}, {a, d, 1}, {c, d, 1}, {c, e, 1}, {e, c, 1}}, main)
	plan := testenv.Need(p.Place(1100, 0))(t)
	got := make(map[string]Checkpoint)
	for _, x := range plan.Checkpoints {
		got[x.Caller+x.Callee] = x
	}
	want := map[string]Bytes{
		"FD": 200 + 8 + 300 + 8 + linkCost, // E calls C: C, E and the link of the next round
		"BC": 1000,                         // A calls B
		"AB": 800 + 8 + linkCost,           // Main calls A
	}
	for edge, need := range want {
		c, ok := got[edge]
		if !ok {
			t.Errorf("no checkpoint on %s; there are %v", edge, plan.Checkpoints)
		} else if c.Need != need {
			t.Errorf("the need of %s is %d, want %d", edge, c.Need, need)
		}
	}
	if len(got) != len(want) {
		t.Errorf("checkpoints %v, want %v", got, want)
	}
	if !got["FD"].BackEdge || got["BC"].BackEdge {
		t.Error("FD breaks the recursion, and BC does not; the plan says otherwise")
	}
}

// Where no call of a recursion can be a checkpoint, it is given up, and said so.
func TestRecursionWithoutCheckpoints(t *testing.T) {
	p := handmade([]int{100, 100, 100}, [][3]int{{0, 1, 1}, {1, 2, 0}, {2, 1, 0}}, 0)
	c, longest := p.place(10_000)
	testenv.Equal(t, len(c.broken), 1, "edges given up")
	// It goes round once more than it need.
	testenv.Equal(t, longest.length[0], Bytes(5*108), "the longest path takes")
}

// If one call of a recursion may be a checkpoint, that one is, though the search finds
// the recursion at another.
func TestRecursionThroughOthersCode(t *testing.T) {
	p := handmade([]int{100, 100, 100}, [][3]int{{0, 1, 0}, {1, 2, 1}, {2, 0, 0}}, 0)
	plan := testenv.Need(p.Place(10_000, 0))(t)
	if len(plan.Checkpoints) != 1 || plan.Checkpoints[0].Caller != "B" || !plan.Checkpoints[0].BackEdge {
		t.Errorf("checkpoints are %v, want one on the call of C by B", plan.Checkpoints)
	}
}

// What is called on the way to a panic only, as for its message, does not count in the bound, but in that with a panic.
func TestWayToAPanicIsInTheBoundWithAPanic(t *testing.T) {
	p := handmade([]int{100, 50, 3000, 700}, [][3]int{{0, 1, 0}, {0, 2, 0}, {2, 3, 0}}, 0)
	p.graph.nodes[1].why = "panics"
	p.graph.nodes[0].out[1].fatal = true
	r := &Report{Plan: new(Plan)}
	p.reportEntries(r)
	if e := r.Entries[0]; e.Bound != 100 || e.Panic != 3000+8+700+8 {
		t.Errorf("%+v; want a bound of 100, and 3,716 more with a panic", e)
	}
}

func TestRefusedCallsAreNoCheckpoints(t *testing.T) {
	p := handmade([]int{1000, 1000, 1000}, [][3]int{{0, 1, 1}, {1, 2, 1}}, 0)
	p.Refuse(func(file string, offset, end int) string { return map[bool]string{true: "not wanted"}[offset == 1] })
	plan := testenv.Need(p.Place(500, 0))(t)
	if len(plan.Checkpoints) != 1 || plan.Checkpoints[0].Need != 2008 {
		t.Errorf("checkpoints are %v, want one of 2008 B", plan.Checkpoints)
	}
	if len(plan.Refused) != 1 || plan.Refused[0].Reason != "not wanted" || plan.Refused[0].Caller != "B" || plan.Refused[0].Callee != "C" {
		t.Errorf("refused are %v, want the call of C by B", plan.Refused)
	}
}

// On random graphs all of whose calls may be checkpoints: no circle is left, no path
// between checkpoints is longer than MaxPath unless a single function is, and every
// stated length is what an exhaustive search finds.
func TestRandomGraphs(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		n := 2 + rng.Intn(9)
		frames := make([]int, n)
		for i := range frames {
			frames[i] = 8 * (1 + rng.Intn(60))
		}
		var edges [][3]int
		for range rng.Intn(3 * n) {
			edges = append(edges, [3]int{rng.Intn(n), rng.Intn(n), 1})
		}
		p := handmade(frames, edges, 0)
		maxPath := Bytes(600 + rng.Intn(1500))
		c, longest := p.place(maxPath)
		if len(c.broken) > 0 {
			t.Fatalf("seed %d: %d edges given up though all may be checkpoints", seed, len(c.broken))
		}
		if c.components() != nil {
			t.Fatalf("seed %d: a circle is left", seed)
		}
		for v := range p.graph.nodes {
			if !c.reach[v] {
				continue
			}
			want := exhaustive(p.graph, c, v, 0)
			testenv.MustEqual(t, longest.length[v], want, "seed %d: from %s", seed, p.graph.nodes[v].name)
			if want > maxPath && want > Bytes(frames[v]+p.graph.push+linkCost) {
				t.Fatalf("seed %d: a path of %d from %s, MaxPath is %d", seed, want, p.graph.nodes[v].name, maxPath)
			}
		}
	}
}

// exhaustive is the longest path from v to the next checkpoints, by trying all.
func exhaustive(g *graph, c *cutting, v, depth int) Bytes {
	if depth > 100 {
		panic("a circle")
	}
	most := Bytes(g.nodes[v].frame)
	for i := range g.nodes[v].out {
		e := &g.nodes[v].out[i]
		below := exhaustiveBelow(g, c, e, depth)
		most = max(most, Bytes(e.depth)+below)
	}
	return most
}

func exhaustiveBelow(g *graph, c *cutting, e *edge, depth int) Bytes {
	if !c.isCut(e) {
		return exhaustive(g, c, e.to, depth+1)
	}
	return linkCost
}

func TestAnnotations(t *testing.T) {
	a, err := ParseAnnotations("test", "# all\nbound a.F 1KB # one\nbound a.* 2KB\nends b.*.x*z\ncalls c.D e.F g.H\n")
	testenv.Must(t, err)
	if r := a.find("a.F", "bound"); r == nil || r.bound != 2048 {
		t.Errorf("a.F: %+v, want the later rule, 2048", r)
	}
	if r := a.find("b.Q.xyz", "bound", "ends"); r == nil || r.verb != "ends" {
		t.Errorf("b.Q.xyz: %+v, want ends", r)
	}
	testenv.Equal(t, a.find("b.xz", "ends"), nil, "b.xz")
	if r := a.find("c.D", "calls"); r == nil || fmt.Sprint(r.targets) != "[e.F g.H]" {
		t.Errorf("c.D: %+v, want two patterns", r)
	}
	for _, bad := range []string{"bound", "bound a.F", "bound a.F big", "ends a b", "what a.F 1KB"} {
		if _, err := ParseAnnotations("file.txt", "\n"+bad); err == nil || !strings.HasPrefix(err.Error(), "file.txt:2: ") {
			t.Errorf("%q: %v, want an error at file.txt:2", bad, err)
		}
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "512B": 512, "2KB": 2048, "2k": 2048, " 1MB ": 1 << 20, "3KiB": 3072} {
		testenv.Got(ParseBytes(text))(t, want, "%q", text)
	}
	for _, text := range []string{"", "B", "-1", "1.5KB", "2KMB", "99999999999"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
	for b, want := range map[Bytes]string{0: "0 B", 1000: "1000 B", 2048: "2 KB", 10368: "10.1 KB"} {
		testenv.Equal(t, b.String(), want, "%d is written", int64(b))
	}
}

// scene is a report with something of everything.
func scene() *Report {
	return &Report{
		Package: "example.com/shop", Go: "go1.26", Arch: "amd64", Functions: 4000, Reached: 321,
		Entries: []Entry{
			{Function: "example.com/shop.(*cart).serve", Kind: "task", Bound: 10368, Recursive: true, Panic: 1200, First: 640, Path: []Step{
				{"example.com/shop.(*cart).serve", 128, false}, {"example.com/shop.walk", 96, true}, {"example.com/shop.walk", 96, false}, {"encoding/json.Marshal", 10048, false}}},
			{Function: "main.main", Kind: "goroutine", Bound: 512, Panic: 700, First: 512, Path: []Step{{"main.main", 512, false}}},
		},
		Recursion: []Recursion{
			{Functions: []string{"example.com/shop.walk", "example.com/shop.walkAll"}, Checkpoints: 1},
			{Functions: []string{"encoding/json.a", "encoding/json.b", "encoding/json.c", "encoding/json.d", "encoding/json.e", "encoding/json.f", "encoding/json.g"}, Open: 2},
		},
		Plan: &Plan{Package: "example.com/shop", MaxPath: 2 << 10, MinChunk: 4 << 10, CallSites: 40, Longest: 10144, Checkpoints: []Checkpoint{
			{File: "/src/shop/cart.go", Offset: 100, End: 110, Line: 12, Col: 3, Caller: "example.com/shop.walkAll", Callee: "example.com/shop.walk", Need: 352, Site: "example.com/shop/cart.go:12:3", PackagePath: "example.com/shop", BackEdge: true},
			{File: "/src/shop/cart.go", Offset: 200, End: 222, Line: 30, Col: 9, Caller: "example.com/shop.walk", Callee: "a.F, b.<G>, c.H", Need: 10048, Site: "example.com/shop/cart.go:30:9", PackagePath: "example.com/shop"}},
			Entries: []EntryPlan{{"example.com/shop.(*cart).serve", 640}, {"main.main", 512}}},
		Parks:   []ParkCall{{"example.com/shop/cart.go:44:2", "example.com/shop.(*cart).serve", "netpoll.(*Conn).Read"}},
		Unknown: []string{"example.com/shop.do:7 calls a (int) error", "x.y:1 calls a ()"},
		NoFrame: []string{"runtime.memmove: assembly, 0 B", "runtime.mcall: bound 32 B"},
		Sweep:   []SweepRow{{512, 30, 40, 0.75, 10144}, {1024, 20, 40, 0.5, 10144}, {2048, 10, 40, 0.25, 10144}, {65536, 1, 40, 0.025, 20000}},
	}
}

func TestGolden(t *testing.T) {
	r := scene()
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":         func(w io.Writer) error { return r.WriteText(w, false) },
		"report-verbose.txt": func(w io.Writer) error { return r.WriteText(w, true) },
		"report.json":        r.WriteJSON,
	} {
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		testenv.Golden(t, name+".golden", got.Bytes())
	}
}

// Programs in testdata are modules of their own, which the workspace does not have.
func TestMain(m *testing.M) {
	os.Setenv("GOWORK", "off")
	os.Exit(m.Run())
}

// callerPart is what the frame of the measuring function holds below its variable, and
// the return address.
const callerPart = 128

// A bound that is stated is never exceeded, whether it is measured by the stack pointer
// or by what a run leaves of paint on the stack.
func TestBoundsAreNeverExceeded(t *testing.T) {
	dir, binary := realDir(t, "testdata", "depth"), filepath.Join(t.TempDir(), "depth")
	testenv.Run(t, dir, nil, "go", slices.Concat([]string{"build", "-o", binary}, SourceFlags, []string{"."})...)
	p := testenv.Need(Load(Config{Dir: dir, Binary: binary}))(t)
	full := p.bounds()
	// A stack that moves can't be measured, nor is there a bound for what the
	// runtime puts there by force only if there is room.
	env := []string{"GODEBUG=asyncpreemptoff=1,gcshrinkstackoff=1", "GOGC=20"}
	compared := 0
	for seed := range 4 {
		for line := range strings.Lines(testenv.Run(t, "", env, binary, fmt.Sprint(seed+1), "Shown")) {
			var name string
			var sp, paint, bound Bytes
			testenv.Must(t, testenv.Err(fmt.Sscan(line, &name, &sp, &paint)), "%s", line)
			for _, id := range p.graph.byName["main."+name] {
				bound = max(bound, full.length[id])
			}
			if bound == 0 {
				t.Fatalf("main.%s is not reached from where stacks begin", name)
			}
			// What is measured begins at a variable of the caller.
			if sp > bound+callerPart || paint > bound+callerPart {
				t.Errorf("%s took %v by the stack pointer and %v by paint, bound %v", name, sp, paint, bound)
			}
			if paint < 40 || sp > paint+64 {
				t.Errorf("%s: %v by the stack pointer, %v by paint: the measurement is wrong", name, sp, paint)
			}
			compared++
			t.Logf("seed %d: %s of %v", seed+1, line, bound)
		}
	}
	testenv.Equal(t, compared, 4*12, "bounds compared")
}
