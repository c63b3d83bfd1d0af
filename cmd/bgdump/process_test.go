//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A fakeProcess is one that is held; what signals do to it the test says.
type fakeProcess struct {
	signalled int
	onSignal  func() error
	ended     bool
	closed    int
}

func (p *fakeProcess) Signal() error { p.signalled++; return p.onSignal() }
func (p *fakeProcess) Ended() bool   { return p.ended }
func (p *fakeProcess) Close() error  { p.closed++; return nil }

// A fakeProc is a folder in place of /proc in which there is one process, 4711.
type fakeProc struct {
	t       *testing.T
	root    string
	process *fakeProcess
	clock   *fakeClock
	held    error
}

const goodStatus = `Name:	shop
State:	S (sleeping)
Tgid:	4711
Uid:	%d	%d	%d	%d
NSpid:	4711
SigCgt:	fffffffd7fc1feff
`

func newFakeProc(t *testing.T) *fakeProc {
	f := &fakeProc{t: t, root: t.TempDir(), process: &fakeProcess{onSignal: func() error { return nil }}, clock: newFakeClock()}
	f.clock.short = time.Second
	for _, pid := range []string{"self", "4711"} {
		testenv.Must(t, os.MkdirAll(filepath.Join(f.root, pid, "ns"), 0o755))
		f.link(pid, "ns/mnt", "mnt:[1]")
		f.link(pid, "root", "/")
	}
	uid := os.Getuid()
	f.write("status", fmt.Sprintf(goodStatus, uid, uid, uid, uid))
	exe := testenv.Need(os.Executable())(t)
	f.link("4711", "exe", exe)
	testenv.Must(t, os.MkdirAll(filepath.Join(f.root, "4711", "fd"), 0o755))
	f.link("4711", "fd/0", "/dev/null")
	f.link("4711", "fd/1", "socket:[123]")
	return f
}

func (f *fakeProc) write(name, content string) {
	testenv.Must(f.t, os.WriteFile(filepath.Join(f.root, "4711", name), []byte(content), 0o644))
}

func (f *fakeProc) link(pid, name, to string) {
	path := filepath.Join(f.root, pid, name)
	os.Remove(path)
	testenv.Must(f.t, os.Symlink(to, path))
}

// announce gives the process a marker with that content. What a descriptor leads to
// cannot be faked by a link, so it is in a file beside it.
func (f *fakeProc) announce(fd int, content string) {
	f.link("4711", "fd/"+strconv.Itoa(fd), markerLink)
	f.write("marker"+strconv.Itoa(fd), content)
}

func (f *fakeProc) source() *processSource {
	return &processSource{pid: 4711, clock: f.clock, timeout: 5 * time.Second, kernel: &kernel{
		proc: f.root,
		hold: func(pid int) (process, error) {
			testenv.Equal(f.t, pid, 4711, "process N was asked for")
			return f.process, f.held
		},
		open: func(path string) (*os.File, error) {
			return openRegular(filepath.Join(f.root, "4711", "marker"+filepath.Base(path)))
		},
	}}
}

// refuses checks that there is an error with all of want, and how many signals.
func (f *fakeProc) refuses(signals int, want ...string) error {
	f.t.Helper()
	s, err := f.source().Snapshot(context.Background())
	if s != nil || err == nil {
		f.t.Fatal("there is no error")
	}
	for _, w := range want {
		testenv.Contains(f.t, err.Error(), w)
	}
	testenv.Equal(f.t, f.process.signalled, signals, "signals were sent")
	if f.held == nil && f.process.closed != 1 {
		f.t.Error("the process is still held")
	}
	return err
}

func marks(path string) string {
	return "capriccio-bgraph 1\npid 4711\nfuture 7\npath " + strconv.Quote(path) + "\n"
}

// A marker that another process has passed on is not kept open: its lock would keep that process from printing its summary.
func TestMarkersOfAnotherProcessAreClosed(t *testing.T) {
	f := newFakeProc(t)
	f.announce(7, marks("/x"))
	k := f.source().kernel
	open := k.open
	var opened *os.File
	k.open = func(path string) (*os.File, error) {
		file, err := open(path)
		opened = file
		return file, err
	}
	found := testenv.Need(k.markers(4711, 4712))(t)
	testenv.Equal(t, len(found), 0, "markers")
	if err := opened.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closing the file of the marker: %v; want it closed", err)
	}
}

func TestAProcessThatAnnouncesIsAsked(t *testing.T) {
	f := newFakeProc(t)
	path := filepath.Join(t.TempDir(), "odd \"name\"\n.bgraph")
	f.announce(7, marks(path))
	for round := range 3 { // the file is there from the second round on
		want := later(shop(t), time.Duration(round)*time.Second)
		f.process.onSignal = func() error { return bgraph.WriteFile(path, want) }
		got := testenv.Need(f.source().Snapshot(context.Background()))(t)
		if !got.Taken.Equal(want.Taken) || f.process.signalled != round+1 {
			t.Errorf("round %d: taken %v, want %v; %d signals", round, got.Taken, want.Taken, f.process.signalled)
		}
	}
}

func TestTheAnswerMayTakeAWhile(t *testing.T) {
	f := newFakeProc(t)
	path := filepath.Join(t.TempDir(), "x")
	f.announce(7, marks(path))
	testenv.Must(t, bgraph.WriteFile(path, shop(t)))
	src := f.source()
	polls := 0
	src.clock = pollClock{f.clock, func() {
		if polls++; polls == 5 {
			testenv.Must(t, bgraph.WriteFile(path, later(shop(t), time.Second)))
		}
	}}
	s := testenv.Need(src.Snapshot(context.Background()))(t)
	if polls < 5 || !s.Taken.Equal(later(shop(t), time.Second).Taken) {
		t.Errorf("after %d polls: taken %v", polls, s.Taken)
	}
}

// A pollClock tells of every short wait.
type pollClock struct {
	*fakeClock
	poll func()
}

func (c pollClock) After(d time.Duration) <-chan time.Time {
	if d <= lastPoll {
		c.poll()
	}
	return c.fakeClock.After(d)
}

func TestTwoRuntimesAreAddedUp(t *testing.T) {
	f := newFakeProc(t)
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	f.announce(12, marks(b))
	f.announce(7, marks(a))
	first, second := shop(t), later(shop(t), time.Second)
	second.Program.Started = second.Program.Started.Add(time.Second)
	first.ProcessCPU, first.CollectorCPU, first.Chunks.Links = 7e9, 2e9, 5
	second.ProcessCPU, second.CollectorCPU, second.Chunks.Links = 6e9, 1e9, 4
	f.process.onSignal = func() error {
		return errors.Join(bgraph.WriteFile(a, first), bgraph.WriteFile(b, second))
	}
	s := testenv.Need(f.source().Snapshot(context.Background()))(t)
	if len(s.Loops) != 4 || s.Program.PID != 4711 {
		t.Errorf("%d loops, process %d", len(s.Loops), s.Program.PID)
	}
	if s.ProcessCPU != 7e9 || s.CollectorCPU != 2e9 || s.Chunks.Links != 5 {
		t.Errorf("CPU %v, collector %v, %d links: both tell of the whole process", s.ProcessCPU, s.CollectorCPU, s.Chunks.Links)
	}
}

func TestNobodyElseGetsTheSignal(t *testing.T) {
	isExe := func(to string) func(*fakeProc) { return func(f *fakeProc) { f.link("4711", "exe", to) } }
	hasStatus := func(status string) func(*fakeProc) {
		return func(f *fakeProc) {
			f.announce(7, marks("/x"))
			f.write("status", status)
		}
	}
	for name, c := range map[string]struct {
		change func(*fakeProc)
		ended  bool
		want   []string
	}{
		"not announced":               {func(*fakeProc) {}, false, []string{"process 4711 (shop) was not asked", "could end it", "built with " + module, "kill -USR2 4711"}},
		"not a Go program":            {isExe("/bin/sh"), false, []string{"not a Go program"}},
		"another Go program":          {isExe(testenv.Need(exec.LookPath("go"))(t)), false, []string{"Go program without the module"}},
		"a thread of the kernel":      {func(f *fakeProc) { testenv.Must(t, os.Remove(filepath.Join(f.root, "4711", "exe"))) }, false, []string{"its program cannot be read"}},
		"a marker of another process": {func(f *fakeProc) { f.announce(7, "capriccio-bgraph 1\npid 4712\npath \"/x\"\n") }, false, []string{"was not asked"}},
		"does not catch it":           {hasStatus(strings.Replace(fmt.Sprintf(goodStatus, 1, 1, 1, 1), "fffffffd7fc1feff", "fffffffd7fc1f6ff", 1)), false, []string{"does not catch the signal"}},
		"a thread":                    {hasStatus("Tgid:\t4700\n"), false, []string{"4711 is a thread of process 4700"}},
		"ended":                       {hasStatus("Name:\tshop\nState:\tZ (zombie)\nTgid:\t4711\n"), true, []string{"has ended"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			c.change(f)
			testenv.Equal(t, isEnded(f.refuses(0, c.want...)), c.ended, "it counts as ended")
		})
	}
	for name, content := range map[string]string{
		"":                               "cannot be understood",
		"hello":                          "cannot be understood",
		"capriccio-bgraph 1":             "cannot be understood",
		"capriccio-bgraph 2\n":           "version 2",
		"capriccio-bgraph 1\n":           "not complete",
		"capriccio-bgraph 1\npid x\n":    "cannot be understood: pid",
		"capriccio-bgraph 1\npid 4711\n": "not complete",
		"capriccio-bgraph 1\npid 4711\npath /x\n":    "cannot be understood: path",
		"capriccio-bgraph 1\npid 4711\npath \"x\"\n": "not complete",
	} {
		t.Run(fmt.Sprintf("marker %q", name), func(t *testing.T) {
			f := newFakeProc(t)
			f.announce(7, name)
			f.refuses(0, content)
		})
	}
}

func TestProcessesThatCannotBeReached(t *testing.T) {
	f := newFakeProc(t)
	f.held = unix.ESRCH
	if err := f.refuses(0, "there is no process 4711"); !isEnded(err) {
		t.Error("it does not count as ended")
	}
	f.held = unix.EPERM
	f.write("status", fmt.Sprintf(goodStatus, 54321, 54321, 54321, 54321))
	f.refuses(0, "belongs to the user with the number 54321", "as that user or as root")

	f = newFakeProc(t)
	f.announce(7, marks(filepath.Join(t.TempDir(), "x", "y")))
	f.process.onSignal = func() error { return unix.EPERM }
	f.refuses(1, "protected")
	f = newFakeProc(t)
	testenv.Must(t, os.RemoveAll(filepath.Join(f.root, "4711")))
	f.refuses(0, "there is no process 4711")
	if os.Getuid() != 0 { // root may look everywhere
		f = newFakeProc(t)
		testenv.Must(t, os.Chmod(filepath.Join(f.root, "4711", "fd"), 0))
		f.refuses(0, "protected")
	}
	src := f.source()
	testenv.Contains(t, src.readError("/x", status{uid: 54321}, &fs.PathError{Err: fs.ErrPermission}).Error(), "only the user with the number 54321 and root may read")
}

func TestNoAnswer(t *testing.T) {
	announced := func() *fakeProc {
		f := newFakeProc(t)
		f.announce(7, marks("/no/such/folder/x.bgraph"))
		return f
	}
	announced().refuses(1, "was sent SIGUSR2", "has not written /no/such/folder/x.bgraph", "no answer within 5s", "standard error")

	f := announced()
	f.write("status", strings.NewReplacer("S (sleeping)", "T (stopped)", "%d", "0").Replace(goodStatus))
	f.refuses(1, "no answer within 5s", "It is stopped", "kill -CONT 4711")

	f = announced()
	f.process.onSignal = func() error { f.process.ended = true; return nil }
	testenv.Equal(t, isEnded(f.refuses(1, "ended before")), true, "it counts as ended")

	f = announced()
	f.clock.short = 0
	ctx, cancel := context.WithCancel(context.Background())
	f.process.onSignal = func() error { cancel(); return nil }
	testenv.ErrorIs(t, testenv.Err(f.source().Snapshot(ctx)), context.Canceled, "interrupted")
}

func TestAnswersThatAreNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	answer := func(fn func() error) *fakeProc {
		f := newFakeProc(t)
		f.announce(7, marks(path))
		f.process.onSignal = fn
		return f
	}
	answer(func() error { return os.WriteFile(path, []byte("nonsense"), 0o600) }).refuses(1, "not a dump", path)
	other := shop(t)
	other.Program.PID = 1
	answer(func() error { return bgraph.WriteFile(path, other) }).refuses(1, "calls itself 1, not 4711")
	testenv.Must(t, os.Remove(path))
	testenv.Must(t, unix.Mkfifo(path, 0o600))
	answer(nil).refuses(0, "not a file")
}

// The path is what the process calls the file, wherever it lives.
func TestAProcessInAContainer(t *testing.T) {
	f := newFakeProc(t)
	container := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(container, "run"), 0o755))
	testenv.Must(t, os.MkdirAll(filepath.Join(container, "var"), 0o755))
	testenv.Must(t, os.Symlink("/run", filepath.Join(container, "var", "run"))) // its own /run
	f.link("4711", "ns/mnt", "mnt:[2]")
	f.link("4711", "root", container)
	uid := os.Getuid()
	f.write("status", strings.Replace(fmt.Sprintf(goodStatus, uid, uid, uid, uid), "NSpid:\t4711", "NSpid:\t4711\t12", 1))
	f.announce(7, "capriccio-bgraph 1\npid 12\npath \"/var/run/x.bgraph\"\n")
	s := shop(t)
	s.Program.PID = 12
	f.process.onSignal = func() error { return bgraph.WriteFile(filepath.Join(container, "run", "x.bgraph"), s) }
	got := testenv.Need(f.source().Snapshot(context.Background()))(t)
	testenv.Equal(t, got.Program.PID, 12, "got the graph of")
	// What a link in there leads to outside is not for us.
	outside := writeDump(t, s)
	testenv.Must(t, os.Remove(filepath.Join(container, "run", "x.bgraph")))
	testenv.Must(t, os.Symlink("../../../../../../../../.."+outside, filepath.Join(container, "run", "x.bgraph")))
	f.process.onSignal = func() error { return bgraph.WriteFile(outside, s) }
	if got, err := f.source().Snapshot(context.Background()); err == nil {
		t.Errorf("read a file outside: %v", got.Program)
	}
}

// announcingProgram does what a runtime does: it announces where it writes its graph,
// and writes it when it gets the signal. Its argument is the path.
func announcingProgram() {
	path := os.Args[1]
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	fd, err := unix.MemfdCreate("capriccio-bgraph", unix.MFD_CLOEXEC)
	if err != nil {
		panic(err)
	}
	if _, err := fmt.Fprintf(os.NewFile(uintptr(fd), "marker"), "capriccio-bgraph 1\npid %d\npath %q\n", os.Getpid(), path); err != nil {
		panic(err)
	}
	fmt.Println("ready")
	for range signals {
		// The asking goroutine holds a lock, so that no summary is printed for nobody.
		quiet := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
		now := time.Now()
		s := &bgraph.Snapshot{Program: bgraph.Program{Name: fmt.Sprintf("quiet=%v", quiet), PID: os.Getpid(), Started: now.Add(-time.Second)}, Taken: now, Span: 1e9}
		if err := bgraph.WriteFile(path, s); err != nil {
			panic(err)
		}
	}
}

// silentProgram is a Go program that knows nothing of all this.
func silentProgram() {
	fmt.Println("ready")
	b := make([]byte, 1)
	os.Stdin.Read(b)
	fmt.Println("still here")
}

// start runs the test binary in another role and returns when it is ready.
func start(t *testing.T, role string, args ...string) (cmd *exec.Cmd, out *bufio.Reader, closeIn func() error) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in := testenv.Need(cmd.StdinPipe())(t)
	pipe := testenv.Need(cmd.StdoutPipe())(t)
	testenv.Must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); in.Close(); cmd.Wait() })
	r := bufio.NewReader(pipe)
	if line, err := r.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	return cmd, r, in.Close
}

func realSurroundings() *surroundings {
	return &surroundings{stdin: strings.NewReader(""), clock: systemClock{}, kernel: systemKernel()}
}

func TestARealProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bgraph")
	cmd, _, _ := start(t, "announces", path)
	pid := strconv.Itoa(cmd.Process.Pid)
	for range 3 {
		out := commandIn(t, context.Background(), realSurroundings(), "-timeout", "30s", "-json", pid).ok(t)
		testenv.Contains(t, out, `"quiet=true"`, "it does not know that it is asked by a program")
	}
	before := testenv.Need(os.ReadFile(path))(t)
	testenv.Must(t, cmd.Process.Signal(syscall.SIGUSR2))
	for again, err := before, error(nil); string(again) == string(before); again, err = os.ReadFile(path) {
		testenv.Must(t, err)
	}
	if s, err := bgraph.ReadFile(path); err != nil || s.Program.Name != "quiet=false" {
		t.Errorf("nobody has asked any more, and yet: %+v, %v", s, err)
	}
	testenv.Must(t, cmd.Process.Kill())
	cmd.Wait()
	commandIn(t, context.Background(), realSurroundings(), pid).fails(t, "there is no process "+pid)
}

func TestARealProcessThatIsNotMeantSurvives(t *testing.T) {
	cmd, out, closeIn := start(t, "silent")
	pid := cmd.Process.Pid
	commandIn(t, context.Background(), realSurroundings(), strconv.Itoa(pid)).fails(t, "was not asked", "built with")
	tasks := testenv.Need(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(t)
	for _, task := range tasks {
		if task.Name() != strconv.Itoa(pid) {
			commandIn(t, context.Background(), realSurroundings(), task.Name()).fails(t, "is a thread of process "+strconv.Itoa(pid))
		}
	}
	testenv.Must(t, closeIn())
	testenv.Equal(t, readAll(t, out), "still here\n", "it says")
}

func TestProcessOne(t *testing.T) {
	// Whatever it is, and whatever we may do to it, it is no program of ours.
	r := commandIn(t, context.Background(), realSurroundings(), "1")
	r.fails(t, "process 1")
	if !strings.Contains(r.errOut, "was not asked") && !strings.Contains(r.errOut, "belongs to") && !strings.Contains(r.errOut, "there is no") {
		t.Errorf("got %s", r.errOut)
	}
}
