//go:build linux

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// captures of a server that keeps a lock for 0.1 ms, and of one that does so for 3 ms: see examples/gate.
const gateBefore, gateAfter = "testdata/gate/before", "testdata/gate/after"

func TestGate(t *testing.T) {
	list := func(dir string) string {
		return filepath.Join(dir, "1.bgraph.gz") + "," + filepath.Join(dir, "2.bgraph.gz") + "," + filepath.Join(dir, "3.bgraph.gz")
	}
	for _, args := range [][]string{
		{"-lint", gateBefore, gateAfter},
		{"-lint", list(gateBefore), list(gateAfter)},
		{"-md", gateBefore, list(gateAfter)},
		{"-lint", gateBefore + "/1.bgraph.gz", gateAfter},
		{"-lint", gateBefore + "/1.bgraph.gz", gateAfter + "/1.bgraph.gz"},
	} {
		r := command(t, args...)
		if r.code != exitFound || !strings.Contains(strings.SplitN(r.out, "\n", 2)[0], "REGRESSION") || !strings.Contains(r.out, "mutex main.lookup") {
			t.Errorf("%v: exit code %d, %s\n%s", args, r.code, r.errOut, r.out)
		}
	}
	r := command(t, "-lint", "-json", gateBefore, gateAfter)
	var v graphcompare.Verdict
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != exitFound || len(v.Regressions) == 0 || v.Captures != [2]int{3, 3} {
		t.Errorf("exit code %d, %v\n%s", r.code, err, r.out)
	}
	for _, mode := range []string{"-lint", "-md"} {
		out := command(t, mode, gateAfter, gateBefore).ok(t)
		testenv.Contains(t, out, "No regression, 3 for the better", mode)
		testenv.Contains(t, command(t, mode, gateBefore, list(gateBefore)).ok(t), "No regression (3 captures before, 3 after)", mode)
	}
	if r := command(t, "-lint", "-ignore", "main", gateBefore, gateAfter); strings.Contains(r.out, "main.lookup") {
		t.Errorf("-ignore: got\n%s", r.out)
	}
	// A folder of traces, beside other files.
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "a.out"), testenv.Need(os.ReadFile(goldenTrace))(t), 0o600))
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "README"), []byte("no capture"), 0o600))
	testenv.Contains(t, command(t, "-lint", goldenTrace, dir).ok(t), "No regression (1 capture before, 1 after)")
}

// Recordings of one run cover the same time, but for the last seconds of each.
func TestGateOnRecordings(t *testing.T) {
	dir := t.TempDir()
	clk := newFakeClock()
	for i := range 4 {
		s := later(shop(t), time.Duration(i)*10*time.Second)
		testenv.Must(t, s.Encode(testenv.Need(os.Create(filepath.Join(dir, nameRecording(s))))(t)))
	}
	all := testenv.Need(captures(context.Background(), dir, &surroundings{clock: clk}, &settings{}))(t)
	testenv.MustEqual(t, len(all), 3, "captures")
	for _, s := range all {
		testenv.Equal(t, s.Span.Duration(), 10*time.Second, "a capture covers")
	}
	other := later(shop(t), 20*time.Second)
	other.Program.PID = 815
	testenv.Contains(t, command(t, "-lint", shopFile, writeDump(t, other)).out, "1 capture before, 1 after")
}

// A program of this runtime that is listed several times is asked again after as long as a trace takes.
func TestGateOnARunningProgram(t *testing.T) {
	clk := newFakeClock()
	clk.short = usualTracing
	begun := clk.Now()
	address, _ := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		testenv.Check(t, later(shop(t), clk.Now().Sub(begun)).Encode(w))
	})
	list := strings.Join([]string{address, address, address}, ",")
	all := testenv.Need(captures(context.Background(), list, &surroundings{clock: clk}, &settings{timeout: time.Minute}))(t)
	testenv.MustEqual(t, len(all), 2, "captures")
	for _, s := range all {
		testenv.Equal(t, s.Span.Duration(), usualTracing, "a capture covers")
	}
}

func TestGateOnBadInput(t *testing.T) {
	empty := t.TempDir()
	command(t, "-lint", empty, goldenTrace).fails(t, "neither an execution trace nor a dump", empty)
	command(t, "-md", goldenTrace, goldenTrace+",no-such-file").fails(t, "there is no file no-such-file")
	command(t, "-lint", goldenTrace, goldenTrace+","+goldenTrace).fails(t, "is there twice")
	command(t, "-lint", goldenTrace, goldenTrace+",").fails(t, "name of a source is empty")
	command(t, "-lint", goldenTrace, shopFile).fails(t, "some are graphs of tasks, others execution traces")
	testenv.Must(t, os.WriteFile(filepath.Join(empty, "cut.out"), []byte("go 1.26 trace\x00\x00\x00"), 0o600))
	command(t, "-lint", goldenTrace, empty).fails(t, "cut.out")
}

// TestCommentOfTheExample: the comment in examples/gate is that on a change in which a server keeps a lock for 3 ms instead of
// 0.1 ms.
func TestCommentOfTheExample(t *testing.T) {
	r := command(t, "-md", "testdata/gate/before", "testdata/gate/after")
	testenv.Equal(t, r.code, exitFound, r.errOut)
	testenv.Golden(t, "../../../examples/gate/comment.md", []byte(r.out))
}
