package tune

import (
	"bytes"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func site(name string, need plan.Bytes, direct, links, nested, room uint64) SiteStats {
	return SiteStats{Name: name, Need: need, Direct: direct, Links: links, Nested: nested, NestedRoom: nested * room,
		InternalWaste: links * 300, ExternalWaste: links * 1000}
}

func run() *Stats {
	return &Stats{Peak: 64 << 10, MinChunk: 1024, Sites: []SiteStats{
		site("a.go:1:1", 2000, 100_000, 50, 50, 500),       // misses 1500: saved by 4 KB
		site("a.go:2:1", 3000, 50_000, 10_000, 9_000, 700), // misses 2300: saved by 4 KB
		site("b.go:3:1", 30_000, 0, 100, 0, 0),             // never on a chunk
		site("b.go:4:1", 500, 400_000, 0, 0, 0),
	}}
}

func TestMinChunkIsWhereLinksEnd(t *testing.T) {
	a, err := Chunks(run())
	testenv.Must(t, err)
	if a.MinChunk != 4096 {
		t.Errorf("MinChunk is %v, want 4096", a.MinChunk)
	}
	if got := a.Chunks[0].Links; got != 10_150 {
		t.Errorf("%d links with the MinChunk of the run, want all", got)
	}
	if got := a.Chunks[len(a.Chunks)-1].Links; got != 1_100 {
		t.Errorf("%d links with the largest MinChunk, want 1100, those that were not nested", got)
	}
}

func TestNoNestedLinksMeansTheSmallest(t *testing.T) {
	a, err := Chunks(&Stats{Sites: []SiteStats{site("a.go:1:1", 9000, 10, 1000, 0, 0)}})
	testenv.Must(t, err)
	if a.MinChunk != smallest {
		t.Errorf("MinChunk is %v, want %v", a.MinChunk, smallest)
	}
}

func TestRunsThatTellNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		stats Stats
		want  string
	}{
		{"no sites", Stats{}, "-profile"},
		{"never passed", Stats{Sites: []SiteStats{{Name: "a", Outside: 5}}}, "no task has passed"},
	} {
		if _, err := Chunks(&c.stats); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
}

// plans have fewer checkpoints with every value of MaxPath.
func plans(names ...[]string) (all []*plan.Plan) {
	for i, maxPath := range Paths()[:len(names)] {
		p := &plan.Plan{MaxPath: maxPath, Longest: maxPath + 100}
		for _, n := range names[i] {
			p.Checkpoints = append(p.Checkpoints, plan.Checkpoint{Site: n})
		}
		all = append(all, p)
	}
	return all
}

func TestMaxPathIsTheBend(t *testing.T) {
	a, err := Chunks(run())
	testenv.Must(t, err)
	all := []string{"a.go:1:1", "a.go:2:1", "b.go:3:1", "b.go:4:1"}
	err = a.AddPaths(run(), plans(
		append(all[:1:1], "never:1:1"), // the run was not built with 512 B
		all,
		all[:3],
		all[1:3],
		all[1:3],
	))
	testenv.Must(t, err)
	if a.MaxPath != 4096 {
		t.Errorf("MaxPath is %v, want 4096: from there on, nothing is saved", a.MaxPath)
	}
	if a.Paths[0].Known {
		t.Error("the run tells of a MaxPath that is smaller than its own")
	}
	var b bytes.Buffer
	testenv.Must(t, a.WriteText(&b))
	testenv.Golden(t, "advice.txt", b.Bytes())
}

func TestPlansOfAnotherProgram(t *testing.T) {
	a, err := Chunks(run())
	testenv.Must(t, err)
	if err := a.AddPaths(run(), plans([]string{"other.go:1:1"})); err == nil {
		t.Error("checkpoints of another program were taken")
	}
}
