package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
	exptrace "golang.org/x/exp/trace"
)

// goTraceExperiment reads traces with our reader, up to the text of the graph, with go tool
// trace, up to its first page, and with nothing but the decoder that ours stands on.
var goTraceExperiment = experiment{
	name:    "gotrace",
	doc:     "reading an execution trace, beside go tool trace",
	prepare: prepareGoTrace,
	charts:  []report.Chart{{Title: "Reading an execution trace, CPU time", Metric: "cpu-net-http", XLabel: "", Bars: true}},
}

// prepareGoTrace records the traces, and sets the parts of e, which read them.
func prepareGoTrace(r *run, e *experiment) error {
	rounds, span := choose(r.quick, 150_000, 750_000), choose(r.quick, time.Second, 5*time.Second)
	points, of, requests, err := r.takeTraces(rounds, span)
	if err != nil {
		return err
	}
	bgdump, err := r.buildCommand("cmd/bgdump")
	if err != nil {
		return err
	}
	again := &replay{}
	err = r.prepare(2*span, func() (err error) {
		again, err = r.replayed(filepath.Join(r.scratch, "replay.trace"), 5*span)
		return err
	})
	if err != nil {
		return err
	}
	reads := func(how string) sampler {
		return func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			f := of[p]
			cmd := exec.CommandContext(ctx, r.self, workerCommand, "gotrace", how, f.path)
			wall, peak, err := runWatched(cmd)
			if err != nil {
				return nil, err
			}
			samples := append(traceSamples(p, f, seconds(cmd), wall, peak), sample{"events-" + p.metric, "M/s", p.x, float64(f.events) / 1e6 / seconds(cmd)})
			if how != "graph" {
				return samples, nil
			}
			samples = append(samples, sample{"resident-share-" + p.metric, "%", p.x, 100 * peak / (64 + 2*float64(f.generation)/1e6)})
			if p.metric != "net-http" {
				return samples, nil
			}
			shown, err := shownAfter(ctx, bgdump, again)
			return append(samples, sample{"shown-500k", "s", p.x, wall.Seconds() * 500_000 / float64(requests)},
				sample{"shown-after-100k", "s", p.x, shown.Seconds()}), err
		}
	}
	e.parts = []part{{points: points, length: time.Second, systems: func(*run) []contender {
		return slower(2*span, []contender{{system: "gotrace", sample: reads("graph")}, {system: "x-exp-trace", sample: reads("decode")},
			{system: "go-tool-trace", sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) { return firstPage(ctx, of[p], p) }}})
	}}}
	for _, p := range points {
		f := of[p]
		e.notes = append(e.notes, fmt.Sprintf("%s: %d events in %.1f MB, of which the largest generation has %.1f MB", p.metric, f.events, float64(f.size)/1e6, float64(f.generation)/1e6))
	}
	e.notes = append(e.notes, fmt.Sprintf("channels: two goroutines that pass values; net-http: a server of small responses, 32 clients of another process, as fast as it can for %v (%d requests); CPU time and memory are those of the process, wall is the time until its text or its first page; x-exp-trace decodes the events and drops them, which is what gotrace cannot be faster than; resident-share is memory as a share of 64 MB and twice the largest generation; shown-500k is the wall time for as many requests as a server answers in 5 s at 100,000/s, by that of this trace, as if reading began only at their end; shown-after-100k is how long after its end bgdump has shown a trace of such a server, of %v of it, that comes from a URL: no server is so fast on two cores, so the trace of a slower one is sent in the time of a faster one, a second at a time; gotraceui is not here: it is a window, which does not build with today's releases of what it imports", span, requests, again.span.Round(10*time.Millisecond)))
	return nil
}

// takeTraces takes the traces that are read, and returns how many requests the server has answered meanwhile.
func (r *run) takeTraces(rounds int, span time.Duration) (points []point, of map[point]tracedFile, requests int, err error) {
	of = map[point]tracedFile{}
	for _, metric := range []string{"channels", "net-http"} {
		f := tracedFile{path: filepath.Join(r.scratch, metric+".trace")}
		err := r.prepare(2*span, func() (err error) {
			if metric == "channels" {
				err = traceChannels(f.path, rounds)
			} else {
				requests, err = r.traceServer(f.path, span)
			}
			if err != nil {
				return err
			}
			in, err := os.Open(f.path)
			if err != nil {
				return err
			}
			defer in.Close()
			return f.decode(in)
		})
		if err != nil {
			return nil, nil, 0, err
		}
		p := point{metric: metric}
		points, of[p] = append(points, p), f
	}
	return points, of, requests, nil
}

// A tracedFile is a trace and what is in it.
type tracedFile struct {
	path             string
	events           int
	size, generation int64 // bytes of all, and of the largest generation
}

// traceServer writes a trace of a server of net/http in this process, which another one keeps busy,
// and returns how many requests that was.
func (r *run) traceServer(path string, span time.Duration) (requests int, err error) {
	addr, stop, err := serveHere(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "Hello, World!") })
	if err != nil {
		return 0, err
	}
	defer stop()
	end, err := startTrace(path)
	if err != nil {
		return 0, err
	}
	defer end()
	samples, err := samplesOf(r.ctx, span, r.ownClient(append([]string{"load"}, flagPairs("addr", addr, "conns", 32, "for", span, "pid", os.Getpid())...)...))
	if err != nil {
		return 0, err
	}
	return requestsIn(samples)
}

// requestsIn returns how many requests a client has counted.
func requestsIn(samples []sample) (int, error) {
	i := slices.IndexFunc(samples, func(s sample) bool { return s.metric == "requests" })
	if i < 0 || samples[i].value < 1 {
		return 0, errors.New("the client has counted no requests")
	}
	return int(samples[i].value), nil
}

// serveHere serves by net/http in this process until stop is called.
func serveHere(handler http.HandlerFunc) (addr net.Addr, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	return ln.Addr(), func() { server.Close(); <-ended }, nil
}

// startTrace traces this process into a file until end is called.
func startTrace(path string) (end func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := trace.Start(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() { trace.Stop(); f.Close() }, nil
}

// traceChannels writes a trace of rounds of two goroutines.
func traceChannels(path string, rounds int) error {
	end, err := startTrace(path)
	if err != nil {
		return err
	}
	defer end()
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
	return nil
}

// readTraceWorker is the process that is measured.
func readTraceWorker(args []string, _ io.Writer) {
	if len(args) != 2 || args[0] != "graph" && args[0] != "decode" {
		check(fmt.Errorf("%s gotrace: want graph or decode, and the file of a trace", workerCommand))
	}
	f := must(os.Open(args[1]))
	if args[0] == "decode" {
		check(new(tracedFile).decode(f))
		return
	}
	check(tables.WriteText(io.Discard, must(gotrace.Read(f, gotrace.Options{})), tables.Options{}))
}

// decode counts what is in a trace. A generation is in memory as a whole before its first event comes,
// which is a sync.
func (f *tracedFile) decode(from io.Reader) error {
	in := &counting{r: from}
	r, err := exptrace.NewReader(in)
	if err != nil {
		return err
	}
	for {
		e, err := r.ReadEvent()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f.events++
		if e.Kind() == exptrace.EventSync {
			f.size, f.generation = in.n, max(f.generation, in.n-f.size)
		}
	}
}

func seconds(cmd *exec.Cmd) float64 {
	return max((cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()).Seconds(), 1e-9)
}

// watchPeak follows what process pid has resident at most until stop is called, which returns it in MB.
func watchPeak(pid int) (stop func() float64) {
	over, peak := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var most int64
		for {
			if now, err := proc.PeakMemory(pid); err == nil { // else it has ended
				most = max(most, now)
			}
			select {
			case <-over:
				peak <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() float64 { close(over); return float64(<-peak) / 1e6 }
}

// runWatched runs a program to its end, and returns how long that took and what it had resident at most, in MB.
func runWatched(cmd *exec.Cmd) (wall time.Duration, peak float64, err error) {
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	stop := watchPeak(cmd.Process.Pid)
	err = cmd.Wait()
	return time.Since(began), stop(), err
}

func traceSamples(p point, f tracedFile, cpu float64, wall time.Duration, peak float64) []sample {
	name := "-" + p.metric
	return []sample{{"cpu" + name, "s", p.x, cpu}, {"speed" + name, "MB/s", p.x, float64(f.size) / 1e6 / cpu}, {"resident" + name, "MB", p.x, peak}, {"wall" + name, "s", p.x, wall.Seconds()}}
}

var toolAddress = regexp.MustCompile(`http://[0-9.]+:[0-9]+`)

// firstPage runs go tool trace until it has answered.
func firstPage(ctx context.Context, f tracedFile, p point) ([]sample, error) {
	ctx, cancel := within(ctx, 2*time.Minute)
	defer cancel()
	tool, err := exec.CommandContext(ctx, "go", "tool", "-n", "trace").Output() // builds it, if need be
	if err != nil {
		return nil, err
	}
	began := time.Now()
	child, err := proc.Start(proc.Command{Path: "/bin/sh", Core: proc.AnyCore, Env: []string{"BROWSER=true"}, // which opens nothing
		Args: []string{"-c", `exec "$0" "$@" 2>&1`, strings.TrimSpace(string(tool)), "-http=127.0.0.1:0", f.path}})
	if err != nil {
		return nil, err
	}
	defer child.Close()
	url := ""
	for url == "" {
		line, err := child.Line(ctx)
		if err != nil {
			return nil, err
		}
		url = toolAddress.FindString(line)
	}
	if _, err := fetch(ctx, http.DefaultClient, http.MethodGet, url, nil, io.Discard); err != nil {
		return nil, err
	}
	wall := time.Since(began)
	cpu, err := proc.CPUTime(child.PID())
	if err != nil {
		return nil, err
	}
	peak, err := proc.PeakMemory(child.PID())
	return traceSamples(p, f, cpu.Seconds(), wall, float64(peak)/1e6), err
}

// replayRate is how many requests a second of a server are in the trace that it seems to send.
const replayRate = 100_000

// A replay answers as a server with net/http/pprof that has made replayRate requests a second while it
// was traced: a trace of fewer requests a second is sent in that much less time. What is of one
// second comes all at its end, as nothing of a generation can be read before that.
type replay struct {
	data  []byte
	span  time.Duration
	ended atomic.Int64 // UnixNano when the last second was over; 0: not yet
}

func (p *replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/debug/pprof/trace":
		http.NotFound(w, r)
	case r.FormValue("seconds") == "0.001": // whether there are traces
		w.Write(p.data[:min(len(p.data), 1<<10)])
	default:
		began, parts := time.Now(), max(1, int(p.span.Round(time.Second)/time.Second))
		for i := range parts {
			time.Sleep(time.Until(began.Add(p.span * time.Duration(i+1) / time.Duration(parts))))
			if i == parts-1 {
				p.ended.Store(time.Now().UnixNano())
			}
			w.Write(p.data[len(p.data)*i/parts : len(p.data)*(i+1)/parts])
			w.(http.Flusher).Flush()
		}
	}
}

// shownAfter runs bgdump as a user does, and returns how long after the end of the trace it had shown all.
func shownAfter(ctx context.Context, bgdump string, p *replay) (time.Duration, error) {
	addr, stop, err := serveHere(p.ServeHTTP)
	if err != nil {
		return 0, err
	}
	defer stop()
	p.ended.Store(0)
	if out, err := exec.CommandContext(ctx, bgdump, "-timeout", "1m", "http://"+addr.String()).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("bgdump: %w: %s", err, lastLine(out))
	}
	ended := p.ended.Load()
	if ended == 0 {
		return 0, fmt.Errorf("bgdump took no trace")
	}
	return time.Since(time.Unix(0, ended)), nil
}

// replayed takes a trace of a server for the replay.
func (r *run) replayed(path string, span time.Duration) (*replay, error) {
	requests, err := r.traceServer(path, span)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &replay{data: data, span: time.Duration(requests) * time.Second / replayRate}, nil
}
