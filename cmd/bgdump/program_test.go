//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph/graphhttp"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// coffeeProgram is a program on the runtime, with an admin address that it prints. Its
// argument is how many runtimes it has.
func coffeeProgram() {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	n, err := strconv.Atoi(os.Args[1])
	check(err)
	for range n {
		rt, err := capriccio.New(capriccio.WithLoops(1))
		check(err)
		for range 3 {
			brewing.Add(1)
			rt.Go(coffee)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	mux := http.NewServeMux()
	mux.Handle(handlerPath, graphhttp.Handler(nil))
	go http.Serve(ln, mux)
	brewing.Wait()
	fmt.Printf("ready\nhttp://%s\n", ln.Addr())
	io.Copy(io.Discard, os.Stdin)
}

// brewing counts the tasks that have not been everywhere yet.
var brewing sync.WaitGroup

func coffee() {
	for first := true; ; first = false {
		ressched.YieldAt("grind")
		if task.Sleep(time.Millisecond) != nil {
			return
		}
		if first {
			brewing.Done()
		}
	}
}

func TestAProgramOnTheRuntime(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "odd name.bgraph")
	t.Setenv(capriccio.EnvDump, dump)
	cmd, out, closeIn := start(t, "coffee", "1")
	line := testenv.Need(out.ReadString('\n'))(t)
	pid, url := strconv.Itoa(cmd.Process.Pid), strings.TrimSpace(line)
	ask := func(args ...string) string {
		t.Helper()
		return commandIn(t, context.Background(), realSurroundings(), append([]string{"-timeout", "30s"}, args...)...).ok(t)
	}
	for _, source := range []string{pid, url, url + handlerPath} {
		text := ask(source)
		for _, want := range []string{"pid " + pid, "grind", "sleep ", "coffee"} {
			testenv.Contains(t, text, want, source)
		}
	}
	testenv.Check(t, testenv.Err(os.Stat(dump)))
	// What has happened in between is a difference, wherever it comes from.
	before := filepath.Join(t.TempDir(), "before.bgraph")
	testenv.Must(t, os.WriteFile(before, []byte(ask("-dump", url)), 0o600))
	for range 5 {
		ask(pid)
	}
	var s bgraph.Snapshot
	testenv.Must(t, json.Unmarshal([]byte(ask("-json", before, pid)), &s))
	if whole, err := bgraph.ReadFile(before); err != nil || s.Span <= 0 || s.Span >= bgraph.Nanos(s.Taken.Sub(whole.Program.Started)) {
		t.Errorf("the difference covers %v, %v", s.Span, err)
	}
	testenv.Must(t, json.Unmarshal([]byte(ask("-json", "-seconds", "0.05", pid)), &s))
	testenv.AtLeast(t, s.Span, bgraph.Nanos(50*time.Millisecond), "-seconds 0.05 covers")
	testenv.Must(t, closeIn())
	testenv.Must(t, cmd.Wait())
	commandIn(t, context.Background(), realSurroundings(), pid).fails(t, "there is no process "+pid)
	commandIn(t, context.Background(), realSurroundings(), url).fails(t, "no program listens there")
}

func TestAProgramWithTwoRuntimes(t *testing.T) {
	t.Setenv(capriccio.EnvDump, t.TempDir())
	cmd, _, _ := start(t, "coffee", "2")
	src := &processSource{pid: cmd.Process.Pid, kernel: systemKernel(), clock: systemClock{}, timeout: 30 * time.Second}
	first := testenv.Need(src.Snapshot(context.Background()))(t)
	second := testenv.Need(src.Snapshot(context.Background()))(t)
	if len(first.Loops) != 2 || first.Program.PID != cmd.Process.Pid {
		t.Errorf("%d loops, process %d", len(first.Loops), first.Program.PID)
	}
	testenv.Check(t, testenv.Err(bgraph.Diff(first, second)))
}

func TestAProgramWithoutGraph(t *testing.T) {
	t.Setenv(capriccio.EnvGraph, "off")
	cmd, out, closeIn := start(t, "coffee", "1")
	line := testenv.Need(out.ReadString('\n'))(t)
	commandIn(t, context.Background(), realSurroundings(), strconv.Itoa(cmd.Process.Pid)).fails(t, "was not asked", "no runtime at work")
	commandIn(t, context.Background(), realSurroundings(), strings.TrimSpace(line)).fails(t, "503", "switched off")
	testenv.Must(t, closeIn())
	testenv.Must(t, cmd.Wait())
}

// The page itself is tested where it is made.
func TestThePageIsServed(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan result, 1)
	go func() {
		ended <- commandIn(t, ctx, &surroundings{stdout: w, clock: newFakeClock()}, "-http", ":0", "-focus", "session", shopFile)
		w.Close()
	}()
	line := testenv.Need(bufio.NewReader(r).ReadString('\n'))(t)
	go io.Copy(io.Discard, r)
	url := regexp.MustCompile(`http://127\.0\.0\.1:[1-9][0-9]*`).FindString(line)
	if url == "" || !strings.Contains(line, shopFile) {
		t.Fatalf("the first line is %q", line)
	}
	get := func(path string) string {
		resp := testenv.Need(http.Get(url + path))(t)
		defer resp.Body.Close()
		testenv.MustEqual(t, resp.StatusCode, http.StatusOK, "%s: %s", path, resp.Status)
		return readAll(t, resp.Body)
	}
	if page := get("/"); !strings.Contains(strings.ToLower(page), "<!doctype html>") {
		t.Errorf("the page is %.200s", page)
	}
	state := get("/api/state")
	for !strings.Contains(state, `"state":"ok"`) { // it asks as soon as it can
		state = get("/api/state")
	}
	if !strings.Contains(state, "sessions") || strings.Contains(state, "accessLog") {
		t.Errorf("not what -focus leaves: %.2000s", state)
	}
	command(t, "-http", strings.TrimPrefix(url, "http://"), shopFile).fails(t, "choose another port")
	cancel()
	if got := <-ended; got.code != exitOK || got.errOut != "" {
		t.Errorf("%+v", got)
	}
	http.DefaultClient.CloseIdleConnections()
}

// This process listens with two servers; one of them has net/http/pprof.
func TestProbe(t *testing.T) {
	sur := &surroundings{clock: systemClock{}, kernel: systemKernel(), stderr: io.Discard}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if _, err := probe(t.Context(), os.Getpid(), false, sur, time.Minute); err == nil || !strings.Contains(err.Error(), plain.Listener.Addr().String()) || !strings.Contains(err.Error(), "net/http/pprof") {
		t.Errorf("got %v; want an error with the address that was asked, and what to add", err)
	}
	partial := httptest.NewServer(newProfiled("/debug/pprof/cmdline", ""))
	defer partial.Close()
	if _, err := probe(t.Context(), os.Getpid(), false, sur, time.Minute); err == nil || !strings.Contains(err.Error(), partial.Listener.Addr().String()) || !strings.Contains(err.Error(), "serves profiles but no execution trace") {
		t.Errorf("got %v; want an error that names what is missing", err)
	}
	profiled := httptest.NewServer(newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	defer profiled.Close()
	u, err := probe(t.Context(), os.Getpid(), false, sur, time.Minute)
	if err != nil || u.Host != profiled.Listener.Addr().String() || u.Path != profilePath {
		t.Errorf("found %v, %v; want %s", u, err, profiled.URL)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testenv.Fails(t, testenv.Err(probe(ctx, os.Getpid(), false, sur, time.Minute)), "goes on after the end")
	testenv.ErrorSays(t, testenv.Err(probe(t.Context(), 1<<22+1, false, sur, time.Minute)), "not known", "of no process")
}

// TestAPlainProgramIsProbed: a Go program that serves net/http/pprof on a loopback address is traced by the id of its process; one
// that serves it to other machines is not, and no program of another language is.
func TestAPlainProgramIsProbed(t *testing.T) {
	profiles := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	serveAt := func(addr string) (asked *atomic.Int64) {
		asked = new(atomic.Int64)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			profiles.ServeHTTP(w, r)
		}))
		server.Listener.Close()
		server.Listener = testenv.Need(net.Listen("tcp4", addr))(t)
		server.Start()
		t.Cleanup(server.Close)
		return asked
	}
	pid := strconv.Itoa(os.Getpid())
	sur := func() *surroundings { return &surroundings{clock: systemClock{}, kernel: systemKernel()} }
	public := serveAt("0.0.0.0:0")
	commandIn(t, t.Context(), sur(), pid).fails(t, "was not asked", "-probe")
	testenv.Equal(t, public.Load(), 0, "requests at an address that other machines reach")
	serveAt("127.0.0.1:0")
	r := commandIn(t, t.Context(), sur(), "-seconds", "1", pid)
	if r.code != exitOK || !strings.Contains(r.out, "bakery, an execution trace") {
		t.Errorf("got %d, %s\n%.500s", r.code, r.errOut, r.out)
	}
	other := exec.Command("cat")
	in := testenv.Need(other.StdinPipe())(t)
	testenv.Must(t, other.Start())
	defer func() { in.Close(); other.Wait() }()
	for process, want := range map[int]bool{os.Getpid(): true, other.Process.Pid: false, 1<<22 + 1: false} {
		testenv.Equal(t, (&processSource{pid: process, kernel: systemKernel()}).isPlainGo(), want, "process %d is a Go program without a graph", process)
	}
}

// TestAProgramThatCannotBeTracedNow: a program whose profiles are in use, or slow, is not told to serve profiles.
func TestAProgramThatCannotBeTracedNow(t *testing.T) {
	clk := newFakeClock()
	for want, answer := range map[string]http.HandlerFunc{
		"somebody takes a trace of it just now": answers(500, "", "Could not enable tracing: tracing is already enabled"),
		"no answer within 7s; -timeout": func(_ http.ResponseWriter, r *http.Request) {
			clk.advance(7 * time.Second)
			<-r.Context().Done()
		},
	} {
		server := httptest.NewServer(answer)
		sur := &surroundings{clock: clk, kernel: systemKernel()}
		commandIn(t, t.Context(), sur, "-timeout", "7s", strconv.Itoa(os.Getpid())).fails(t, server.Listener.Addr().String(), want)
		server.Close()
	}
}

// TestClearer: of several ports of a program one may be silent, and another say that its profiles are in use.
func TestClearer(t *testing.T) {
	silent, answered := fmt.Errorf("at :1: %w", noAnswer{}), fmt.Errorf("at :2: %w", badAnswer{false, errors.New("in use")})
	for _, test := range []struct{ before, err, want error }{
		{nil, silent, silent}, {silent, answered, answered}, {answered, silent, answered}, {answered, fmt.Errorf("later: %w", answered), answered},
	} {
		testenv.Equal(t, clearer(test.before, test.err), test.want, "of %v and %v", test.before, test.err)
	}
}

// TestProbeOfAContainer: at the address where a process with a network of its own listens, another process may answer here.
func TestProbeOfAContainer(t *testing.T) {
	f := newFakeProc(t)
	server := httptest.NewServer(newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	testenv.Must(t, os.Mkdir(filepath.Join(f.root, "4711", "net"), 0o755))
	f.write("net/tcp", fmt.Sprintf("   0: 0100007F:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123 1\n", port))
	sur := &surroundings{clock: systemClock{}, kernel: f.source().kernel, stderr: io.Discard}
	for _, own := range []string{"net:[1]", "net:[2]"} {
		f.link("self", "ns/net", "net:[1]")
		f.link("4711", "ns/net", own)
		u, err := probe(t.Context(), 4711, false, sur, time.Minute)
		switch {
		case own == "net:[1]" && err != nil:
			t.Errorf("in the same network: %v", err)
		case own == "net:[2]" && (err == nil || !strings.Contains(err.Error(), "network of its own")):
			t.Errorf("in another network it found %v, %v", u, err)
		}
	}
}

func TestProbeIsInterrupted(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	commandIn(t, ctx, realSurroundings(), "-probe", strconv.Itoa(os.Getpid())).fails(t, "interrupted")
}

func TestParseSocket(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"00000000000000000000000001000000:17AC": "[::1]:6060",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"00000000:FFFF":                         "0.0.0.0:65535",
		"":                                      "",
		"0100007F":                              "",
		"01007F:0050":                           "",
		"0100007F:10000":                        "",
	} {
		if at, ok := parseSocket(text); ok != (want != "") || ok && at.String() != want {
			t.Errorf("%q: %v, %v; want %q", text, at, ok, want)
		}
	}
}
