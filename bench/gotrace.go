package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	exptrace "golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/bgraph/gotrace"
	"github.com/capriccio-go/capriccio/bgraph/graphview"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// runGoTrace reads one trace with our reader, up to the text of its graph, with go tool
// trace, up to its first page, and with nothing but the decoder that ours stands on.
func runGoTrace(r *run) error {
	path := filepath.Join(r.scratch, "trace.out")
	rounds := 150_000
	if !r.quick {
		rounds *= 5
	}
	if err := traceChannels(path, rounds); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	size := float64(info.Size()) / 1e6
	var contenders []contender
	for _, how := range []struct{ system, flag string }{{"gotrace", "graph"}, {"x-exp-trace", "decode"}} {
		contenders = append(contenders, contender{system: how.system, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			cmd := exec.CommandContext(ctx, r.self, workerCommand, "gotrace", how.flag, path)
			began := time.Now()
			out, err := cmd.Output()
			if err != nil {
				return nil, err
			}
			wall := time.Since(began).Seconds()
			return append(traceSamples(p.x, size, cmd.ProcessState.SystemTime()+cmd.ProcessState.UserTime(), maxResident(cmd)),
				sample{"events", "M/s", p.x, countIn(out) / 1e6 / seconds(cmd)}, sample{"wall", "MB/s", p.x, size / wall}), nil
		}})
	}
	tool := contender{system: "go-tool-trace", sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
		return firstPage(ctx, path, p.x, size)
	}}
	if err := r.measure([]point{{metric: "trace", x: size}}, append(contenders, tool), time.Second); err != nil {
		return err
	}
	r.note("x is the size of the trace in MB: two goroutines that pass values over a channel; CPU time and memory are those of the process, until its text or its first page; x-exp-trace decodes the events and drops them, which is what gotrace cannot be faster than")
	r.charts = []report.Chart{{Title: "Reading an execution trace, CPU time", Metric: "cpu", XLabel: "MB of trace", Bars: true}}
	return nil
}

// traceChannels writes a trace of rounds of two goroutines.
func traceChannels(path string, rounds int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := trace.Start(f); err != nil {
		return err
	}
	ping, pong := make(chan int), make(chan int)
	var wg sync.WaitGroup
	wg.Go(func() {
		for v := range ping {
			pong <- v
		}
	})
	for i := range rounds {
		ping <- i
		<-pong
	}
	close(ping)
	wg.Wait()
	trace.Stop()
	return nil
}

// readTraceWorker is the process that is measured. It prints how many events it has seen.
func readTraceWorker(args []string, out io.Writer) error {
	if len(args) != 2 || args[0] != "graph" && args[0] != "decode" {
		return fmt.Errorf("%s gotrace: want graph or decode, and the file of a trace", workerCommand)
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	if args[0] == "decode" {
		events, err := decodeTrace(f)
		fmt.Fprintln(out, events)
		return err
	}
	s, err := gotrace.Read(f, gotrace.Options{})
	if err != nil {
		return err
	}
	if err := graphview.WriteText(io.Discard, s, graphview.TextOptions{}); err != nil {
		return err
	}
	var changes uint64
	for i := range s.Nodes {
		n := &s.Nodes[i]
		changes += n.Arrivals + n.Departures + n.Wait.Count // blocks, runs, wakes
	}
	fmt.Fprintln(out, changes)
	return nil
}

func decodeTrace(f io.Reader) (events int, err error) {
	r, err := exptrace.NewReader(f)
	for err == nil {
		if _, err = r.ReadEvent(); err == nil {
			events++
		}
	}
	if err == io.EOF {
		err = nil
	}
	return events, err
}

func countIn(out []byte) float64 {
	v, _ := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return v
}

func seconds(cmd *exec.Cmd) float64 {
	return max((cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()).Seconds(), 1e-9)
}

func maxResident(cmd *exec.Cmd) float64 {
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		return float64(u.Maxrss) / 1e3
	}
	return 0
}

func traceSamples(x, size float64, cpu time.Duration, resident float64) []sample {
	return []sample{{"cpu", "s", x, cpu.Seconds()}, {"speed", "MB/s", x, size / max(cpu.Seconds(), 1e-9)}, {"resident", "MB", x, resident}}
}

var toolAddress = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

// firstPage runs go tool trace until it has answered.
func firstPage(ctx context.Context, path string, x, size float64) ([]sample, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.Command("go", "tool", "trace", "-http=127.0.0.1:0", path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "BROWSER=true") // opens nothing
	said := &saidOnce{found: make(chan string, 1)}
	cmd.Stderr, cmd.Stdout = said, said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var failed error
	select {
	case url := <-said.found:
		resp, err := http.Get(url)
		if failed = err; err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	case <-ctx.Done():
		failed = context.Cause(ctx)
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	cmd.Wait()
	if failed != nil {
		return nil, failed
	}
	// Of a process that was killed its parent does not know the children's time: go runs the tool
	// itself by exec, so that it is one process.
	return traceSamples(x, size, cmd.ProcessState.SystemTime()+cmd.ProcessState.UserTime(), maxResident(cmd)), nil
}

// saidOnce looks for an address in what a program writes.
type saidOnce struct {
	mu    sync.Mutex
	text  bytes.Buffer // guarded by mu
	found chan string
}

func (s *saidOnce) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text.Len() < 1<<16 {
		s.text.Write(p)
	}
	if url := toolAddress.Find(s.text.Bytes()); url != nil {
		select {
		case s.found <- string(url):
		default:
		}
	}
	return len(p), nil
}
