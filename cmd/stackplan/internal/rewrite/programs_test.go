package rewrite

import (
	"bytes"
	"fmt"
	"go/token"
	"hash/fnv"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const loadMode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
	packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedTypesSizes |
	packages.NeedModule | packages.NeedForTest

const (
	programsDir = "./testdata/programs"
	goldenDir   = "./testdata/golden"
	escapesDir  = "./testdata/escapes"
)

// rewriters are Rewriters by folder; what the packages import is loaded once.
var rewriters = map[string]*Rewriter{}

// load makes a Rewriter of the package in a folder, once for all tests.
func load(t testing.TB, folder string) *Rewriter {
	t.Helper()
	if rewriters[folder] == nil {
		folders := []string{programsDir, goldenDir}
		if folder == escapesDir {
			folders = []string{escapesDir}
		}
		pkgs := testenv.Need(packages.Load(&packages.Config{Mode: loadMode}, folders...))(t)
		if n := packages.PrintErrors(pkgs); n > 0 {
			t.Fatalf("%d errors in %q", n, folders)
		}
		for _, p := range pkgs {
			rewriters["./testdata/"+path.Base(p.PkgPath)] = New(Config{Packages: []*packages.Package{p}})
		}
	}
	return rewriters[folder]
}

// everyCall is a plan with a checkpoint at each call of the packages that can have one.
func everyCall(r *Rewriter, need func(site string) plan.Bytes) (list []plan.Checkpoint) {
	for _, f := range r.files {
		if r.refuseFile(f) != "" {
			continue
		}
		for at, s := range f.sites {
			if r.Refused(f.name, at.offset, at.end) != "" {
				continue
			}
			p := f.pkg.Fset.PositionFor(s.call.Lparen, false)
			site := fmt.Sprintf("%s:%d:%d", filepath.Base(f.name), p.Line, p.Column)
			list = append(list, plan.Checkpoint{
				File: f.name, Offset: at.offset, End: at.end, Line: p.Line, Col: p.Column, Site: site, Need: need(site),
			})
		}
	}
	slices.SortFunc(list, byPlace)
	return list
}

// Needs for which a checkpoint makes the call itself, links always, or either.
func always(string) plan.Bytes { return 0 }
func never(string) plan.Bytes  { return 48 << 10 }
func mixed(site string) plan.Bytes {
	h := fnv.New32()
	h.Write([]byte(site))
	return plan.Bytes(h.Sum32()%4) * 16 << 10
}

// build builds a package with an overlay, which may be none.
func build(t testing.TB, r *Result, pkg, name string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	args := append([]string{"build", "-o", bin}, flags...)
	if r != nil {
		args = append(args, "-overlay", overlayOf(t, r))
	}
	testenv.Run(t, "", nil, "go", append(args, pkg)...)
	return bin
}

func overlayOf(t testing.TB, r *Result) string {
	t.Helper()
	name := testenv.Need(r.WriteOverlay(t.TempDir()))(t)
	return name
}

// output runs a program; what it says must not depend on checkpoints.
func output(t testing.TB, bin string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", bin, args, err, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

// same compares what two runs have said.
func same(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	program := ""
	for i := range w {
		if strings.HasPrefix(w[i], "== ") {
			program = w[i]
		}
		if i >= len(g) || g[i] != w[i] {
			t.Errorf("%s: line %d with checkpoints:\n%s\nwithout:\n%s", program, i+1, strings.Join(g[min(i, len(g)):min(i+3, len(g))], "\n"), strings.Join(w[i:min(i+3, len(w))], "\n"))
			return
		}
	}
	t.Errorf("with checkpoints it says more:\n%s", strings.Join(g[len(w):], "\n"))
}

func TestProgramsSayTheSame(t *testing.T) {
	r := load(t, programsDir)
	want := output(t, build(t, nil, programsDir, "plain"))
	if strings.Count(want, "\n") < 200 {
		t.Fatalf("the programs say too little:\n%s", want)
	}
	for _, c := range []struct {
		name    string
		need    func(string) plan.Bytes
		profile bool
	}{{"direct", always, false}, {"linked", never, false}, {"mixed", mixed, false}, {"profiled", mixed, true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "mixed" {
				testenv.NeedsFull(t, "one more build")
			}
			r.cfg.Profile = c.profile
			done := testenv.Need(r.Files(everyCall(r, c.need), false))(t)
			testenv.AtLeast(t, len(done.Calls), 350, "calls were rewritten")
			bin := build(t, done, programsDir, c.name)
			same(t, output(t, bin), want)
			got, links, _ := strings.Cut(output(t, bin, "task"), "links: ")
			same(t, got, want)
			testenv.Equal(t, strings.TrimSpace(links) != "0", c.name != "direct", "%s chunks were linked", strings.TrimSpace(links))
		})
	}
	r.cfg.Profile = false
}

// TestMarkedCalls checks what becomes of the calls that say it in a comment before
// their parenthesis.
func TestMarkedCalls(t *testing.T) {
	r := load(t, programsDir)
	found := 0
	for _, f := range r.files {
		if r.refuseFile(f) != "" {
			continue
		}
		marks := map[token.Pos]string{}
		for _, g := range f.syntax.Comments {
			for _, c := range g.List {
				if text, ok := strings.CutPrefix(c.Text, "/*"); ok {
					marks[c.End()] = strings.TrimSuffix(text, "*/")
				}
			}
		}
		for at, s := range f.sites {
			mark := marks[s.call.Lparen]
			if mark == "" {
				mark = marks[s.call.Lparen-1] // gofmt puts a space
			}
			if mark == "" {
				continue
			}
			found++
			got := "checkpoint"
			if why := r.Refused(f.name, at.offset, at.end); why != "" {
				got = "refused: " + why
			}
			if !strings.HasPrefix(got, mark) && !(strings.HasPrefix(mark, "refused: ") && strings.Contains(got, mark[len("refused: "):])) {
				t.Errorf("%s is %q, want %q", f.pkg.Fset.Position(s.call.Lparen), got, mark)
			}
		}
	}
	testenv.AtLeast(t, found, 80, "marks were found")
}

// TestGolden shows what rewritten code looks like.
func TestGolden(t *testing.T) {
	r := load(t, goldenDir)
	res := testenv.Need(r.Files(everyCall(r, func(string) plan.Bytes { return 1000 }), false))(t)
	testenv.MustEqual(t, len(res.Files), 1, "files were rewritten")
	for _, got := range res.Files {
		testenv.Golden(t, "golden/golden.txt", got)
	}
}

func TestVetLikesRewrittenPrograms(t *testing.T) {
	testenv.NeedsFull(t, "go vet, twice")
	r := load(t, programsDir)
	done := testenv.Need(r.Files(everyCall(r, mixed), false))(t)
	// The sources have a self-made list of arguments to append to, and so on; what is
	// compared is what vet says of them without checkpoints.
	plain, _ := exec.Command("go", "vet", programsDir).CombinedOutput()
	text, _ := exec.Command("go", "vet", "-overlay", overlayOf(t, done), programsDir).CombinedOutput()
	if string(text) != string(plain) {
		t.Errorf("go vet says of the rewritten programs:\n%s\nof the others:\n%s", text, plain)
	}
}

func TestRaceDetectorIsQuiet(t *testing.T) {
	testenv.NeedsFull(t, "a build with the race detector")
	if !testenv.HaveC() || testing.Short() {
		t.Skip("go build -race needs a C compiler, and some time")
	}
	r := load(t, programsDir)
	done := testenv.Need(r.Files(everyCall(r, never), false))(t)
	want := output(t, build(t, nil, programsDir, "plain"))
	bin := build(t, done, programsDir, "race", "-race")
	same(t, output(t, bin), want)
	got, _, _ := strings.Cut(output(t, bin, "task"), "links: ")
	same(t, got, want)
}

// TestLinesStay compares the lines that coverage and a stack trace show.
func TestLinesStay(t *testing.T) {
	testenv.NeedsFull(t, "builds with coverage")
	r := load(t, programsDir)
	done := testenv.Need(r.Files(everyCall(r, always), false))(t)
	covered := func(res *Result) string {
		bin := build(t, res, programsDir, "cover", "-cover")
		dir := t.TempDir()
		testenv.Run(t, "", []string{"GOCOVERDIR=" + dir}, bin)
		profile := filepath.Join(dir, "profile")
		testenv.Run(t, "", nil, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile)
		text := testenv.Need(os.ReadFile(profile))(t)
		return string(text)
	}
	// Blocks are file:line.column,line.column statements count.
	block := regexp.MustCompile(`(?m)^.*/(\w+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)
	lines := func(profile string) map[string]bool {
		ran := map[string]bool{}
		for _, m := range block.FindAllStringSubmatch(profile, -1) {
			key := m[1] + ":" + m[2] + "-" + m[3]
			ran[key] = ran[key] || m[4] != "0"
		}
		return ran
	}
	with, without := lines(covered(done)), lines(covered(nil))
	if len(without) < 100 {
		t.Fatalf("%d blocks are covered", len(without))
	}
	for key, ran := range without {
		if got, known := with[key]; known && got != ran {
			t.Errorf("block %s ran %v with checkpoints, %v without", key, got, ran)
		}
	}
	missing := 0
	for key := range without {
		if _, known := with[key]; !known {
			missing++
		}
	}
	testenv.AtMost(t, missing, len(without)/20, "of %d blocks are at other lines with checkpoints", len(without))
}

// compiled is what the compiler says about escapes.
func compiled(t testing.TB, r *Rewriter, res *Result, pkg string) ([]byte, string) {
	t.Helper()
	args := slices.Concat([]string{"build", "-o", os.DevNull}, plan.SourceFlags, r.GCFlags())
	if res != nil {
		args = append(args, "-overlay", overlayOf(t, res))
	}
	dir := testenv.Need(os.Getwd())(t)
	return []byte(testenv.Run(t, "", nil, "go", append(args, pkg)...)), dir
}

// settle leaves out checkpoints until none moves something to the heap.
func settle(t testing.TB, r *Rewriter, pkg string) {
	t.Helper()
	r.SetBefore(compiled(t, r, nil, pkg))
	for round := 0; ; round++ {
		res := testenv.Need(r.Files(everyCall(r, always), true))(t)
		text, dir := compiled(t, r, res, pkg)
		n := r.Blame(text, dir, res)
		t.Logf("round %d: %d checkpoints, %d move something to the heap", round, len(res.Calls), n)
		if n == 0 {
			return
		}
		if round == 8 {
			t.Fatal("there is no end to it")
		}
	}
}

// TestNothingMovesToTheHeap runs a program that counts its allocations and compares the
// time of checkpoints.
func TestNothingMovesToTheHeap(t *testing.T) {
	testenv.NeedsFull(t, "the compiler says what escapes")
	r := load(t, escapesDir)
	settle(t, r, escapesDir)
	res := testenv.Need(r.Files(everyCall(r, always), false))(t)
	testenv.AtLeast(t, len(res.Calls), 10, "checkpoints are left")
	want, plain, _ := strings.Cut(output(t, build(t, nil, escapesDir, "plain")), "ns: ")
	got, checked, _ := strings.Cut(output(t, build(t, res, escapesDir, "rewritten")), "ns: ")
	same(t, got, want)
	ns := number(t, checked) - number(t, plain)
	t.Logf("a checkpoint with room takes %.2f ns", ns)
	// It takes 3 ns on a machine that does nothing else.
	testenv.AtMost(t, ns, 12, "ns that a checkpoint with room takes")
	at := map[string]bool{} // that move something to the heap
	for _, f := range r.files {
		for span := range f.sites {
			if strings.HasPrefix(r.Refused(f.name, span.offset, span.end), "something that is handed over") {
				at[fmt.Sprint(span)] = true
			}
		}
	}
	testenv.AtLeast(t, len(at), 4, "only %v are left out as they move something to the heap", at)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n := testenv.Need(strconv.ParseFloat(strings.TrimSpace(text), 64))(t)
	return n
}
