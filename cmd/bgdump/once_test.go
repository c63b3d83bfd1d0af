//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/export"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The formats themselves are tested where they are written; here, that the flags lead
// to them.
func TestOutputs(t *testing.T) {
	testenv.Golden(t, "text.txt", []byte(command(t, shopFile).ok(t)))
	only := func(focus, ignore string) *bgraph.Snapshot {
		s := shop(t)
		if focus == "" {
			return s
		}
		var not *regexp.Regexp
		if ignore != "" {
			not = regexp.MustCompile(ignore)
		}
		return s.Filter(regexp.MustCompile(focus), not)
	}
	for args, want := range map[string]func(io.Writer) error{
		"-sort -wait -limit 3 -stacks -focus session|page -ignore query": func(w io.Writer) error {
			return tables.WriteText(w, only("session|page", "query"), tables.Options{Sort: "-wait", Limit: 3, Stacks: true, Whole: shop(t)})
		},
		"-dot": func(w io.Writer) error {
			return draw.WriteDOT(w, shop(t), draw.Options{Color: "cpu", Findings: lint.Find(shop(t))})
		},
		"-dot -color wait -limit 5": func(w io.Writer) error {
			return draw.WriteDOT(w, shop(t), draw.Options{Color: "wait", MaxNodes: 5, Findings: lint.Find(shop(t))})
		},
		"-svg -focus page": func(w io.Writer) error {
			return draw.WriteSVG(w, only("page", ""), draw.Options{Color: "cpu", Findings: lint.FindPart(shop(t), only("page", ""))})
		},
		"-stages -limit 3":     func(w io.Writer) error { return tables.WriteStages(w, shop(t), 3, 0) },
		"-json -focus session": func(w io.Writer) error { return export.WriteJSON(w, only("session", "")) },
		"-folded":              func(w io.Writer) error { return export.WriteFolded(w, shop(t), "cpu") },
		"-folded -metric wait": func(w io.Writer) error { return export.WriteFolded(w, shop(t), "wait") },
		"-pprof":               func(w io.Writer) error { return export.WriteProfile(w, shop(t)) },
		"-dump -focus page":    func(w io.Writer) error { return only("page", "").Encode(w) },
	} {
		var b bytes.Buffer
		testenv.Must(t, want(&b))
		if got := command(t, append(strings.Fields(args), shopFile)...).ok(t); got != b.String() {
			t.Errorf("%s writes\n%s\nwant\n%s", args, got, &b)
		}
	}
}

func TestDumpsCanBeReadAgain(t *testing.T) {
	dump := command(t, "-dump", shopFile).ok(t)
	sur := &surroundings{stdin: strings.NewReader(dump), clock: newFakeClock()}
	testenv.Equal(t, commandIn(t, context.Background(), sur, "-dump", "-").ok(t), dump, "a dump that went through bgdump twice")
	testenv.Equal(t, command(t, shopFile).ok(t), command(t, writeDump(t, shop(t))).ok(t), "the same snapshot from two files")
}

func TestStandardInputIsReadOnce(t *testing.T) {
	src := &stdinSource{in: bytes.NewReader(shopDump(t))}
	a := testenv.Need(src.Snapshot(context.Background()))(t)
	b := testenv.Need(src.Snapshot(context.Background()))(t)
	if a == b || len(b.Nodes) != len(a.Nodes) || &a.Nodes[0] == &b.Nodes[0] {
		t.Error("want two snapshots that are equal and share nothing")
	}
}

// TestATraceThroughAPipe, as a shell makes one for <(zcat FILE).
func TestATraceThroughAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.Must(t, err)
	defer r.Close()
	text := testenv.Need(os.ReadFile(goldenTrace))(t)
	go func() {
		w.Write(text)
		w.Close()
	}()
	testenv.Contains(t, command(t, fmt.Sprintf("/proc/self/fd/%d", r.Fd())).ok(t), "an execution trace of")
}

// A page asks for a file again and again, and a trace takes long to read.
func TestAFileIsReadAgainIfItHasChanged(t *testing.T) {
	path := writeDump(t, shop(t))
	src := &fileSource{path: path}
	first := testenv.Need(src.Snapshot(context.Background()))(t)
	first.Nodes = nil // it is the caller's
	info := testenv.Need(os.Stat(path))(t)
	testenv.Must(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	testenv.Must(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	again, err := src.Snapshot(context.Background())
	if testenv.Must(t, err); len(again.Nodes) == 0 {
		t.Error("no nodes; want what was read")
	}
	testenv.Must(t, os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second)))
	testenv.Fails(t, testenv.Err(src.Snapshot(context.Background())), "a file that has changed was not read again")
}

func TestSourcesThatAreNoDump(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "x")
		testenv.Must(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	command(t, file("")).fails(t, "empty", "/x")
	command(t, file("<html>")).fails(t, "not a dump", "web page")
	command(t, file("\x1b[31mred")).fails(t, `"\x1b[31mred"`)
	command(t, file("capriccio blocking graph 9\n{}")).fails(t, "format 9", "newer bgdump")
	command(t, "-").fails(t, "standard input", "empty")
	dump := command(t, "-dump", shopFile).ok(t)
	command(t, file(dump[:len(dump)/2])).fails(t, "cut off")
}

func TestNothingLeftByFocus(t *testing.T) {
	command(t, "-focus", "no such function", shopFile).fails(t, "no node that -focus and -ignore leave")
}

func TestLintTellsByItsExitCode(t *testing.T) {
	r := command(t, "-lint", shopFile)
	if r.code != exitFound || r.errOut != "" || !strings.Contains(r.out, "convoy") {
		t.Errorf("exit code %d, errors %q, output:\n%s", r.code, r.errOut, r.out)
	}
	r = command(t, "-lint", "-json", shopFile)
	var findings []lint.Finding
	if err := json.Unmarshal([]byte(r.out), &findings); r.code != exitFound || err != nil || len(findings) == 0 {
		t.Errorf("exit code %d, %v, output:\n%s", r.code, err, r.out)
	}
	s := shop(t)
	s.Nodes, s.Edges, s.Overruns, s.Resources, s.Sched, s.Overflow = nil, nil, nil, nil, nil, bgraph.Overflow{}
	clean := writeDump(t, s)
	for _, f := range lint.Find(s) {
		testenv.MustEqual(t, f.Severity, lint.SeverityInfo, "this should be no finding: %+v", f)
	}
	command(t, "-lint", clean).ok(t)
	if out := command(t, "-lint", "-json", writeDump(t, new(bgraph.Snapshot))).ok(t); !strings.HasPrefix(out, "[") {
		t.Errorf("no findings in JSON: %s", out)
	}
	command(t, "-lint", "no-such-file").fails(t)

	busy := shop(t) // where much goes on, but not at its locks
	for i := range busy.Nodes {
		if n := &busy.Nodes[i]; n.Reason == "mutex" {
			n.Oldest = bgraph.Nanos(3 * time.Second)
		}
	}
	if r := command(t, "-lint", "-focus", "^mutex", writeDump(t, busy)); r.code != exitFound || strings.Contains(r.out, "deadlock") || strings.Contains(r.out, "long-step") || !strings.Contains(r.out, "convoy") {
		t.Errorf("got %+v; want what is known of the locks, and no deadlock", r)
	}
	for _, flag := range []string{"-stacks", "-md"} {
		if text := command(t, flag, "-focus", "^mutex", writeDump(t, busy)).ok(t); strings.Contains(text, "deadlock") || strings.Contains(text, "stuck") {
			t.Errorf("%s: got %s", flag, text)
		}
	}
}

func TestTwoMomentsOfOneRun(t *testing.T) {
	after := writeDump(t, later(shop(t), 10*time.Second))
	testenv.Golden(t, "diff.txt", []byte(command(t, shopFile, after).ok(t)))
	testenv.Contains(t, command(t, "-dump", shopFile, after).ok(t), `"span_ns":10000000000`, "this is not the difference")
	command(t, after, shopFile).fails(t, "second snapshot was taken before the first; exchange them")
}

func TestTwoRuns(t *testing.T) {
	other := later(shop(t), 20*time.Second)
	other.Program.PID, other.Program.Started = 815, other.Program.Started.Add(time.Hour)
	other.Edges[4].Count *= 3
	path := writeDump(t, other)
	testenv.Golden(t, "compare.txt", []byte(command(t, "-limit", "3", shopFile, path).ok(t)))
	var c graphcompare.Comparison
	testenv.Must(t, json.Unmarshal([]byte(command(t, "-json", "-focus", "session", shopFile, path).ok(t)), &c))
	if c.Before.Program.PID != 4711 || c.After.Program.PID != 815 || len(c.Nodes) == 0 {
		t.Errorf("got %+v", c)
	}
	for _, n := range c.Nodes {
		if n.After > bgraph.KeyEnd && !strings.Contains(n.Name, "session") {
			t.Errorf("%s is not in focus", n.Name)
		}
	}
	command(t, "-svg", shopFile, path).fails(t, "two runs", "without -svg")
	command(t, "-sort", "now", shopFile, path).fails(t, "-sort")
	command(t, "-stacks", shopFile, path).fails(t, "no stacks")
}

// Dumps of -seconds stand for a period each: to subtract one from the other means nothing.
func TestTwoPeriodsOfARun(t *testing.T) {
	period := func(from, to time.Duration) string {
		return writeDump(t, testenv.Need(bgraph.Diff(later(shop(t), from), later(shop(t), to)))(t))
	}
	short, long := period(0, 10*time.Second), period(10*time.Second, 30*time.Second)
	for _, two := range [][2]string{{short, long}, {long, short}, {short, writeDump(t, later(shop(t), time.Minute))}} {
		testenv.Contains(t, command(t, two[0], two[1]).ok(t), "before: shop", "the comparison")
		command(t, "-svg", two[0], two[1]).fails(t, "periods of one", "without -svg")
	}
}

func TestSecondsShowTheDifference(t *testing.T) {
	clk := newFakeClock()
	src := new(scripted)
	first := shop(t)
	src.gives(first, nil)
	set := testenv.Need(parse([]string{"-seconds", "10", "1"}, nil))(t)
	done := make(chan *bgraph.Snapshot)
	go func() {
		s, err := take(context.Background(), set, src, &surroundings{clock: clk})
		testenv.Check(t, err)
		done <- s
	}()
	for src.count() == 0 {
		clk.mu.Lock()
		for len(clk.timers) == 0 {
			clk.changed.Wait()
		}
		clk.mu.Unlock()
	}
	src.gives(later(first, 10*time.Second), nil)
	clk.advance(10 * time.Second)
	if s := <-done; s == nil || s.Span.Duration() != 10*time.Second {
		t.Errorf("got %+v", s)
	}
}

func TestSecondsOfARestart(t *testing.T) {
	src, clk := new(scripted), newFakeClock()
	clk.short = time.Minute
	s := shop(t)
	n := 0
	src.does(func() (*bgraph.Snapshot, error) {
		n++
		again := *s
		again.Program.PID += n
		return &again, nil
	})
	_, err := take(context.Background(), &settings{seconds: time.Second}, src, &surroundings{clock: clk})
	testenv.ErrorSays(t, err, "started anew")
}

func TestOutputToAFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "graph.txt")
	want := command(t, shopFile).ok(t)
	testenv.Equal(t, command(t, "-o", path, shopFile).ok(t), "", "also written")
	check := func(path string) {
		t.Helper()
		got := testenv.Need(os.ReadFile(path))(t)
		testenv.Equal(t, string(got), want, path)
		entries := testenv.Need(os.ReadDir(dir))(t)
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".tmp") {
				t.Errorf("left over: %s", e.Name())
			}
		}
	}
	check(path)
	testenv.Must(t, os.Chmod(path, 0o640))
	want = command(t, "-limit", "1", shopFile).ok(t)
	command(t, "-o", path, "-limit", "1", shopFile).ok(t)
	check(path)
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want that of the file that was there", info.Mode())
	}
	command(t, "-o", path, "-focus", "nothing", shopFile).fails(t)
	check(path) // as it was
	link := filepath.Join(dir, "link")
	testenv.Must(t, os.Symlink(path, link))
	want = command(t, "-limit", "2", shopFile).ok(t)
	command(t, "-o", link, "-limit", "2", shopFile).ok(t)
	check(path)
	testenv.Equal(t, command(t, "-o", "-", "-limit", "2", shopFile).ok(t), want, "-o -")
	command(t, "-o", os.DevNull, shopFile).ok(t)
	command(t, "-o", dir, shopFile).fails(t, "is a folder")
	path = filepath.Join(dir, "no", "such")
	command(t, "-o", path, shopFile).fails(t, path+": no such file or directory")
}

func TestErrorsHaveNoPackageNames(t *testing.T) {
	r := command(t, "-sort", "x", shopFile)
	if regexp.MustCompile(`bgraph: `).MatchString(r.errOut) {
		t.Errorf("got %s", r.errOut)
	}
	r = command(t, writeDump(t, later(shop(t), time.Second)), shopFile)
	if strings.Contains(r.errOut, "bgraph: ") {
		t.Errorf("got %s", r.errOut)
	}
}

func TestInterruptIsSaid(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	src := new(scripted)
	src.gives(shop(t), nil)
	_, err := take(ctx, &settings{seconds: time.Second}, src, &surroundings{clock: newFakeClock()})
	if err == nil || explain(err) != "interrupted" {
		t.Errorf("got %v", err)
	}
}
