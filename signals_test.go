package capriccio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestGraphIsOnByDefault(t *testing.T) {
	for _, c := range []struct {
		env      string
		opts     []Option
		sampling int // 0: no graph
	}{
		{"", nil, recorder.New(recorder.Config{}).Snapshot().Sampling},
		{"on", nil, recorder.New(recorder.Config{}).Snapshot().Sampling},
		{"off", nil, 0},
		{"7", nil, 7},
		{"1000000", nil, 1_000_000},
		{"", []Option{WithoutGraph()}, 0},
		{"7", []Option{WithoutGraph()}, 0},
	} {
		t.Setenv(EnvGraph, c.env)
		rt := testenv.Need(New(append(c.opts, WithLoops(1))...))(t)
		got := 0
		if s := (*engine.Runtime)(rt).Graph().Snapshot(); s != nil {
			got = s.Sampling
		}
		if got != c.sampling || (Snapshot(nil) == nil) != (got == 0) {
			t.Errorf("%s=%s, %d options: sampling %d, want %d", EnvGraph, c.env, len(c.opts), got, c.sampling)
		}
		testenv.Check(t, rt.Close())
	}
}

func TestDumpPath(t *testing.T) {
	dir := t.TempDir()
	exe, _ := os.Executable()
	name := fmt.Sprintf("%s-%d.bgraph", filepath.Base(exe), os.Getpid())
	t.Setenv("TMPDIR", dir)
	t.Chdir(dir)
	for _, c := range []struct{ env, opt, want string }{
		{"", "", filepath.Join(dir, name)},
		{"x.dump", "", filepath.Join(dir, "x.dump")},
		{"x.dump", "sub/../y", filepath.Join(dir, "y")},
		{dir, "", filepath.Join(dir, name)},
		{"", "new/", filepath.Join(dir, "new", name)},
	} {
		t.Setenv(EnvDump, c.env)
		var opts []Option
		if c.opt != "" {
			opts = append(opts, WithDumpPath(c.opt))
		}
		o := testenv.Need(gather(opts))(t)
		testenv.Got(o.dumpPath())(t, c.want, "%s=%q, option %q", EnvDump, c.env, c.opt)
	}
	for path, want := range map[string]string{"/t/a.bgraph": "/t/a-2.bgraph", "/t.x/a": "/t.x/a-2", "/t/a.b.c": "/t/a.b-2.c"} {
		testenv.Equal(t, numbered(path, 2), want, "second to %s", path)
	}
}

// markers are the texts of the memfds that announce runtimes of this process.
func markers(t *testing.T) (texts []string) {
	t.Helper()
	entries := testenv.Need(os.ReadDir("/proc/self/fd"))(t)
	for _, e := range entries {
		name := filepath.Join("/proc/self/fd", e.Name())
		if link, _ := os.Readlink(name); link != "/memfd:capriccio-bgraph (deleted)" {
			continue
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		testenv.Must(t, err)
		texts = append(texts, string(text))
	}
	return texts
}

func TestRuntimesAnnounceThemselves(t *testing.T) {
	testenv.Until(t, "the runtimes of other tests have gone", func() bool { return len(markers(t)) == 0 })
	path := filepath.Join(t.TempDir(), `a "b".bgraph`)
	first := testenv.Need(New(WithLoops(1), WithDumpPath(path)))(t)
	defer first.Close()
	want := fmt.Sprintf("capriccio-bgraph 1\npid %d\npath %q\n", os.Getpid(), path)
	if got := markers(t); len(got) != 1 || got[0] != want {
		t.Fatalf("markers %q, want %q", got, want)
	}
	for _, opt := range []Option{WithoutGraph(), WithoutSignals()} {
		silent := testenv.Need(New(WithLoops(1), WithDumpPath(path), opt))(t)
		defer silent.Close()
	}
	if got := markers(t); len(got) != 1 {
		t.Errorf("markers %q, want only one", got)
	}
	second := testenv.Need(New(WithLoops(1), WithDumpPath(path), WithoutStopSignals()))(t)
	if got := strings.Join(markers(t), ""); strings.Count(got, "pid ") != 2 || !strings.Contains(got, `a \"b\"-2.bgraph`) {
		t.Errorf("markers %q, want a second with -2", got)
	}
	second.Close()
	first.Close()
	testenv.Until(t, "no marker is left", func() bool { return len(markers(t)) == 0 })
}

// newMembership is one of its own, so that what it prints can be seen.
func newMembership(t *testing.T, stderr io.Writer, m *member) *membership {
	ms := &membership{stderr: stderr}
	t.Cleanup(ms.join(m, slog.Default()))
	return ms
}

func TestNoSummaryForBgdump(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bgraph")
	var stderr bytes.Buffer
	m := &member{graph: recorder.New(recorder.Config{}), path: path, answers: true}
	ms := newMembership(t, &stderr, m)
	lock := testenv.Need(os.Open(fmt.Sprintf("/proc/self/fd/%d", m.announce.Fd())))(t)
	defer lock.Close()
	testenv.Must(t, unix.Flock(int(lock.Fd()), unix.LOCK_SH))
	ms.dumpAll()
	if _, err := bgraph.ReadFile(path); err != nil || stderr.Len() > 0 {
		t.Errorf("for bgdump: %v, and on the standard error %q", err, &stderr)
	}
	unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	for range 2 { // the lock that finds out is not kept
		stderr.Reset()
		ms.dumpAll()
		if got := stderr.String(); !strings.HasSuffix(got, "\nThe whole graph is in "+path+"; to look at it: bgdump "+path+"\n") || !strings.Contains(got, "\nResources\n") {
			t.Errorf("for people: %q", got)
		}
	}
}

func TestDumpThatFailsIsReported(t *testing.T) {
	var stderr bytes.Buffer
	m := &member{graph: recorder.New(recorder.Config{}), path: filepath.Join(t.TempDir(), "none", "x.bgraph"), answers: true}
	newMembership(t, &stderr, m).dumpAll()
	if got := stderr.String(); !strings.Contains(got, "capriccio: SIGUSR2: bgraph: writing the dump") || strings.Contains(got, "The whole graph") {
		t.Errorf("standard error: %q", got)
	}
}

func TestFaultInADumpDoesNotEndTheProgram(t *testing.T) {
	var out bytes.Buffer
	var broken *recorder.Graph
	m := &member{graph: recorder.New(recorder.Config{}), path: filepath.Join(t.TempDir(), "x.bgraph")}
	m.graph.ExplainSched(func() *bgraph.Sched { panic(broken.Snapshot()) })
	m.dump(&out)
	if got := out.String(); !strings.Contains(got, "capriccio: SIGUSR2: panic: ") || !strings.Contains(got, "signals_test.go") {
		t.Errorf("standard error: %q", got)
	}
}

// slowWriter tells when something is written, and goes on when it is told to.
type slowWriter struct {
	began, goOn chan struct{}
	mu          sync.Mutex
	writes      int // guarded by mu
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.writes++
	w.mu.Unlock()
	w.began <- struct{}{}
	<-w.goOn
	return len(p), nil
}

// TestSignalsCoalesce: those that come while one is answered are answered together.
func TestSignalsCoalesce(t *testing.T) {
	w := &slowWriter{began: make(chan struct{}, 100), goOn: make(chan struct{})}
	ms := &membership{stderr: w}
	leave := ms.join(&member{answers: true}, slog.Default())
	send := func() {
		testenv.Must(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR2))
	}
	send()
	<-w.began
	for range 50 {
		send()
	}
	testenv.Until(t, "a signal waits", func() bool { return len(ms.signals) == 1 })
	close(w.goOn)
	<-w.began
	leave()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writes < 2 || w.writes > 4 {
		t.Errorf("51 signals led to %d answers, want 2 or a few more", w.writes)
	}
}

// answering counts the goroutines that answer signals, even those that have not begun.
func answering() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "capriccio.(*membership).listen in goroutine")
}

func TestAnsweringLeavesNoGoroutine(t *testing.T) {
	ms := &membership{stderr: io.Discard}
	testenv.Until(t, "nobody answers for other tests", func() bool { return answering() == 0 })
	first := ms.join(&member{answers: true}, slog.Default())
	second := ms.join(&member{answers: true}, slog.Default())
	testenv.Equal(t, answering(), 1, "goroutines answer")
	first()
	second()
	second() // again: nothing
	testenv.Until(t, "the goroutine has ended", func() bool { return answering() == 0 })
}

func TestNoGoroutineIsLeftByRuntimes(t *testing.T) {
	one := func() {
		rt := testenv.Need(New(WithLoops(2)))(t)
		testenv.Check(t, rt.Close())
		testenv.Until(t, "it is forgotten", func() bool { return !Runs(rt) })
	}
	one()
	before := runtime.NumGoroutine()
	for range 3 {
		one()
	}
	testenv.Until(t, "all goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
}
