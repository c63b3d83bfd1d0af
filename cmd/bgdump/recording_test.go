//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries := testenv.Need(os.ReadDir(dir))(t)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A recording under way, one attempt of which the test makes at a time.
type underWay struct {
	t      *testing.T
	src    *scripted
	clock  *fakeClock
	dir    string
	stderr bytes.Buffer
	cancel context.CancelFunc
	done   chan error
	first  *bgraph.Snapshot
	made   int
}

func record(t *testing.T, keep retention) *underWay {
	u := &underWay{t: t, src: new(scripted), clock: newFakeClock(), dir: filepath.Join(t.TempDir(), "new", "folder"), done: make(chan error, 1), first: shop(t)}
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	t.Cleanup(cancel)
	u.answers(nil)
	r := &recorder{src: u.src, dir: u.dir, interval: time.Minute, keep: keep, sur: &surroundings{clock: u.clock, stderr: &u.stderr}}
	go func() { u.done <- r.run(ctx) }()
	return u
}

// answers makes the source give snapshots that come after each other, or fail.
func (u *underWay) answers(err error) {
	u.src.does(func() (*bgraph.Snapshot, error) {
		if err != nil {
			return nil, err
		}
		u.made++
		return later(u.first, time.Duration(u.made)*time.Second), nil
	})
}

// rounds lets n intervals pass.
func (u *underWay) rounds(n int) {
	for range n {
		u.clock.advance(time.Minute)
	}
	u.clock.mu.Lock()
	defer u.clock.mu.Unlock()
	for len(u.clock.timers) == 0 { // until the last round is done
		u.clock.changed.Wait()
	}
}

func (u *underWay) stop() string {
	u.t.Helper()
	u.cancel()
	testenv.Must(u.t, <-u.done)
	return u.stderr.String()
}

func TestRecordingIsBounded(t *testing.T) {
	u := record(t, retention{number: 3})
	u.rounds(0)
	testenv.Must(t, os.WriteFile(filepath.Join(u.dir, "20260314T031200.000Z-other-1.bgraph"), nil, 0o600))
	testenv.Must(t, os.WriteFile(filepath.Join(u.dir, "20260314T031200.000Z-shop-12.bgraph"), nil, 0o600)) // an earlier run
	testenv.Must(t, os.WriteFile(filepath.Join(u.dir, "notes.txt"), nil, 0o600))
	u.rounds(4)
	said := u.stop()
	want := []string{
		"20260314T031200.000Z-other-1.bgraph", // not ours to remove
		"20260314T031248.000Z-shop-4711.bgraph",
		"20260314T031249.000Z-shop-4711.bgraph",
		"20260314T031250.000Z-shop-4711.bgraph",
		"notes.txt",
	}
	testenv.EqualSlices(t, names(t, u.dir), want, "the folder")
	if !strings.Contains(said, "recording a script every 1m0s") || !strings.Contains(said, "5 snapshots written to "+u.dir) {
		t.Errorf("it said:\n%s", said)
	}
	for _, name := range want[1:4] {
		info := testenv.Need(os.Stat(filepath.Join(u.dir, name)))(t)
		testenv.Equal(t, info.Mode(), 0o600, "%s: mode", name)
	}
}

func TestRecordingEverything(t *testing.T) {
	u := record(t, retention{})
	u.rounds(5)
	u.stop()
	if got := names(t, u.dir); len(got) != 6 {
		t.Errorf("the folder has %q", got)
	}
}

func TestRecordingSurvivesFailures(t *testing.T) {
	u := record(t, retention{})
	u.rounds(1)
	u.answers(errors.New("gone\nfor now"))
	u.rounds(3)
	u.answers(nil)
	u.rounds(2)
	testenv.Must(t, os.Chmod(u.dir, 0o500))
	testenv.Must(t, os.Rename(u.dir, u.dir+"2")) // root may write whatever the mode
	u.rounds(2)
	testenv.Must(t, os.Rename(u.dir+"2", u.dir))
	testenv.Must(t, os.Chmod(u.dir, 0o700))
	u.rounds(1)
	said := u.stop()
	if got := names(t, u.dir); len(got) != 5 {
		t.Errorf("the folder has %q", got)
	}
	for what, times := range map[string]int{
		"gone\nfor now":                                1,
		"trying again every 1m0s":                      2,
		"it works again, after 3 attempts that failed": 1,
		"it works again, after 2 attempts that failed": 1,
		"the folder \"" + u.dir + "\" does not exist":  1,
		"5 snapshots written":                          1,
	} {
		if n := strings.Count(said, what); n != times {
			t.Errorf("it said %q %d times, want %d:\n%s", what, n, times, said)
		}
	}
}

// What is too old goes while nothing is written, too.
func TestOldRecordingsGoAlsoIfNoneIsWritten(t *testing.T) {
	u := record(t, retention{age: 2 * time.Minute})
	u.rounds(2)
	testenv.Equal(t, len(names(t, u.dir)), 3, "recordings")
	u.answers(errors.New("gone"))
	u.rounds(5)
	u.stop()
	testenv.EqualSlices(t, names(t, u.dir), nil, "the folder")
}

func TestRecordingOfWhatIsNotThere(t *testing.T) {
	src := new(scripted)
	src.gives(nil, errors.New("not there"))
	r := &recorder{src: src, dir: t.TempDir(), interval: time.Minute, sur: &surroundings{clock: newFakeClock()}}
	if err := r.run(context.Background()); err == nil || err.Error() != "not there" {
		t.Errorf("got %v", err)
	}
}

func TestRecordingEndsWithTheProcess(t *testing.T) {
	u := record(t, retention{})
	u.rounds(1)
	u.answers(endedError{errors.New("there is no process 4711")})
	u.clock.advance(time.Minute)
	testenv.Must(t, <-u.done)
	testenv.Contains(t, u.stderr.String(), "there is no process 4711; 2 snapshots written", "it said")
}

func TestNamesOfRecordings(t *testing.T) {
	s := shop(t)
	s.Taken = time.Date(2026, 3, 14, 4, 5, 6, 7_000_000, time.FixedZone("", 3600))
	for program, want := range map[string]string{
		"knot":       "20260314T030506.007Z-knot-4711.bgraph",
		"../a b/ü\n": "20260314T030506.007Z-.._a_b____-4711.bgraph",
		"":           "20260314T030506.007Z-unknown-4711.bgraph",
	} {
		s.Program.Name = program
		if got := nameRecording(s); strings.ReplaceAll(got, "____", "___") != strings.ReplaceAll(want, "____", "___") || !recordingName.MatchString(got) {
			t.Errorf("%q: %s, want %s", program, got, want)
		}
	}
}

// recordings makes a folder with one a minute.
func recordings(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		s := later(shop(t), time.Duration(i)*time.Minute)
		testenv.Must(t, bgraph.WriteFile(filepath.Join(dir, nameRecording(s)), s))
	}
	return dir
}

func TestFolderAsSource(t *testing.T) {
	dir := recordings(t, 4)
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "20260314T999999.000Z-x-1.bgraph.tmp"), nil, 0o600))
	testenv.Must(t, os.Mkdir(filepath.Join(dir, "20990314T000000.000Z-folder-1.bgraph"), 0o700))
	want := command(t, writeDump(t, later(shop(t), 3*time.Minute))).ok(t)
	testenv.Equal(t, command(t, dir).ok(t), want, "the last one is not shown")
	for seconds, span := range map[string]string{"1": `"span_ns":60000000000`, "60": `"span_ns":60000000000`, "60.4": `"span_ns":60000000000`, "61": `"span_ns":120000000000`, "180": `"span_ns":180000000000`} {
		testenv.Contains(t, command(t, "-dump", "-seconds", seconds, dir).ok(t), span, "-seconds %s", seconds)
	}
	command(t, "-seconds", "181", dir).fails(t, "cover 3m0s only")
	command(t, "-record", "x", dir).fails(t, "-record needs a running program")
	all := names(t, dir)
	command(t, filepath.Join(dir, all[0]), filepath.Join(dir, all[2])).ok(t)
	command(t, filepath.Join(dir, "nothing")).fails(t, "there is no file")
}

func TestFolderIsReplayed(t *testing.T) {
	clk := newFakeClock()
	src := testenv.Need(openFolder(recordings(t, 3), clk, time.Second))(t)
	ages := []time.Duration{0, 500 * time.Millisecond, 500 * time.Millisecond, time.Second, time.Hour}
	for i, want := range []int{0, 0, 1, 2, 2} {
		clk.mu.Lock()
		clk.now = clk.now.Add(ages[i])
		clk.mu.Unlock()
		s := testenv.Need(src.Snapshot(context.Background()))(t)
		if got := s.Taken.Sub(shop(t).Taken); got != time.Duration(want)*time.Minute {
			t.Errorf("step %d: the recording of minute %v, want %d", i, got, want)
		}
	}
}

func TestFolderWithFilesThatAreNoDumps(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "20260314T031200.000Z-a-1.bgraph"), []byte("x"), 0o600))
	command(t, dir).fails(t, "not a dump", "20260314T031200.000Z-a-1.bgraph")
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "99999999T999999.999Z-a-1.bgraph"), []byte("x"), 0o600))
	command(t, "-seconds", "1", dir).fails(t)
	testenv.ErrorIs(t, testenv.Err(openFolder(filepath.Join(dir, "no"), newFakeClock(), time.Second)), fs.ErrNotExist)
}
