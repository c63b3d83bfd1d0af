//go:build linux

package aio

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		os.Exit(writeForEver(dir))
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)          // has a goroutine, as capriccio.Run in an example
	if flag.Parse(); flag.Lookup("test.fuzz").Value.String() != "" { // fuzzing has goroutines of its own
		os.Exit(m.Run())
	}
	os.Exit(testenv.RunAndCheckLeaks(m, func() bool { return engine.Descriptors.InUse() == 0 }))
}

// breathe lets other threads work while a test polls for a state that nothing announces.
func breathe() { <-time.After(time.Millisecond) }

// openThreads makes a poller that refuses to have io_uring.
var openThreads = poller.NoRing(poller.Epoll)

// A setting is a way for tasks to wait for the disk, with one number of loops; 0: plain
// goroutines.
type setting struct {
	name  string
	open  func() (engine.Poller, error)
	loops int
}

// settings are all of them, or, without testenv.Full, each way with two loops.
func settings() []setting {
	all := []setting{{name: "goroutine"}}
	loops := []int{2}
	if testenv.Full() {
		loops = []int{1, 2, 8}
	}
	for _, p := range pollers {
		for _, n := range loops {
			all = append(all, setting{fmt.Sprintf("%s/loops=%d", p.name, n), p.open, n})
		}
	}
	return all
}

var pollers = []struct {
	name string
	open func() (engine.Poller, error)
}{
	{"ring-epoll", poller.Epoll},
	{"uring", poller.Uring},
	{"threads", openThreads},
}

// start makes a runtime for the length of the test.
func (s setting) start(t testing.TB, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	if s.loops == 0 {
		return nil
	}
	if p, err := s.open(); err != nil {
		t.Skipf("no such poller here: %v", err)
	} else {
		p.Close()
	}
	cfg := engine.Config{
		Loops:     s.loops,
		NewPoller: func(int) (engine.Poller, error) { return s.open() },
		HoldLimit: -1,
		Log:       slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	rt := testenv.Need(engine.New(cfg))(t)
	t.Cleanup(func() {
		if err := rt.Close(); cfg.Grace == 0 || cfg.Grace >= time.Minute { // a short one is over soon on a slow machine
			testenv.Check(t, err, "closing the runtime")
		}
	})
	return rt
}

// everywhere runs the test in every setting, as a task or a plain goroutine.
func everywhere(t *testing.T, f func(t *testing.T)) {
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			inTask(t, s.start(t), func() { f(t) })
		})
	}
}

// onLoops runs the test in every setting with loops.
func onLoops(t *testing.T, f func(t *testing.T, rt *engine.Runtime), change ...func(*engine.Config)) {
	for _, s := range settings() {
		if s.loops > 0 {
			t.Run(s.name, func(t *testing.T) { f(t, s.start(t, change...)) })
		}
	}
}

// inTask runs f as a task, or, without a runtime, here, and waits for it.
func inTask(t testing.TB, rt *engine.Runtime, f func()) {
	t.Helper()
	if rt == nil {
		f()
		return
	}
	if err := rt.Go(f).Join(); err != nil && !t.Failed() && !t.Skipped() {
		t.Fatalf("task: %v", err)
	}
}

// all runs f n times side by side, as tasks or, without a runtime, goroutines.
func all(t testing.TB, n int, f func(i int)) {
	t.Helper()
	if engine.CurrentLoop() == nil {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { f(i) })
		}
		wg.Wait()
		return
	}
	var g task.Group
	for i := range n {
		g.Go(func() error { f(i); return nil })
	}
	testenv.Check(t, g.Wait())
}

// must fails the test from any goroutine or task.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
		panic(err)
	}
}

// need is what a call returns that must not fail: f := need(Open(name))(t).
func need[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// content is n bytes that tell where they stand.
func content(n int) []byte {
	b := make([]byte, n)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// scratch makes a file with that content and returns its name.
func scratch(t testing.TB, b []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, b, 0o644))
	return name
}

// scratchFile opens a file with that content for the length of the test.
func scratchFile(t testing.TB, b []byte, flag int) *File {
	t.Helper()
	return closing(t, need(OpenFile(scratch(t, b), flag, 0))(t))
}

// closing closes f at the end of the test, if the test has not.
func closing(t testing.TB, f *File) *File {
	t.Cleanup(func() {
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			testenv.Check(t, err, "Close")
		}
	})
	return f
}

// reads checks what a read has returned into b: want, and the error wantErr.
func reads(t testing.TB, what string, b []byte, n int, err error, want []byte, wantErr error) {
	t.Helper()
	testenv.True(t, bytes.Equal(b[:n], want) && err == wantErr, "%s: %d bytes, %v; want %d, %v, or others", what, n, err, len(want), wantErr)
}

// holds checks the content of a file.
func holds(t testing.TB, name string, want []byte) {
	t.Helper()
	got := need(os.ReadFile(name))(t)
	testenv.True(t, bytes.Equal(got, want), "the file has %d bytes, %.20q; want %d, %.20q", len(got), got, len(want), want)
}

// withFault puts f in place of the kernel for the length of the test.
func withFault(t testing.TB, f fault) {
	faults.Store(&f)
	t.Cleanup(func() { faults.Store(nil) })
}

// onDisk skips a test of what is not so where files are in memory only.
func onDisk(t *testing.T) {
	var st unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &st); err == nil && st.Type == unix.TMPFS_MAGIC {
		t.Skip("the folder for temporary files is in memory (tmpfs); choose another with TMPDIR")
	}
}
