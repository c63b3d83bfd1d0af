package plan

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// All steps that a program does are predicted, and some are known in advance.
func TestBlockingGraphHoldsTheRun(t *testing.T) {
	testenv.NeedsFull(t, "a server")
	if testing.Short() {
		t.Skip("loads a server")
	}
	dir := realDir(t, "testdata", "blocking")
	temp := t.TempDir()
	binary, dump := filepath.Join(temp, "blocking"), filepath.Join(temp, "dump")
	testenv.Run(t, dir, nil, "go", slices.Concat([]string{"build", "-o", binary}, SourceFlags, []string{"."})...)
	testenv.Run(t, "", nil, binary, dump)
	snapshot := testenv.Need(bgraph.ReadFile(dump))(t)
	p := testenv.Need(Load(Config{Dir: dir, Binary: binary}))(t)
	b := p.Blocking()
	possible := len(b.Edges)
	b.Compare(dump, snapshot, p)
	for _, e := range b.Edges {
		if !e.Possible {
			t.Errorf("%d steps from %+v to %+v were not predicted", e.Seen, b.Places[e.From], b.Places[e.To])
		}
	}
	if b.Seen < 20 || b.Seen+b.Unseen != possible {
		t.Errorf("%d steps seen, %d not, %d possible; want 20 seen or more, and the sum to fit", b.Seen, b.Unseen, possible)
	}
	seen := make(map[string]uint64)
	for _, e := range b.Edges {
		seen[function(b, e.From)+" "+function(b, e.To)] += e.Seen
	}
	for _, want := range []string{"handle deep", "handle handle", "deep handle", "echo echo", "run run", "start handle"} {
		if seen[want] == 0 {
			t.Errorf("no step %s was seen; there are %v", want, seen)
		}
	}
	for _, never := range []string{"deep echo", "echo deep", "work echo", "end start", "talk deep"} {
		if n, ok := seen[never]; ok {
			t.Errorf("the step %s is said to be possible, %d seen", never, n)
		}
	}
	// Of other lines nothing is predicted: the comparison can fail.
	for i := range snapshot.Nodes {
		for k := range snapshot.Nodes[i].Stack {
			snapshot.Nodes[i].Stack[k].Line += 1000
		}
	}
	bad := p.Blocking()
	bad.Compare(dump, snapshot, p)
	testenv.AtLeast(t, bad.Unexpected, 10, "unexpected steps in a dump with other lines")
}

func function(b *Blocking, place int) string {
	p := &b.Places[place]
	if p.Function == "" {
		return p.Name
	}
	name := p.Function[strings.LastIndexByte(p.Function, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	return name
}

// The bounds of a server's tasks are stated, and where they may park.
func TestReportOfAServer(t *testing.T) {
	testenv.NeedsFull(t, "a server")
	if testing.Short() || testenv.Race {
		t.Skip("loads a server")
	}
	p, err := Load(Config{Dir: filepath.Join("testdata", "blocking"), Rewrite: []string{"github.com/capriccio-go/capriccio/..."}})
	testenv.Must(t, err)
	for _, pkg := range p.Packages() {
		if strings.HasSuffix(pkg.PkgPath, "/task") || strings.HasSuffix(pkg.PkgPath, "/internal/engine") || strings.HasSuffix(pkg.PkgPath, "/internal/coro") {
			t.Errorf("%s may be rewritten, although checkpoints are made of it", pkg.PkgPath)
		}
	}
	r := testenv.Need(p.Report(4<<10, 4<<10))(t)
	entries := make(map[string]Entry)
	for _, e := range r.Entries {
		entries[e.Function[strings.LastIndexByte(e.Function, '/')+1:]] = e
	}
	for _, name := range []string{"main.run.func1", "main.talk.func1"} {
		e, ok := entries[name]
		// The deepest path is that on which a wait finds that its step was too long, and logs that.
		if !ok || e.Kind != "task" || e.Bound < 1000 || e.First > 32<<10 {
			t.Errorf("%s: %+v, want a task with a bound that needs 32 KB at most before the first checkpoint", name, e)
		}
		var sum Bytes
		for _, s := range e.Path {
			sum += s.Takes
		}
		testenv.Equal(t, sum, e.Bound, "the path from %s takes, its bound is %v", name, e.Bound)
	}
	parks := make(map[string]bool)
	for _, c := range r.Parks {
		parks[c.Caller+" "+c.Callees] = true
	}
	task := "github.com/capriccio-go/capriccio/task."
	for _, want := range []string{"main.deep " + task + "Yield", "main.deep main.deep", "main.handle " + task + "Sleep",
		"main.work " + task + "(*Chan).Recv", "main.handle " + task + "(*Mutex).Lock"} {
		if !parks[want] {
			t.Errorf("a task may park on %s, the report does not say so", want)
		}
	}
	if parks["main.run "+task+"Go"] {
		t.Error("task.Go is said to park")
	}
	last := 2.0
	for _, row := range r.Sweep {
		testenv.AtMost(t, row.Share, last+0.1, "at %v, of the calls are checkpoints, more than at less", row.MaxPath)
		last = row.Share
	}
}
