//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphcompare"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// queue is the program of the captures: four goroutines that want a lock, each of which keeps it for a while.
func queue(held time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				mu.Lock()
				time.Sleep(held)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// captureQueue writes three traces of queue into a new folder.
func captureQueue(t *testing.T, held time.Duration) (dir string) {
	dir = t.TempDir()
	for i := range 3 {
		var b bytes.Buffer
		if err := trace.Start(&b); err != nil {
			t.Skip(err)
		}
		queue(held)
		trace.Stop()
		testenv.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.out", i)), b.Bytes(), 0o600))
	}
	return dir
}

func TestGateOnTraces(t *testing.T) {
	before, after := captureQueue(t, time.Millisecond), captureQueue(t, 20*time.Millisecond)
	testenv.Must(t, os.WriteFile(filepath.Join(before, "README"), []byte("no capture"), 0o600))
	list := func(dir string) string {
		return filepath.Join(dir, "0.out") + "," + filepath.Join(dir, "1.out") + "," + filepath.Join(dir, "2.out")
	}
	for _, args := range [][]string{
		{"-lint", before, after},
		{"-lint", list(before), list(after)},
		{"-md", before, list(after)},
		{"-lint", filepath.Join(before, "0.out"), after},
	} {
		r := command(t, args...)
		if r.code != exitFound || !strings.Contains(strings.SplitN(r.out, "\n", 2)[0], "REGRESSION") || !strings.Contains(r.out, "bgdump.queue") {
			t.Errorf("%v: exit code %d, %s\n%s", args, r.code, r.errOut, r.out)
		}
	}
	r := command(t, "-lint", "-json", before, after)
	var v graphcompare.Verdict
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != exitFound || len(v.Regressions) == 0 || v.Captures != [2]int{3, 3} {
		t.Errorf("exit code %d, %v\n%s", r.code, err, r.out)
	}
	for _, mode := range []string{"-lint", "-md"} {
		out := command(t, mode, after, before).ok(t)
		testenv.Contains(t, out, "for the better", mode)
		testenv.Contains(t, command(t, mode, before, list(before)).ok(t), "No regression", mode)
	}
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
