package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// Parts of all overload experiments, besides the servers and clients of the experiment admission.

// waitsEnv has requests wait rather than be refused.
const waitsEnv = capriccio.EnvOverload + "=wait"

// memlimitSystem is net/http with GOMEMLIMIT set.
const memlimitSystem = "net-http-memlimit"

// serverOverhead is the time that a sample takes to start and end a server of chores.
const serverOverhead = 400 * time.Millisecond

// contendersOf are the named systems that find finds on this machine; the others are skipped with
// the reason. A sample takes as long as takes says.
func (m *matrix) contendersOf(find func(name string) (launcher, error), measure func(context.Context, launcher, point) ([]sample, error), takes func(system string, p point) time.Duration, names ...string) (found []contender) {
	for _, name := range names {
		system, err := find(name)
		if err != nil {
			m.fail(name, name, err)
			continue
		}
		found = append(found, contender{system: name, sample: func(ctx context.Context, p point, _ time.Duration) ([]sample, error) {
			return measure(ctx, system, p)
		}, takes: func(p point, _ time.Duration) time.Duration { return serverOverhead + takes(name, p) }})
	}
	return found
}

// limitedConns is what nginx is told to let through at a time. It is chosen by hand for
// this handler: 32 requests of 1 ms are well below the target of 100 ms.
const limitedConns = 32

// overloadSystem is a system; nginx stands before net/http, with a limit of requests under way.
func (m *matrix) overloadSystem(name string) (launcher, error) {
	if name != "nginx" {
		return m.system(name)
	}
	_, missing := m.find("nginx")
	behind, err := m.system("net-http")
	return launcher{name, func(ctx context.Context, n needs) (*server, error) {
		b, err := behind.start(ctx, n)
		if err != nil {
			return nil, err
		}
		front, _ := m.found(nginxServer("nginx", nginxSite{
			http: fmt.Sprintf("error_log stderr crit; limit_conn_zone $server_port zone=all:1m; limit_conn_status 503; limit_conn_log_level info; "+
				"upstream behind { server %s; keepalive %d; }", b.addr, limitedConns),
			server: fmt.Sprintf(`location / { limit_conn all %d; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_pass http://behind; }`, limitedConns),
		}.config))
		s, err := front.start(ctx, needs{})
		if err != nil {
			return nil, errors.Join(err, b.end())
		}
		s.beside = append(s.beside, b.child)
		return s, nil
	}}, errors.Join(missing, err)
}

func (a *clientResult) outcome(x, goodput float64) []sample {
	samples := []sample{{"goodput", "req/s", x, goodput}}
	if a.All.Served > 0 {
		samples = append(samples, sample{"p99", "ms", x, milliseconds(a.All.P99)})
	}
	return append(samples,
		sample{"refused", "req/s", x, a.rate(a.All.Refused)},
		sample{"lost", "req/s", x, a.rate(a.All.Failed + a.All.TimedOut)})
}

func (a *clientResult) usage(x float64) []sample {
	return []sample{
		{"cpu", "%", x, a.percent(a.Usage.Server)},
		{"others", "%", x, a.percent(a.Usage.Others)},
		{"client-busy", "%", x, a.percent(a.Usage.Client)},
	}
}

func (a *clientResult) late(x float64) sample {
	return sample{"client-late", "ms", x, milliseconds(a.All.Late)}
}

func value(samples []sample, metric string) (float64, error) {
	if v, ok := valuesOf(samples)[metric]; ok {
		return v, nil
	}
	return 0, fmt.Errorf("no sample of %s", metric)
}

func valuesOf(samples []sample) map[string]float64 {
	values := map[string]float64{}
	for _, one := range samples {
		values[one.metric] = one.value
	}
	return values
}

func suffixed(samples []sample, suffix string) []sample {
	for i := range samples {
		samples[i].metric += suffix
	}
	return samples
}

type counts struct {
	gc, all     float64 // CPU seconds
	acceptFails float64
}

func (s *server) askCounts(ctx context.Context) (counts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStart, fmt.Errorf("no answer after %v", serverStart))
	defer cancel()
	if err := s.child.Tell("counts"); err != nil {
		return counts{}, err
	}
	line, err := s.child.Line(ctx)
	if err != nil {
		return counts{}, err
	}
	var c counts
	if _, err := fmt.Sscanf(line, "counts %f %f %f", &c.gc, &c.all, &c.acceptFails); err != nil {
		return counts{}, fmt.Errorf("%s: said %q, want \"counts …\": %w", s.system, line, err)
	}
	return c, nil
}

// flagPairs are flags out of names and values, in turn.
func flagPairs(pairs ...any) []string {
	var flags []string
	for i := 0; i+1 < len(pairs); i += 2 {
		flags = append(flags, fmt.Sprintf("-%v=%v", pairs[i], pairs[i+1]))
	}
	return flags
}

// calibrateBurn returns how many steps of work take 1 ms on the server core.
func (r *run) calibrateBurn() (int, error) {
	steps := 0.0
	err := r.prepare(usualOverhead, func() error {
		samples, err := samplesOf(r.ctx, 0, r.ownOnServerCore(nil, "calibrate"))
		if err == nil {
			steps, err = value(samples, "steps")
		}
		return err
	})
	return int(steps), err
}

// ownCapacity lets a few clients ask a server as fast as they are answered. It is the median of what servers of that name
// were found to reach lately, so that loads can be multiples of it.
func (m *matrix) ownCapacity(ctx context.Context, s *server, path string, span time.Duration) (float64, error) {
	now, err := untilServed(span, func(span time.Duration) (float64, error) {
		return m.served(ctx, s, mixed(alone(path)...), capacityClients, span)
	})
	if err != nil {
		return 0, err
	}
	return m.remember(s.system, now), nil
}

const (
	fdsLimit   = 256    // open descriptors of the server
	fdsClients = 10_000 // that connect at once
	// fdsKeep is how long a client keeps its connection after its answer, so that
	// descriptors stay scarce until nearly all are served.
	fdsKeep = 20 * time.Millisecond
)

var overloadFDsExperiment = experiment{
	name: "overload-fds",
	doc:  "10,000 clients of a server with 256 descriptors",
	prepare: func(r *run, e *experiment) error {
		jam, limit := choose(r.quick, time.Second, 2*time.Second), choose(r.quick, 10*time.Second, 20*time.Second)
		e.parts = []part{{
			points: pointsAt("clients", fdsClients),
			systems: func(r *run) []contender {
				m := &matrix{run: r}
				return m.contendersOf(m.system, func(ctx context.Context, system launcher, p point) ([]sample, error) {
					return m.fdsSample(ctx, system, p, fdsLimit, jam, limit)
				}, func(string, point) time.Duration { return jam + limit/4 }, "capriccio", "capriccio-fifo", "net-http")
			},
			length: time.Second,
		}}
		e.notes = []string{
			fmt.Sprintf("%d clients connect at once, ask once, and keep their connection; the server may have %d descriptors; after %v, they hang up %v after their answer",
				fdsClients, fdsLimit, jam, fdsKeep),
			"knot: without its own limit of connections (MaxConns), which would turn clients away",
			"cpu-jammed: CPU of the server while it has no descriptor left and can do nothing, the second half of that time; accept-errors: that failed, as the server logs them, in all",
			fmt.Sprintf("all-served: until the last one has an answer, or %v; the kernel repeats a client's call after 1, 3, 7 … s if the queue of the listener was full", limit),
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "CPU with no descriptor left", Metric: "cpu-jammed", XLabel: "clients", Bars: true},
		{Title: "Time until all are served", Metric: "all-served", XLabel: "clients", Bars: true},
	},
}

func (m *matrix) fdsSample(ctx context.Context, system launcher, p point, descriptors int, jam, limit time.Duration) (samples []sample, err error) {
	var counted counts
	seen, _, err := m.loaded(ctx, system, row{
		needs: needs{counted: true, descriptors: descriptors, env: []string{waitsEnv}},
		load:  load.CrowdConfig{Request: class{path: chores.HelloPath}.text(), Clients: int(p.x), Jam: jam, Keep: fdsKeep, Limit: limit},
		acts: []act{{2 * limit, func(_ *matrix, s *server) (err error) { // once the clients have ended
			counted, err = s.askCounts(ctx)
			return err
		}}},
	}, &extent{}, 1)
	if err != nil {
		return nil, err
	}
	all := seen.All
	return []sample{
		{"served", "%", p.x, share(all.Served, int(p.x))},
		{"refused", "%", p.x, share(all.Refused, int(p.x))},
		{"lost", "%", p.x, share(all.Failed, int(p.x))},
		{"all-served", "s", p.x, seen.Took.Seconds()},
		{"p99", "ms", p.x, milliseconds(all.P99)},
		{"cpu-jammed", "%", p.x, 100 * seen.Jam.Server.Seconds() / (jam / 2).Seconds()},
		{"cpu-per-client", "µs", p.x, seen.Usage.Server.Seconds() * 1e6 / p.x},
		{"accept-errors", "1", p.x, counted.acceptFails},
	}, nil
}

// The loads of the priority experiment as multiples of capacity: in normal times 60 % in
// all, in the spike 2.8 times what the server can do; few of the requests are urgent.
const (
	urgentLoad    = 0.4
	leisurelyLoad = 0.2
	spike         = 12.0
)

var priorityExperiment = experiment{
	name: "priority",
	doc:  "urgent requests beside 12 times the usual number of others",
	prepare: func(r *run, e *experiment) error {
		w, err := newWeb(r)
		e.parts = []part{{
			points: pointsAt("spike", spike, 1),
			systems: func(*run) []contender {
				return w.contendersOf(w.system, w.prioritySample, w.takes, "capriccio", "capriccio-fifo", "net-http", "failsafe-go")
			},
			length: time.Second,
		}}
		e.notes = []string{
			fmt.Sprintf("urgent requests come at %g times capacity, others at %g, both by Poisson processes; in the spike the others come %g times as often; a header says which (Priority: %s or %s)",
				urgentLoad, leisurelyLoad, spike, urgent, leisurely),
			fmt.Sprintf("success: share of urgent requests answered 200 within %v, when clients give up; success-in-time: within %v; success-low: of the others; p99: of urgent ones served; goodput: of all, within %v",
				patience, latencyTarget, latencyTarget),
			fmt.Sprintf("the handler computes for 1 ms of CPU: %d steps of a loop; capacity is measured just before", w.steps),
			"failsafe-go: net/http and its prioritized adaptive limiter around the handler; the other peers know no priorities",
		}
		return err
	},
	charts: []report.Chart{
		{Title: "Urgent requests answered", Metric: "success", XLabel: "multiples of the normal number of others", Bars: true},
		{Title: "99th percentile of urgent requests", Metric: "p99", XLabel: "multiples of the normal number of others", Bars: true},
	},
}

// spikeTimes are long enough to see one failure in a thousand: some 400 urgent requests come in a second.
func (w *web) spikeTimes(p point) (warm, span time.Duration) {
	switch {
	case w.quick && p.x == 1:
		return 200 * time.Millisecond, 1200 * time.Millisecond
	case w.quick:
		return 300 * time.Millisecond, 4 * time.Second
	}
	return 500 * time.Millisecond, 4 * time.Second
}

// prioritySample offers both at once.
func (w *web) prioritySample(ctx context.Context, system launcher, p point) (samples []sample, err error) {
	warm, span := w.spikeTimes(p)
	const path = "/do?cpu=1ms"
	seen, _, err := w.loaded(ctx, system, row{needs: needs{counted: true, prioritized: true}, ownCapacity: w.webTimes.capacity, load: openLoad{
		classes:  []class{{path: path, urgency: urgent, share: urgentLoad}, {path: path, urgency: leisurely, share: leisurelyLoad}},
		phases:   []phase{{span: warm, times: 1}, {span: span, times: 1, shares: []float64{urgentLoad, p.x * leisurelyLoad}}},
		from:     warm,
		patience: patience,
	}}, &extent{}, w.round+1)
	if err != nil {
		return nil, err
	}
	high, low := seen.Classes[0], seen.Classes[1]
	samples = []sample{
		{"success", "%", p.x, share(high.Served, high.Due)},
		{"success-in-time", "%", p.x, share(high.InTime, high.Due)},
		{"success-low", "%", p.x, share(low.Served, low.Due)},
	}
	if high.Served > 0 {
		samples = append(samples, sample{"p99", "ms", p.x, milliseconds(high.P99)})
	}
	samples = append(samples,
		sample{"goodput", "req/s", p.x, seen.rate(seen.All.InTime)}, sample{"refused", "req/s", p.x, seen.rate(seen.All.Refused)})
	return append(append(samples, seen.usage(p.x)...), seen.late(p.x)), nil
}

// webMainLoads are loads of overload-web as multiples of capacity; a quick run puts them on every system and others on
// the first only.
var webMainLoads = []float64{0.8, 2, 10}

const (
	stepLow  = 0.5
	stepHigh = 1.4

	// A quick run measures a load above the capacity from 3 s on: by then a server has detected the overload and
	// refused the requests queued before. A full run has more and longer samples.
	overloadLead = 3 * time.Second

	// In metrics with this suffix the handler waits in the middle, as for a database.
	waitsSuffix = "-waits"
	webPause    = 5 * time.Millisecond
)

type webTimes struct {
	capacity, warm, span time.Duration
	step                 load.Steps
}

var (
	webQuick = webTimes{240 * ms, 350 * ms, 550 * ms, load.Steps{Target: latencyTarget, Lead: 300 * ms, High: 350 * ms, Low: 500 * ms, Count: 2}}
	webFull  = webTimes{400 * ms, 700 * ms, 1500 * ms, load.Steps{Target: latencyTarget, Lead: sec, High: 500 * ms, Low: 1200 * ms, Count: 3}}
)

// stepping is how long the load goes up and down.
func (t *webTimes) stepping() time.Duration {
	return t.step.Lead + time.Duration(t.step.Count)*(t.step.High+t.step.Low)
}

type web struct {
	*matrix
	webTimes
}

func newWeb(r *run) (*web, error) {
	steps, err := r.calibrateBurn()
	return &web{matrix: &matrix{run: r, steps: steps}, webTimes: choose(r.quick, webQuick, webFull)}, err
}

var overloadWebExperiment = experiment{
	name:    "overload-web",
	doc:     "goodput of a handler of 1 ms of CPU at up to 10 times capacity",
	prepare: prepareOverloadWeb,
	charts: []report.Chart{
		{Title: "Goodput within 100 ms, share of capacity", Metric: "goodput-share", XLabel: "offered load, multiples of capacity"},
		{Title: "99th percentile of what is served", Metric: "p99", XLabel: "offered load, multiples of capacity", LogY: true},
		{Title: "Refused", Metric: "refused", XLabel: "offered load, multiples of capacity"},
		{Title: "Settling after a step", Metric: "settle-ms", XLabel: "multiples of capacity", Bars: true},
	},
}

func prepareOverloadWeb(r *run, e *experiment) error {
	w, err := newWeb(r)
	if err != nil {
		return err
	}
	all := w.contendersOf(w.overloadSystem, w.sample, w.takes, "capriccio", "capriccio-fifo", "net-http", "failsafe-go", "nginx")
	loaded := func(metric string, contenders []contender, reserved time.Duration, xs ...float64) part {
		return part{points: pointsAt(metric, xs...), length: w.span, reserved: reserved, systems: func(*run) []contender { return contenders }}
	}
	if r.quick {
		steps := time.Duration(len(all)) * (w.webTimes.capacity + w.stepping())
		others, otherTime := []float64{0.5, 1, 1.5, 5}, time.Duration(0)
		for _, x := range others {
			otherTime += w.webTimes.capacity + w.warmAt(x) + w.span
		}
		e.parts = []part{loaded("load", all, steps+otherTime, webMainLoads...), loaded("load", all[:1], steps, others...), loaded("step", all, 0, stepHigh)}
	} else {
		e.parts = []part{loaded("load", all, 0, 0.8, 1, 2, 10), loaded("step", all, 0, stepHigh), loaded("load"+waitsSuffix, all, 0, webMainLoads...)}
	}
	e.notes = []string{
		fmt.Sprintf("the handler computes for 1 ms of CPU: %d steps of a loop, the same for all, counted and not timed", w.steps),
		fmt.Sprintf("x is the load as a multiple of capacity, which is what the same server serves %d clients of a closed loop just before; "+
			"goodput: responses 200 within %v of when the request was due; goodput-share: of capacity", capacityClients, latencyTarget),
		fmt.Sprintf("requests come by a Poisson process with the same seed for all; a client that has waited %v closes its connection (lost); "+
			"p99 is that of the responses 200 that came; client-late: p99 of what the client itself was late", patience),
		fmt.Sprintf("settle-ms: after a step from %g to %g times capacity, until the 99th percentile in windows of 10 ms stays within 1.5 times its level; "+
			"%v if it is not level, or above %v, in the second half; recover-ms: after the step down, until it stays below twice its value of before",
			stepLow, stepHigh, w.step.High, latencyTarget),
		fmt.Sprintf("nginx: lets %d requests at a time through to net-http (limit_conn, a number chosen by hand), both on the server core", limitedConns),
		fmt.Sprintf("failsafe-go: net/http and its adaptive limiter with default settings around the handler; it counts handlers that have begun, and on one core "+
			"one that never waits ends before the next begins; in metrics named *%s handlers wait for %v in the middle (full runs only)", waitsSuffix, webPause),
		"others: what else ran on the server core, in ticks of 10 ms; with much of it the capacity is not what was measured before",
	}
	if r.quick {
		e.notes = slices.Insert(e.notes, 2, fmt.Sprintf("loads above the capacity are measured from %v after they begin", overloadLead))
	}
	return nil
}

func (w *web) warmAt(load float64) time.Duration {
	if w.quick && load > 1 {
		return overloadLead
	}
	return w.warm
}

// takes is how long a sample takes, with the wait of the clients for the last answers after the load.
func (w *web) takes(_ string, p point) time.Duration {
	capacity := w.webTimes.capacity * 5 / 4
	switch {
	case p.metric == "step":
		return capacity + w.stepping()
	case p.metric == "spike":
		warm, span := w.spikeTimes(p)
		return capacity + warm + span + patience/2
	}
	return capacity + w.warmAt(p.x) + w.span + patience/2
}

// sample starts a server afresh, so that it has no backlog, measures its capacity, and
// then loads it.
func (w *web) sample(ctx context.Context, system launcher, p point) ([]sample, error) {
	offered, suffix := openLoad{classes: alone("/do?cpu=1ms"), patience: patience}, ""
	if p.metric == "load"+waitsSuffix {
		offered.classes, suffix = alone(fmt.Sprintf("/do?cpu=1ms&sleep=%v", webPause)), waitsSuffix
	}
	if p.metric == "step" {
		offered = offered.stepping(w.step, stepLow, p.x)
	} else {
		warm := w.warmAt(p.x)
		offered.from, offered.phases = warm, []phase{{span: warm + w.span, times: p.x}}
	}
	e := extent{}
	seen, _, err := w.loaded(ctx, system, row{needs: needs{counted: true}, load: offered, ownCapacity: w.webTimes.capacity}, &e, w.round+1)
	if err != nil {
		return nil, err
	}
	if p.metric == "step" {
		return []sample{
			{"settle-ms", "ms", p.x, milliseconds(seen.Steps.Settle)},
			{"recover-ms", "ms", p.x, milliseconds(seen.Steps.Recover)},
			{"step-p99-before", "ms", p.x, milliseconds(seen.Steps.Before)},
			{"step-p99-top", "ms", p.x, milliseconds(seen.Steps.Top)},
		}, nil
	}
	goodput := seen.rate(seen.All.InTime)
	samples := slices.Insert(seen.outcome(p.x, goodput), 1, sample{"goodput-share", "%", p.x, 100 * goodput / e.capacity})
	samples = append(append(samples, seen.usage(p.x)...), seen.late(p.x), sample{"capacity", "req/s", p.x, e.capacity})
	return suffixed(samples, suffix), nil
}
