package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// admissionName is the experiment's, the only one with rows and systems to pick from.
const admissionName = "admission"

// row is one scenario of the matrix. Its load is an openLoad, people.Config, load.ClosedConfig, load.CrowdConfig or toolLoad.
type row struct {
	name        string
	number      int // x of its samples, see overloadNumber
	needs       needs
	load        any
	acts        []act
	overload    bool
	bytes       bool                                        // throughput is that of bytes
	systems     []string                                    // only these; nil: see wants
	reference   int                                         // clients of the closed loop that finds the capacity; 0: capacityClients
	ownCapacity time.Duration                               // the capacity is the server's own, measured for so long just before
	extra       func(seen *clientResult, e extent) []sample // further samples
	fit         func() error                                // whether this machine can do it; may be nil
}

type matrix struct {
	*run
	steps  int
	root   string
	rows   []row
	known  map[string]known // capacities
	limits map[string]int64 // of the oracle, by row
}

var admissionExperiment = experiment{
	name:    admissionName,
	doc:     "refused requests under ordinary load, and goodput under overload",
	prepare: prepareAdmission,
	notes: []string{
		fmt.Sprintf("no setting is changed but for one loop and GOMAXPROCS=1; server on core %d, client on core %d", serverCore, clientCore),
		"rows below 100 are ordinary life: nothing is to be refused; ordinary-refused: requests with a 503, a broken connection or a time-out; ordinary-slower: the worse of fifo's throughput ÷ this system's, and this p99 ÷ fifo's",
		fmt.Sprintf("rows above 100 are overload; goodput-share: answered 200 within %v of when it was due, as a share of what was offered or of capacity, whichever is less; capacity: what fifo (net-http for what builds on it) serves %d clients of a closed loop of the same requests",
			latencyTarget, capacityClients),
		"p99 above 100: of what an open loop was answered before its load ended; p99-to-0.8x: this p99 ÷ that at 0.8 × capacity",
		fmt.Sprintf("step-normal: share of what was answered from 20 ms after the step on within %v, twice the p99 at 0.8 × capacity", stepUsual),
		"false-refused: share of requests refused, broken or timed out where all would have been served in time (up to 0.8 × capacity)",
		"others (in the JSON): what else ran on the server core; client-late: 99th percentile of what the client itself was late; with much of either the figures say little",
		fmt.Sprintf("%s: fifo with the best fixed limit of requests inside, one of %v; limit-listener has a limit of 256 connections, nginx one of 15,000, by hand", oracleSystem, oracleLimits),
	},
	charts: []report.Chart{
		{Title: "Refused in ordinary life", Metric: "ordinary-refused", XLabel: "row"},
		{Title: "Goodput in time, share of capacity", Metric: "goodput-share", XLabel: "row"},
	},
	details: []string{"asked", "throughput", "refused-share", "refused-503", "broken", "timed-out", "unfinished", "capacity", "client-busy", "client-late", "others"},
}

func prepareAdmission(r *run, e *experiment) (err error) {
	m := &matrix{run: r, limits: map[string]int64{}}
	// A full run of all would take many hours, mostly in rows that are like others: it has the lengths of a quick one.
	usual := !r.quick && len(r.rows) == 0
	if m.rows, err = pickRows(admissionRows(r.quick || usual), r.rows); err != nil {
		return err
	}
	if usual {
		m.rows = slices.DeleteFunc(m.rows, func(r row) bool { return r.between() })
	}
	names := choose(r.quick || usual, admissionQuick, admissionSystems)
	if len(r.systems) > 0 {
		names = slices.DeleteFunc(slices.Clone(admissionSystems), func(system string) bool { return !r.wants(system) })
	}
	if m.steps, err = r.calibrateBurn(); err == nil {
		err = r.prepare(0, m.writeFiles)
	}
	if err != nil {
		return err
	}
	m.env.Names = map[int]string{}
	byNumber := map[float64]*row{}
	var points []point
	for i := range m.rows {
		row := &m.rows[i]
		m.env.Names[row.number], byNumber[float64(row.number)] = row.name, row
		if row.fit != nil && !m.planning() {
			if err := row.fit(); err != nil {
				m.skip(row.name, err)
				continue
			}
		}
		points = append(points, point{metric: row.name, x: float64(row.number)})
	}
	contenders := m.contendersOf(m.system, func(ctx context.Context, system launcher, p point) ([]sample, error) {
		return m.sample(ctx, system, *byNumber[p.x])
	}, func(system string, p point) time.Duration { return byNumber[p.x].takes(system) }, names...)
	for i := range contenders {
		system := contenders[i].system
		contenders[i].lacks = func(p point) string {
			switch {
			case usual && system == "capriccio-fifo" && p.x > overloadNumber: // what it is without admission is known there
				return "in ordinary life only"
			case !byNumber[p.x].wants(system):
				return "not for this system"
			}
			return ""
		}
	}
	e.parts = []part{{
		points:  points,
		once:    true,
		called:  func(system string, p point) string { return system + " " + p.metric },
		systems: func(*run) []contender { return contenders },
	}}
	e.after = func(*run) error { m.compare(); return nil }
	return nil
}

// overloadNumber is less than the number of any row of overload, and more than that of others.
const overloadNumber = 100

// pickRows numbers the rows and returns those whose names match one of the patterns, or all.
func pickRows(all []row, patterns []string) ([]row, error) {
	next := map[bool]int{false: 1, true: overloadNumber + 1}
	var names []string
	for i := range all {
		r := &all[i]
		r.number = next[r.overload]
		next[r.overload]++
		names = append(names, r.name)
	}
	if len(patterns) == 0 {
		return all, nil
	}
	for _, p := range patterns {
		if !slices.ContainsFunc(all, func(r row) bool { return r.matches(p) }) {
			return nil, &usageError{fmt.Sprintf("no row %q: choose from ordinary, overload, %s", p, strings.Join(names, ", "))}
		}
	}
	return slices.DeleteFunc(all, func(r row) bool { return !slices.ContainsFunc(patterns, r.matches) }), nil
}

// between reports whether a row is one of a sweep whose ends, and the middle, are rows too.
func (r *row) between() bool {
	return slices.ContainsFunc([]string{"*-hello-10", "*-hello-1000", "cpu-*-1x", "cpu-*-5x", "mix-1x", "mix-5x"}, r.matches)
}

// matches reports whether a pattern is the name of the row or of its half, or one of path.Match.
func (r *row) matches(pattern string) bool {
	if pattern == "ordinary" || pattern == "overload" {
		return r.overload == (pattern == "overload")
	}
	ok, _ := path.Match(pattern, r.name)
	return ok
}

// takes is about how long a sample takes. A capacity is measured for several.
func (r *row) takes(system string) time.Duration {
	switch l := r.load.(type) {
	case openLoad:
		total := l.span() + min(l.waits(), 400*ms) // as a rule the last answers come soon
		if mix, _ := r.capacityMix(); len(mix) > 0 {
			total += capacitySpan / 2
		}
		if system == oracleSystem {
			total += (serverOverhead + total) * time.Duration(len(oracleLimits)) / fullRounds
		}
		return total
	case people.Config:
		return l.For + l.Drain/4
	case load.ClosedConfig:
		return l.Warm + l.For
	case toolLoad:
		return l.span
	}
	panic(r.unknownLoad())
}

func (r *row) unknownLoad() string {
	return fmt.Sprintf("row %s has a load of type %T", r.name, r.load)
}

// wants reports whether the row is for the system: nginx serves files, and the oracle is of
// the rows that have a capacity.
func (r *row) wants(system string) bool {
	if r.systems != nil {
		return slices.Contains(r.systems, system)
	}
	_, open := r.load.(openLoad)
	return system != "nginx" && (system != oracleSystem || r.overload && open)
}

func (m *matrix) sample(ctx context.Context, system launcher, r row) (samples []sample, err error) {
	m.withoutGroup(&r.needs)
	e := extent{x: float64(r.number)}
	if mix, clients := r.capacityMix(); len(mix) > 0 {
		if e.capacity, err = m.capacity(ctx, system, r.needs, mix, clients); err != nil {
			return nil, err
		}
	}
	if system.system == oracleSystem {
		if r.needs.limit, err = m.bestLimit(ctx, system, r, e); err != nil {
			return nil, err
		}
	}
	seen, s, err := m.loaded(ctx, system, r, &e, m.round+1)
	if err != nil {
		return nil, err
	}
	return r.samples(s, seen, e), nil
}

// withoutGroup changes needs that ask for a memory cgroup where there is none to be had.
func (m *matrix) withoutGroup(n *needs) {
	if n.memory == 0 {
		return
	}
	err := proc.CanHave(proc.NewMemoryGroup(n.memory))
	if err == nil {
		return
	}
	m.skip("memory cgroup", err)
	n.env = append(slices.Clone(n.env), fmt.Sprintf("GOMEMLIMIT=%d", n.memory*9/10))
	n.watch, n.memory = n.memory, 0
}

func (m *matrix) loaded(ctx context.Context, system launcher, r row, e *extent, seed int) (seen *clientResult, s *server, err error) {
	if s, err = system.start(ctx, r.needs); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	if r.ownCapacity > 0 {
		if e.capacity, err = m.ownCapacity(ctx, s, r.load.(openLoad).classes[0].path, r.ownCapacity); err != nil {
			return nil, nil, err
		}
	}
	if r.needs.watch > 0 {
		s.watch = watchMemory(s.child, r.needs.watch)
		defer s.watch.end()
	}
	others := s.watchCore()
	if l, ok := r.load.(toolLoad); ok {
		seen, err = m.runTool(ctx, s, l)
	} else {
		seen, err = m.runClient(ctx, s, r, e, seed)
	}
	s.others = others()
	if s.killedBy(syscall.SIGKILL, err) {
		if !r.overload {
			return nil, nil, errors.New("the server was killed")
		}
		s.dead = true
		return cmp.Or(seen, &clientResult{Span: time.Second}), s, nil
	}
	return seen, s, err
}

// killedBy reports whether the server was killed: by the kernel, which has no memory left for
// it, or by a memoryWatch.
func (s *server) killedBy(signal syscall.Signal, err error) bool {
	if err != nil { // it may take a moment to be seen
		select {
		case <-s.child.Ended():
		case <-time.After(10 * time.Second): // of a machine that stands still, too
		}
	}
	return s.child.KilledBy() == signal
}

// runClient runs a client of ours, and acts on the server meanwhile.
func (m *matrix) runClient(ctx context.Context, s *server, r row, e *extent, seed int) (*clientResult, error) {
	spec, span := r.spec(s, e, seed)
	return m.runLoad(ctx, spec, span, func(ctx context.Context, ended <-chan struct{}) error {
		began := time.Now()
		for _, a := range r.acts {
			select {
			case <-time.After(time.Until(began.Add(a.at))):
			case <-ended: // there is nothing to wait for
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := a.do(m, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// runLoad runs a client of ours on the client core, which takes about span, and something beside it
// from when it begins on until it has ended; beside may be nil.
func (r *run) runLoad(ctx context.Context, spec clientSpec, span time.Duration, beside func(ctx context.Context, ended <-chan struct{}) error) (*clientResult, error) {
	ctx, cancel := within(ctx, span+afterAll)
	defer cancel()
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	client, err := proc.Start(r.ownClient("client", "-spec="+string(text)))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if line, err := client.Line(ctx); err != nil || line != clientBegins {
		return nil, fmt.Errorf("client said %q: %w", line, err)
	}
	if beside != nil {
		if err := beside(ctx, client.Ended()); err != nil {
			return nil, err
		}
	}
	line, err := client.Line(ctx)
	if err != nil {
		return nil, err
	}
	var seen clientResult
	if err := json.Unmarshal([]byte(line), &seen); err != nil {
		return nil, fmt.Errorf("client said %q: %w", line, err)
	}
	return &seen, nil
}

// compare adds what is a comparison of rows or systems, out of the medians.
func (m *matrix) compare() {
	rows := report.Report{Rows: m.samples.Rows()}
	value := func(system, metric string, x float64) float64 {
		row, _ := rows.Find(system, metric, x)
		return row.Value
	}
	numbers := map[string]float64{}
	for _, r := range m.rows {
		numbers[r.name] = float64(r.number)
	}
	add := func(system, metric string, x, above, below float64) {
		if above > 0 && below > 0 {
			_ = m.samples.Add(system, metric, "1", x, above/below) // it is a number
		}
	}
	const fifo = "capriccio-fifo"
	for _, r := range rows.Rows {
		name := m.env.Names[int(r.X)]
		dash := strings.LastIndex(name, "-")
		switch {
		case r.Metric == "throughput":
			slower := value(fifo, r.Metric, r.X) / max(r.Value, tiny)
			if base := value(fifo, "p99", r.X); base > 0 {
				slower = max(slower, value(r.System, "p99", r.X)/base)
			}
			add(r.System, "ordinary-slower", r.X, slower, 1)
		case r.Metric == "p99" && r.X > overloadNumber && dash >= 0:
			add(r.System, "p99-to-0.8x", r.X, r.Value, value(r.System, "p99", numbers[name[:dash]+"-0.8x"]))
		}
	}
}

// tiny stands for nothing where it is divided by.
const tiny = 1e-3
