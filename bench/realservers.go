package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	graphdraw "github.com/capriccio-go/capriccio/internal/graphview/draw"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
)

// A realServer is one that many people run, built as it is published.
type realServer struct {
	system, pkg, version string
	// config is its configuration: listening at addr, and for profiles at another address. In dir it may
	// keep things, and has visitedFile.
	config func(dir, addr, profiles string) string
	args   func(config string) []string
}

var realServers = []realServer{
	{"caddy", "github.com/caddyserver/caddy/v2/cmd/caddy", "v2.10.2", func(dir, addr, profiles string) string {
		return fmt.Sprintf(caddyConfig, dir, addr, profiles)
	}, func(config string) []string { return []string{"run", "--adapter", "caddyfile", "--config", config} }},
	{"nats-server", "github.com/nats-io/nats-server/v2", "v2.14.5", func(_, addr, profiles string) string {
		_, port, _ := net.SplitHostPort(profiles)
		return fmt.Sprintf("listen: %q\nprof_port: %s\n", addr, port)
	}, func(config string) []string { return []string{"-c", config} }},
}

// caddyConfig serves a file, and the same through its reverse proxy.
const caddyConfig = `{
	admin %[3]s
	auto_https off
	persist_config off
	storage file_system %[1]s
}
http://%[2]s {
	handle_path /proxy/* {
		reverse_proxy %[2]s
	}
	handle {
		root * %[1]s
		file_server
	}
}
`

// A tracedServer is a real server with its visitors.
type tracedServer struct {
	*server
	bgdump   string // the program
	profiles string // URL
	visitors *proc.Child
	picture  string // where to write a drawing of it; "": nowhere any more
}

// realServersExperiment asks servers of others for a trace, as their owners would: how long it takes
// until something is seen, how much that is, and what it costs the server.
var realServersExperiment = experiment{
	name: "real-servers",
	doc:  "Caddy and NATS, as they are published, shown by bgdump while they work",
	parts: []part{{
		points:  pointsAt("trace", 5),
		quick:   pointsAt("trace", 1),
		systems: (*run).tracedServers,
		length:  time.Second,
	}},
	notes: []string{fmt.Sprintf("x: seconds of trace; %d visitors, each of whom asks again when answered; shown-after: from the end of those seconds until the text of bgdump is complete; rate and cpu-per-op: of the server, with -traced while the trace is taken; graph-NAME.svg is its drawing", realVisitors)},
}

// tracedServers are servers that end with the run.
func (r *run) tracedServers() (contenders []contender) {
	bgdump, err := r.buildCommand("cmd/bgdump")
	if err != nil {
		r.skip("real-servers", err)
		return nil
	}
	for _, real := range realServers {
		if !r.wants(real.system) {
			continue
		}
		t := &tracedServer{server: &server{}}
		err := r.prepare(0, func() (err error) { t, err = r.startReal(real); return err })
		if err != nil {
			r.skip(real.system, err)
			continue
		}
		r.ends = append(r.ends, t.close)
		t.bgdump, t.picture = bgdump, filepath.Join(r.folder, "graph-"+real.system+".svg")
		contenders = append(contenders, contender{system: real.system, sample: t.sample,
			takes: func(p point, d time.Duration) time.Duration { return d + time.Duration(2*p.x)*time.Second }})
	}
	r.began = time.Now() // without what it took to build
	return contenders
}

func (t *tracedServer) close() {
	t.server.close()
	if t.visitors != nil {
		t.visitors.Close()
	}
}

func (r *run) startReal(real realServer) (*tracedServer, error) {
	path, err := r.buildPublished(real.pkg, real.version)
	if err != nil {
		return nil, err
	}
	profiles, reserved, err := reserveAddress()
	if err != nil {
		return nil, err
	}
	reserved.Close()
	var unwritten error
	s, err := startConfigured(r.ctx, needs{}, configured{system: real.system, path: path,
		configure: func(dir, addr string) string {
			unwritten = os.WriteFile(filepath.Join(dir, visitedFile), []byte("Hello, World!"), 0o666)
			return real.config(dir, addr, profiles)
		},
		args: func(dir, config string) []string { return real.args(config) },
	}, r.scratch)
	if err != nil {
		return nil, err
	}
	if unwritten != nil {
		s.child.Close()
		return nil, unwritten
	}
	visitors, err := proc.Start(proc.Command{Path: r.self, Args: []string{workerCommand, "visits", real.system, s.addr}, Core: clientCore})
	if err != nil {
		s.child.Close()
		return nil, err
	}
	return &tracedServer{server: s, profiles: "http://" + profiles, visitors: visitors}, nil
}

// A look is how much the server has done and used so far.
type look struct {
	at  time.Time
	ops float64
	cpu time.Duration
}

func (t *tracedServer) look(ctx context.Context) (l look, err error) {
	_ = t.visitors.Tell("how many") // if they have ended, Line says why
	line, err := t.visitors.Line(ctx)
	if err != nil {
		return l, err
	}
	l.at = time.Now()
	if l.ops, err = strconv.ParseFloat(line, 64); err == nil {
		l.cpu, err = proc.CPUTime(t.child.PID())
	}
	return l, err
}

// during returns the samples of rate and cost while fn runs.
func (t *tracedServer) during(ctx context.Context, x float64, suffix string, fn func() error) ([]sample, error) {
	before, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	if err := fn(); err != nil {
		return nil, err
	}
	after, err := t.look(ctx)
	if err != nil {
		return nil, err
	}
	ops := after.ops - before.ops
	if ops == 0 {
		return nil, fmt.Errorf("%s answered nobody in %v", t.system, after.at.Sub(before.at))
	}
	return []sample{{"rate" + suffix, "ops/s", x, ops / after.at.Sub(before.at).Seconds()},
		{"cpu-per-op" + suffix, "µs", x, (after.cpu - before.cpu).Seconds() * 1e6 / ops}}, nil
}

func (t *tracedServer) sample(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
	span := time.Duration(p.x * float64(time.Second))
	out, err := t.during(ctx, p.x, "", func() error {
		select {
		case <-time.After(span):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	var graph []sample
	var failed error
	var reading sync.WaitGroup
	reading.Go(func() { graph, failed = t.graph(read, p.x) })
	traced, err := t.during(ctx, p.x, "-traced", func() error {
		defer write.Close()
		status, err := fetch(ctx, http.DefaultClient, http.MethodGet, fmt.Sprintf("%s/debug/pprof/trace?seconds=%d", t.profiles, int(p.x)), nil, write)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("asked for a trace: status %d", status)
		}
		return err
	})
	write.Close() // if it has not come to that
	reading.Wait()
	if err = cmp.Or(err, failed); err != nil {
		return nil, err
	}
	out = append(append(out, traced...), graph...)
	shown, err := t.show(ctx, p.x, span)
	return append(out, shown...), err
}

// graph reads a trace: what it shows.
func (t *tracedServer) graph(in io.ReadCloser, x float64) ([]sample, error) {
	size := &counting{r: in}
	defer io.Copy(io.Discard, in) // so that the server can go on
	s, err := gotrace.Read(size, gotrace.Options{Name: t.system})
	if err != nil {
		return nil, err
	}
	if t.picture != "" {
		err := writeFile(t.picture, func(w io.Writer) error { return graphdraw.WriteSVG(w, s, graphdraw.Options{Prune: 0.02}) })
		if err != nil {
			return nil, err
		}
		t.picture = ""
	}
	var steps uint64
	for i := range s.Edges {
		steps += s.Edges[i].Count
	}
	return []sample{{"size", "MB", x, float64(size.n) / 1e6}, {"nodes", "1", x, float64(len(s.Nodes))}, {"edges", "1", x, float64(len(s.Edges))},
		{"steps", "1", x, float64(steps)}, {"findings", "1", x, float64(len(lint.Find(s)))}}, nil
}

// show runs bgdump as a user does.
func (t *tracedServer) show(ctx context.Context, x float64, span time.Duration) ([]sample, error) {
	cmd := exec.CommandContext(ctx, t.bgdump, "-timeout", "1m", "-seconds", strconv.Itoa(int(x)), t.profiles)
	wall, peak, err := runWatched(cmd)
	if err != nil {
		return nil, fmt.Errorf("bgdump: %w", err)
	}
	return []sample{{"shown-after", "s", x, (wall - span).Seconds()}, {"bgdump-cpu", "s", x, seconds(cmd)}, {"bgdump-resident", "MB", x, peak}}, nil
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
