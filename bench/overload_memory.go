package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	memoryHeld  = 1 << 20 // bytes a request allocates, touches and holds
	memoryLimit = "512MiB"
	memoryCap   = 1 << 30 // resident bytes beyond which a server is killed

	longSuffix  = "-1s"    // of metrics of requests that hold for a second
	retrySuffix = "-retry" // … of servers that may refuse, with clients that do as Retry-After says
)

// memoryMain are the numbers of clients. A quick run has more of them for the first system only, and for requests that
// hold for a short time.
var memoryMain = []float64{512, 4096, 16_384}

var overloadMemoryExperiment = experiment{
	name: "overload-memory",
	doc:  "requests that hold 1 MiB each, up to 16,384 at a time, GOMEMLIMIT=512MiB",
	prepare: func(r *run, e *experiment) error {
		m := &matrix{run: r}
		held := func(metric string, first bool, reserved time.Duration, clients ...float64) part {
			return part{points: pointsAt(metric, clients...), length: time.Second, reserved: reserved, systems: func(*run) []contender {
				all := m.contendersOf(m.system, m.memorySample, m.memoryTakes, "capriccio", "capriccio-fifo", "net-http")
				return choose(first, all[:1], all)
			}}
		}
		e.parts = choose(r.quick, []part{
			held("hold", false, 19*time.Second, memoryMain...),
			held("hold", true, 16*time.Second, 64, 256, 1024),
			held("hold"+longSuffix, false, 6*time.Second, 512, 4096),
			held("hold"+retrySuffix, true, 0, 4096, 16_384),
		}, []part{
			held("hold", false, 0, 64, 512, 4096, 16_384),
			held("hold"+longSuffix, false, 0, 64, 512, 4096),
			held("hold"+retrySuffix, true, 0, memoryMain...),
		})
		return nil
	},
	notes: []string{
		fmt.Sprintf("x: clients of a closed loop; each request allocates 1 MiB, touches it and holds it for 50 ms, in metrics named *%s for 1 s; GOMEMLIMIT=%s", longSuffix, memoryLimit),
		fmt.Sprintf("a server of more than %d MiB resident is killed: its goodput is 0 (killed: 1)", memoryCap>>20),
		fmt.Sprintf("requests wait rather than be refused, but in metrics named *%s, where clients do as Retry-After says and wait for up to as long again", retrySuffix),
		"p99-to-mean: 99th percentile divided by the mean that Little's law gives, clients ÷ goodput, where there was time for several means; longest: the longest wait of all, also of requests still waiting at the end",
		"gc-share: of the core's time, without what the collector does while nothing else is to be done",
	},
	charts: []report.Chart{
		{Title: "Requests served, held 50 ms", Metric: "goodput", XLabel: "clients"},
		{Title: "Requests served, held 1 s", Metric: "goodput" + longSuffix, XLabel: "clients"},
		{Title: "99th percentile, held 50 ms", Metric: "p99", XLabel: "clients", LogY: true},
		{Title: "Resident memory", Metric: "rss-mb", XLabel: "clients"},
		{Title: "Share of the collector", Metric: "gc-share", XLabel: "clients"},
	},
}

// memoryTimes are how long to load a server before measuring, and how long to measure.
// With many clients each waits long for its turn, and several turns are to be seen; a
// quick run only has the time for that with our own system.
func memoryTimes(quick bool, system string, p point) (warm, span time.Duration) {
	long, retry := p.metric == "hold"+longSuffix, p.metric == "hold"+retrySuffix
	ours := system == "capriccio"
	switch {
	case !quick && p.x <= 1024 && !long && !retry:
		return 500 * time.Millisecond, 1500 * time.Millisecond
	case !quick && p.x <= 4096:
		return 1500 * time.Millisecond, 3 * time.Second
	case !quick:
		return 3 * time.Second, 8 * time.Second
	case long:
		return 1100 * time.Millisecond, 1200 * time.Millisecond
	case retry:
		return 1300 * time.Millisecond, 1300 * time.Millisecond
	case p.x <= 1024:
		return 200 * time.Millisecond, 500 * time.Millisecond
	case p.x <= 4096 || !ours:
		return 600 * time.Millisecond, 900 * time.Millisecond
	default:
		return 1200 * time.Millisecond, 2800 * time.Millisecond
	}
}

func (m *matrix) memoryTakes(system string, p point) time.Duration {
	warm, span := memoryTimes(m.quick, system, p)
	return warm + span
}

// memorySample starts a server afresh and keeps an eye on it while clients load it.
func (m *matrix) memorySample(ctx context.Context, system launcher, p point) ([]sample, error) {
	shape, n := m.memoryShape(system, p), needs{counted: true, watch: memoryCap, env: []string{"GOMEMLIMIT=" + memoryLimit}}
	suffix := strings.TrimPrefix(p.metric, "hold")
	shape.patient = suffix == retrySuffix
	if suffix == longSuffix {
		shape.hold = time.Second
	}
	if !shape.patient {
		n.env = append(n.env, waitsEnv)
	}
	samples, _, err := m.memoryLoad(ctx, system, n, shape)
	return suffixed(samples, suffix), err
}

// memoryShape is a closed loop of requests that hold memory.
type memoryShape struct {
	clients    float64
	hold       time.Duration
	warm, span time.Duration
	patient    bool // clients do as Retry-After says
}

func (m *matrix) memoryShape(system launcher, p point) memoryShape {
	s := memoryShape{clients: p.x, hold: 50 * time.Millisecond}
	s.warm, s.span = memoryTimes(m.quick, system.system, p)
	return s
}

// memoryLoad has clients load a server and watches how much memory it takes. The server is closed
// when it returns.
func (m *matrix) memoryLoad(ctx context.Context, system launcher, n needs, shape memoryShape) ([]sample, *server, error) {
	x, measured := shape.clients, shape.warm+shape.span
	var before, after counts
	r := row{overload: true, needs: n, load: load.ClosedConfig{
		Mix: mixed(alone(fmt.Sprintf("/do?alloc=%d&sleep=%v", memoryHeld, shape.hold))...), Clients: int(x),
		Warm: shape.warm, For: shape.span, Patient: shape.patient,
	}}
	r.acts = []act{
		{shape.warm, func(m *matrix, s *server) (err error) {
			s.watch.most.Store(0)
			before, err = s.askCounts(ctx)
			return err
		}},
		{measured, func(m *matrix, s *server) (err error) {
			after, err = s.askCounts(ctx)
			return err
		}},
	}
	seen, s, err := m.loaded(ctx, system, r, &extent{}, 1)
	if err != nil {
		return nil, nil, err
	}
	samples := []sample{{"goodput", "req/s", x, 0}}
	if !s.dead {
		gc := 0.0
		if all := after.all - before.all; all > 0 {
			gc = 100 * (after.gc - before.gc) / all
		}
		samples = append(seen.outcome(x, seen.rate(seen.All.Served)), sample{"longest", "ms", x, milliseconds(seen.Longest)})
		samples = append(append(samples, seen.usage(x)...), sample{"gc-share", "%", x, gc})
		samples = append(samples, fairness(samples, x, measured)...)
	}
	return append(samples,
		sample{"rss-mb", "MiB", x, float64(s.watch.most.Load()) / (1 << 20)},
		sample{"killed", "1", x, choose(s.dead, 1.0, 0)}), s, nil
}

// fairness compares the 99th percentile with the mean that Little's law gives. There is
// nothing to compare unless the clients were loading for several such means: requests
// that wait longest are not seen otherwise.
func fairness(samples []sample, clients float64, loaded time.Duration) []sample {
	const means = 2.5
	values := valuesOf(samples)
	goodput, p99 := values["goodput"], values["p99"]
	if p99 == 0 || goodput*loaded.Seconds() < means*clients {
		return nil
	}
	return []sample{{"p99-to-mean", "1", clients, p99 / 1e3 * goodput / clients}}
}

// groupLimit is what a server and the kernel's memory for it may take, as in a container.
const groupLimit = 512 << 20

// overloadCgroupExperiment is overload-memory as it comes to a container: a memory cgroup has the
// limit that the Go runtime has not been told, and the kernel kills the process that takes more.
var overloadCgroupExperiment = experiment{
	name: "overload-cgroup",
	doc:  "requests that hold 1 MiB each in a memory cgroup of 512 MiB, without GOMEMLIMIT",
	prepare: func(r *run, _ *experiment) error {
		return r.prepare(0, func() error { return proc.CanHave(proc.NewMemoryGroup(groupLimit)) })
	},
	parts: []part{{
		points: pointsAt("hold", memoryMain...),
		systems: func(r *run) []contender {
			m := &matrix{run: r}
			return m.contendersOf(m.system, m.groupSample, m.memoryTakes, "capriccio", "capriccio-fifo", "net-http", memlimitSystem)
		},
		length: time.Second,
	}},
	notes: []string{
		"x: clients of a closed loop; each request allocates 1 MiB, touches it and holds it for 50 ms; requests wait rather than be refused",
		fmt.Sprintf("the server is in a memory cgroup of %d MiB, GOMEMLIMIT is not set, but to nine tenths of it for %s; killed: 1 if the kernel has killed it, then its goodput is 0", groupLimit>>20, memlimitSystem),
		"group-mb: the most that the group has used, kernel memory included",
	},
	charts: []report.Chart{{Title: "Requests served, held 50 ms", Metric: "goodput", XLabel: "clients"}},
}

func (m *matrix) groupSample(ctx context.Context, system launcher, p point) ([]sample, error) {
	n := needs{counted: true, memory: groupLimit, watch: memoryCap, env: []string{waitsEnv}}
	if system.system == memlimitSystem {
		n.env = append(n.env, "GOMEMLIMIT="+strconv.Itoa(groupLimit*9/10))
	}
	samples, s, err := m.memoryLoad(ctx, system, n, m.memoryShape(system, p))
	if err != nil {
		return nil, err
	}
	if s.peakErr != nil {
		return nil, fmt.Errorf("the most that the group has used: %w", s.peakErr)
	}
	return append(samples, sample{"group-mb", "MiB", p.x, float64(s.peak) / (1 << 20)}), nil
}

// memoryWatch looks at a child's resident memory and kills it when it takes too much: a
// stand-in for a machine, or a memory cgroup, that has no more.
type memoryWatch struct {
	most   atomic.Int64 // bytes, since it was last set to 0
	killed atomic.Bool
	stop   chan struct{}
	ended  chan struct{}
}

// watchEvery is short beside the time it takes to touch much memory: 4 ms are some 10 MiB.
const watchEvery = 4 * time.Millisecond

func watchMemory(child *proc.Child, limit int64) *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
			var size, resident int64 // in pages (proc_pid_statm(5))
			statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", child.PID()))
			if n, _ := fmt.Sscan(string(statm), &size, &resident); n < 2 {
				return // it has ended
			}
			resident *= int64(os.Getpagesize())
			w.most.Store(max(w.most.Load(), resident))
			if resident > limit {
				w.killed.Store(true)
				child.Signal(syscall.SIGKILL)
				return
			}
		}
	}()
	return w
}

func (w *memoryWatch) end() {
	close(w.stop)
	<-w.ended
}

// belowCap runs a worker, which takes about span, and kills it if it takes more memory than allowed. It returns what the
// worker has printed and the most MiB that it had.
func belowCap(ctx context.Context, span time.Duration, command proc.Command, limit int64) (printed []sample, most float64, killed bool, err error) {
	ctx, cancel := within(ctx, span+sampleTimeout)
	defer cancel()
	child, err := proc.Start(command)
	if err != nil {
		return nil, 0, false, err
	}
	defer child.Close()
	watch := watchMemory(child, limit)
	var lines []string
	for line, err := child.Line(ctx); err == nil; line, err = child.Line(ctx) {
		lines = append(lines, line)
	}
	err = child.Wait(ctx)
	watch.end()
	if killed = watch.killed.Load(); killed {
		err = nil
	}
	if err == nil && len(lines) > 0 {
		printed, err = parseSamples(lines)
	}
	return printed, float64(watch.most.Load()) / (1 << 20), killed, err
}
