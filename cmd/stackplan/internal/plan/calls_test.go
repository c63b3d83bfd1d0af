package plan

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Load is LoadContext without an end.
func Load(cfg Config) (*Program, error) { return LoadContext(context.Background(), cfg) }

// loadCalls loads the program in testdata/calls once for all tests, until one changes it.
var loadCalls = sync.OnceValues(loadCallsAnew)

func loadCallsAnew() (*Program, error) {
	return Load(Config{Dir: filepath.Join("testdata", "calls")})
}

func program(t *testing.T) *Program {
	t.Helper()
	p := testenv.Need(loadCalls())(t)
	return p
}

// wanted reads the comments in testdata/calls/main.go.
func wanted(t *testing.T) map[string]string {
	f := testenv.Need(os.Open(filepath.Join("testdata", "calls", "main.go")))(t)
	defer f.Close()
	comment := regexp.MustCompile(`// calls: (.*)$`)
	function := regexp.MustCompile(`^func (?:\((?:\w+ )?(\*?)(\w+)\) )?(\w+)`)
	want := make(map[string]string)
	var next, current string
	closures := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		m := comment.FindStringSubmatch(line)
		if fn := function.FindStringSubmatch(line); fn != nil {
			closures = 0
			current = fn[3]
			if fn[1] != "" {
				current = "(*" + fn[2] + ")." + fn[3]
			} else if fn[2] != "" {
				current = fn[2] + "." + fn[3]
			}
			if next != "" {
				want[current] = next
			}
			next = ""
		} else if m != nil && strings.HasPrefix(line, "//") {
			next = m[1]
			continue
		}
		if strings.Contains(line, "func(") && !strings.HasPrefix(line, "func") && m != nil {
			closures++
			want[current+".func"+string(rune('0'+closures))] = m[1]
		}
	}
	for name, calls := range want {
		all := strings.Fields(calls)
		sort.Strings(all)
		want[name] = strings.TrimPrefix(strings.Join(all, " "), "-")
	}
	return want
}

// shapes are type arguments.
var shapes = regexp.MustCompile(`\[.*\]`)

func TestCallsOfEveryKind(t *testing.T) {
	p := program(t)
	got := make(map[string]map[string]bool)
	for i := range p.graph.nodes {
		n := &p.graph.nodes[i]
		name, own := strings.CutPrefix(n.name, "main.")
		if !own {
			continue
		}
		name = shapes.ReplaceAllString(name, "")
		if got[name] == nil {
			got[name] = make(map[string]bool)
		}
		for _, e := range n.out {
			to, own := strings.CutPrefix(p.graph.nodes[e.to].name, "main.")
			// A method table holds wrappers, which the compiler makes.
			if own && !(to == name && p.bin.Funcs[e.to].File == "") {
				got[name][shapes.ReplaceAllString(to, "")] = true
			}
		}
	}
	want := wanted(t)
	if len(want) < 25 {
		t.Fatalf("%d functions have a comment, want 25 or more", len(want))
	}
	for name, calls := range want {
		if got[name] == nil {
			if name != "unused.area" { // the linker leaves it out
				t.Errorf("main.%s is not in the binary", name)
			}
			continue
		}
		var all []string
		for to := range got[name] {
			all = append(all, to)
		}
		sort.Strings(all)
		testenv.Equal(t, strings.Join(all, " "), calls, "main.%s calls", name)
	}
}

func TestRecursionIsFound(t *testing.T) {
	r := testenv.Need(program(t).Report(2<<10, 4<<10))(t)
	var got []string
	for _, x := range r.Recursion {
		if strings.HasPrefix(x.Functions[0], "main.") {
			got = append(got, strings.Join(x.Functions, " "))
			if x.Checkpoints == 0 || x.Open != 0 {
				t.Errorf("%v: %d checkpoints, %d open; want 1 or more, none open", x.Functions, x.Checkpoints, x.Open)
			}
		}
	}
	sort.Strings(got)
	if want := []string{"main.even main.odd", "main.recursive"}; strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("recursions are %q, want %q", got, want)
	}
}

func TestRootsAreMainAndGoroutines(t *testing.T) {
	p := program(t)
	var got []string
	for _, r := range p.graph.roots {
		if name, own := strings.CutPrefix(p.graph.nodes[r].name, "main."); own {
			got = append(got, name)
		}
	}
	if want := "main started starts.func1"; !strings.HasPrefix(strings.Join(got, " "), "main") || !strings.Contains(strings.Join(got, " "), "started") || len(got) < 3 {
		t.Errorf("roots are %q, want %s", got, want)
	}
}

// Every checkpoint is a call expression of the source, and large is far enough away from
// everything for the calls of it to be checkpoints.
func TestCheckpointsAreCalls(t *testing.T) {
	plan := testenv.Need(program(t).Place(2<<10, 4<<10))(t)
	text := testenv.Need(os.ReadFile(filepath.Join("testdata", "calls", "main.go")))(t)
	got := make(map[string]Checkpoint)
	for _, c := range plan.Checkpoints {
		if filepath.Base(c.File) != "main.go" || c.End > len(text) {
			t.Fatalf("%+v is not in main.go", c)
		}
		expr := string(text[c.Offset:c.End])
		if !strings.HasSuffix(expr, ")") {
			t.Errorf("%s is %q, want a call", c.Site, expr)
		}
		testenv.Equal(t, strings.Count(string(text[:c.Offset]), "\n")+1, c.Line, "%s is on line N, says %d", expr, c.Line)
		got[expr] = c
	}
	for _, expr := range []string{"recursive(n-1)", "large(n)", "large(1)", "twice(large, n)"} {
		if _, ok := got[expr]; !ok {
			t.Errorf("%s is no checkpoint", expr)
		}
	}
	for _, expr := range []string{"leaf(n)", "leaf(n + m)"} {
		if _, ok := got[expr]; ok {
			t.Errorf("%s is a checkpoint", expr)
		}
	}
	if !got["recursive(n-1)"].BackEdge || got["large(1)"].BackEdge {
		t.Error("the call in recursive breaks a recursion, that of large does not; the plan says otherwise")
	}
	if need := got["large(1)"].Need; need < 8192 || need > 8192+512 {
		t.Errorf("large needs %v, want a little over 8192 B", need)
	}
}

func TestBadSizes(t *testing.T) {
	testenv.Fails(t, testenv.Err(program(t).Place(0, 0)), "MaxPath 0: no error")
	testenv.Fails(t, testenv.Err(program(t).Place(1, -1)), "MinChunk -1: no error")
}

// Several calls may begin in one place; each can be a checkpoint or refused for itself.
func TestCallsThatBeginInOnePlace(t *testing.T) {
	p := program(t)
	links := func() (ends []int) {
		plan := testenv.Need(p.Place(256, 0))(t)
		sites := make(map[string]bool)
		for _, c := range plan.Checkpoints {
			if sites[c.Site] {
				t.Errorf("two checkpoints are called %s", c.Site)
			}
			sites[c.Site] = true
			if c.Caller == "main.links" {
				ends = append(ends, c.End-c.Offset)
			}
		}
		return ends
	}
	inner, outer := len("c.link(1)"), len("c.link(1).link(2)")
	if got := links(); !slices.Equal(got, []int{inner, outer}) {
		t.Fatalf("the checkpoints in links are %v bytes long, want %d and %d", got, inner, outer)
	}
	t.Cleanup(func() { loadCalls = sync.OnceValues(loadCallsAnew) })
	p.Refuse(func(_ string, offset, end int) string { return map[bool]string{true: "outer"}[end-offset == outer] })
	if got := links(); !slices.Equal(got, []int{inner}) {
		t.Errorf("without the outer one, checkpoints in links are %v bytes long, want %d", got, inner)
	}
}

func TestLoadErrors(t *testing.T) {
	for name, cfg := range map[string]Config{
		"is no main package": {Dir: filepath.Join("testdata", "depth", "wrap")},
		"no such":            {Dir: filepath.Join("testdata", "calls"), Annotations: "missing.txt"},
		"no package of":      {Dir: filepath.Join("testdata", "calls"), Rewrite: []string{"example.com/other"}},
	} {
		if _, err := Load(cfg); err == nil || !strings.Contains(err.Error(), name) && !os.IsNotExist(err) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
}

// The analysis does not depend on the machine that it runs on.
func TestArm64(t *testing.T) {
	testenv.NeedsFull(t, "a standard library for another processor")
	t.Setenv("GOARCH", "arm64")
	t.Setenv("CGO_ENABLED", "0")
	p := testenv.Need(loadCallsAnew())(t)
	testenv.Equal(t, p.Arch, "arm64", "Arch")
	plan := testenv.Need(p.Place(2<<10, 4<<10))(t)
	callers := make(map[string]Bytes)
	for _, c := range plan.Checkpoints {
		callers[c.Caller+" "+c.Callee] = c.Need
	}
	if need := callers["main.initialise main.large"]; need < 8192 || need > 8192+512 {
		t.Errorf("large needs %v, want a little over 8192 B; checkpoints are %v", need, callers)
	}
	if _, ok := callers["main.recursive main.recursive"]; !ok {
		t.Errorf("recursive has no checkpoint; there are %v", callers)
	}
}

func realDir(t *testing.T, path ...string) string {
	t.Helper()
	dir := testenv.Need(RealDir(filepath.Join(path...)))(t)
	return dir
}

// Sources that are reached through a symbolic link are found in the binary.
func TestFolderBehindALink(t *testing.T) {
	testenv.NeedsFull(t, "one more program")
	root := realDir(t, "..", "..", "..", "..")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Skip(err)
	}
	t.Setenv("PWD", link)
	p := testenv.Need(Load(Config{Dir: filepath.Join(link, "cmd", "stackplan", "internal", "plan", "testdata", "calls")}))(t)
	got := testenv.Need(p.Place(512, 4096))(t)
	want := testenv.Need(program(t).Place(512, 4096))(t)
	// Some tests refuse calls of the program that they share.
	if n := len(want.Checkpoints); n == 0 || len(got.Checkpoints) < n {
		t.Errorf("%d checkpoints, without the link %d", len(got.Checkpoints), n)
	}
}
