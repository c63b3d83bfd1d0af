package capriccio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// envProgram makes the test binary one of the programs below.
const envProgram = "CAPRICCIO_TEST_PROGRAM"

func TestMain(m *testing.M) {
	programs := map[string]func() error{"stacks": stacksProgram, "echo": echoProgram, "runtimes": runtimesProgram, "stuck": stuckProgram, "refused": refusedProgram, "parked": parkedProgram}
	if run, ok := programs[os.Getenv(envProgram)]; ok {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// A signal that a test has sent to itself may be answered by the runtime of the next.
	dir, err := os.MkdirTemp("", "capriccio-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("TMPDIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// echoProgram is a server that ends on SIGTERM.
func echoProgram() error {
	return capriccio.Run(context.Background(), func(ctx context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(ln.Addr())
		return netpoll.Serve(ln, func(c *netpoll.Conn) {
			defer c.Close()
			io.Copy(c, c)
		})
	}, capriccio.WithLoops(2), capriccio.WithHoldLimit(-1))
}

// runtimesProgram makes and closes runtimes as its standard input says.
func runtimesProgram() error {
	var all []*task.Runtime
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "open":
			rt, err := capriccio.New(capriccio.WithLoops(1))
			if err != nil {
				return err
			}
			all = append(all, rt)
		case "close": // the oldest
			if err := all[0].Close(); err != nil {
				return err
			}
			if !testenv.Soon(func() bool { return !capriccio.Runs(all[0]) }) {
				return errors.New("a closed runtime is still counted among those that run")
			}
			all = all[1:]
		}
		fmt.Println("done", in.Text())
	}
	return nil
}

// stuckProgram has one loop, which a task keeps for ever.
func stuckProgram() error {
	_, err := capriccio.New(capriccio.WithLoops(1), capriccio.WithHoldLimit(-1))
	if err != nil {
		return err
	}
	task.Go(func() {
		ressched.YieldAt("before the end")
		fmt.Println("stuck")
		select {}
	})
	io.Copy(io.Discard, os.Stdin)
	return nil
}

// A program is one that runs.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer // to be read after end only
	dump   string
}

// start starts a program that writes its dumps into a folder of its own, and reads the
// first line that it prints.
func start(t *testing.T, name string, env ...string) (p *program, line string) {
	t.Helper()
	dir := t.TempDir()
	exe, err := os.Executable()
	testenv.Must(t, err)
	p = &program{t: t, cmd: exec.Command(exe)}
	p.cmd.Env = append(append(os.Environ(), envProgram+"="+name, "TMPDIR="+dir), env...)
	p.cmd.Stderr = &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out := testenv.Need(p.cmd.StdoutPipe())(t)
	p.out = bufio.NewReader(out)
	testenv.Must(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill() })
	p.dump = filepath.Join(dir, fmt.Sprintf("%s-%d.bgraph", filepath.Base(exe), p.cmd.Process.Pid))
	return p, p.line()
}

func (p *program) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.cmd.Wait()
		p.t.Fatalf("the program says %q, %v, and %s", line, err, &p.stderr)
	}
	return strings.TrimSpace(line)
}

func (p *program) say(text string) {
	p.t.Helper()
	fmt.Fprintln(p.in, text)
	testenv.MustEqual(p.t, p.line(), "done "+text, "what the program says to %q", text)
}

func (p *program) signal() {
	p.t.Helper()
	testenv.Must(p.t, p.cmd.Process.Signal(syscall.SIGUSR2))
}

// end waits for the program, which must end well, and returns its standard error.
func (p *program) end() string {
	p.t.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the program ended with %v: %s", err, &p.stderr)
	}
	return p.stderr.String()
}

// awaitFile waits for path to be another file than before, and reads it.
func awaitFile(t *testing.T, path string, before os.FileInfo) (*bgraph.Snapshot, os.FileInfo) {
	t.Helper()
	var info os.FileInfo
	if !testenv.Soon(func() (is bool) {
		now, err := os.Lstat(path)
		info = now
		return err == nil && !os.SameFile(now, before)
	}) {
		t.Fatalf("no new file %s", path)
	}
	if info.Mode() != 0o600 {
		t.Errorf("mode of the dump is %v, want 0600", info.Mode())
	}
	s := testenv.Need(bgraph.ReadFile(path))(t)
	return s, info
}

// load keeps a server busy until stop is closed; it counts the answers and reports what
// goes wrong.
func load(t *testing.T, addr string, stop <-chan struct{}, answers *atomic.Int64) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Minute)) // ten dumps may take long
	sent, got := make([]byte, 100), make([]byte, 100)
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		sent[0] = byte(i)
		if _, err := nc.Write(sent); err != nil {
			t.Error(err)
			return
		}
		if _, err := io.ReadFull(nc, got); err != nil || got[0] != sent[0] {
			t.Errorf("answer %d: %v, %d", i, err, got[0])
			return
		}
		answers.Add(1)
	}
}

func TestTenSignalsUnderLoad(t *testing.T) {
	p, addr := start(t, "echo")
	stop := make(chan struct{})
	var answers atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() { load(t, addr, stop, &answers) })
	}
	var info os.FileInfo
	var arrivals uint64
	for i := range 10 {
		was := answers.Load()
		if !testenv.Soon(func() bool { return answers.Load() >= was+100 }) {
			t.Fatal("the clients get no answers")
		}
		p.signal()
		var s *bgraph.Snapshot
		s, info = awaitFile(t, p.dump, info)
		now := uint64(0)
		for j := range s.Nodes {
			if n := &s.Nodes[j]; n.Reason == "read" {
				now += n.Arrivals
			}
		}
		if now <= arrivals || s.Program.PID != p.cmd.Process.Pid || len(s.Loops) != 2 {
			t.Errorf("dump %d of process %d has %d reads on %d loops; the one before had %d", i, s.Program.PID, now, len(s.Loops), arrivals)
		}
		arrivals = now
	}
	close(stop)
	clients.Wait()
	p.cmd.Process.Signal(syscall.SIGTERM)
	stderr := p.end()
	if n := strings.Count(stderr, "The whole graph is in "+p.dump); n != 10 {
		t.Errorf("%d summaries, want 10:\n%s", n, stderr)
	}
	for _, line := range strings.Split(stderr, "\n") {
		if strings.Contains(line, "panic") || strings.Contains(line, "goroutine ") {
			t.Errorf("standard error: %s", line)
		}
	}
	left, err := os.ReadDir(filepath.Dir(p.dump))
	if err != nil || len(left) != 1 {
		t.Errorf("in the folder of the dump: %v, %v; want the dump alone", left, err)
	}
}

func TestEveryRuntimeDumps(t *testing.T) {
	p, _ := start(t, "runtimes")
	first, second := p.dump, strings.TrimSuffix(p.dump, ".bgraph")+"-2.bgraph"
	p.say("open")
	p.say("open")
	p.signal()
	_, was := awaitFile(t, first, nil)
	_, info := awaitFile(t, second, nil)
	p.say("close")
	p.signal()
	awaitFile(t, second, info)
	if now, err := os.Lstat(first); err != nil || !os.SameFile(now, was) {
		t.Errorf("a closed runtime has written again, or its dump is gone: %v", err)
	}
	p.say("open") // takes the name that is free
	p.signal()
	awaitFile(t, first, was)
	p.say("close")
	p.say("close")
	p.signal() // to nobody, and the program lives on
	p.say("hello")
	p.say("open")
	p.end()
}

func TestSignalWithoutAGraph(t *testing.T) {
	p, _ := start(t, "runtimes", capriccio.EnvGraph+"=off")
	p.say("open")
	p.signal()
	p.say("hello")
	stderr := p.end()
	testenv.Fails(t, testenv.Err(os.Stat(p.dump)), "a dump was written")
	if stderr != "" && !strings.Contains(stderr, capriccio.EnvGraph+"=on") {
		t.Errorf("standard error: %s", stderr)
	}
}

// TestDumpOfAStuckProgram: that is when it is needed.
func TestDumpOfAStuckProgram(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "stuck.dump")
	p, _ := start(t, "stuck", capriccio.EnvDump+"="+dump)
	p.signal()
	s, _ := awaitFile(t, dump, nil)
	found := false
	for i := range s.Nodes {
		n := &s.Nodes[i]
		found = found || n.Label == "before the end" && n.Departures == 1
	}
	if !found {
		t.Errorf("the dump does not show where the stuck task came from: %+v", s.Nodes)
	}
	p.end()
}

// stacksProgram links as many chunks as the lines of its standard input say.
func stacksProgram() error {
	site := stackchunk.NewSite("stacks_test", 100<<10)
	return capriccio.Run(context.Background(), func(context.Context) error {
		fmt.Println("ready")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			site.Call(func() {})
			fmt.Println("done", in.Text())
		}
		return nil
	}, capriccio.WithLoops(1), capriccio.WithHoldLimit(-1))
}

// A stacksFile has some of what CAPRICCIO_STACKS writes.
type stacksFile struct {
	PID int `json:"pid"`
	stackchunk.Stats
	Sites   []chunk.SiteStats `json:"sites"`
	Classes []struct {
		Unlinks uint64 `json:"unlinks"`
	} `json:"classes"`
}

func readStacks(path string) (s stacksFile, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

func TestTheStatisticsOfStackChunksAreWritten(t *testing.T) {
	if !coro.Exact {
		t.Skip("with the portable stubs chunks are never linked")
	}
	path := filepath.Join(t.TempDir(), "stacks.json")
	p, _ := start(t, "stacks", capriccio.EnvStacks+"="+path)
	p.say("link")
	p.signal()
	var s stacksFile
	if !testenv.Soon(func() bool {
		var err error
		s, err = readStacks(path)
		return err == nil
	}) {
		t.Fatal("no file after SIGUSR2")
	}
	if s.Links != 1 || s.PID != p.cmd.Process.Pid || len(s.Sites) != 1 || s.Sites[0].Name != "stacks_test" || len(s.Classes) != 1 {
		t.Errorf("after SIGUSR2: %+v; want one link", s)
	}
	p.say("link again")
	stderr := p.end()
	if s, err := readStacks(path); err != nil || s.Links != 2 || s.Classes[0].Unlinks != 2 {
		t.Errorf("at the end: %+v, %v; want two links", s, err)
	}
	if strings.Contains(stderr, "statistics") {
		t.Errorf("standard error: %s", stderr)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("in the folder: %v, %v; want the file alone", left, err)
	}
}

// A program that ends as soon as its runtime is closed has written them, too.
func TestTheStatisticsAreThereWhenNewsRuntimeIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stacks.json")
	t.Setenv(capriccio.EnvStacks, path)
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1)))(t)
	testenv.Must(t, rt.Close())
	if s, err := readStacks(path); err != nil || s.PID != os.Getpid() {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestAFolderForTheStatisticsIsRefused(t *testing.T) {
	t.Setenv(capriccio.EnvStacks, t.TempDir())
	if rt, err := capriccio.New(); err == nil || !strings.Contains(err.Error(), capriccio.EnvStacks) {
		t.Errorf("error %v, want one that names %s", err, capriccio.EnvStacks)
		if rt != nil {
			rt.Close()
		}
	}
}
