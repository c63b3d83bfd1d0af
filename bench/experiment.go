package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// experiment is one entry of the list: what is measured, on which systems, and what of it is shown. To add one, describe
// its parts, and name it in experiments.
type experiment struct {
	name    string
	doc     string                            // one line
	prepare func(r *run, e *experiment) error // before the parts; sets fields that depend on the run; may be nil
	parts   []part                            // one after the other
	after   func(*run) error                  // after the parts; may be nil
	notes   []string                          // what the reader of the figures needs
	charts  []report.Chart
	details []string // metrics that are in the JSON only
}

// part is points that systems are measured at: contenders, or servers that a client loads.
type part struct {
	points   []point
	quick    []point // of a quick run; nil: the same
	systems  func(*run) []contender
	servers  func(*run) []launcher
	sample   func(r *run, ctx context.Context, s *server, p point, d time.Duration) ([]sample, error) // of servers
	fresh    time.Duration                                                                            // a server starts for each sample, which takes longer by so much; 0: they run all the time
	length   time.Duration                                                                            // of a sample
	reserved time.Duration                                                                            // of a quick run's time, for what comes after the part
	once     bool                                                                                     // in a quick run, unless rounds are asked for
	called   func(system string, p point) string                                                      // for samples that take the time they need: their names; nil: all have the same length
	beside   func(r *run, servers []*server) error                                                    // after measuring, while the servers run; may be nil
}

func (e *experiment) carryOut(r *run) error {
	defer func() {
		for _, end := range r.ends {
			end()
		}
	}()
	if e.prepare != nil {
		if err := e.prepare(r, e); err != nil {
			return err
		}
	}
	r.charts, r.details = e.charts, e.details
	for _, p := range e.parts {
		if err := p.measure(r); err != nil {
			return err
		}
	}
	if e.after != nil {
		if err := e.after(r); err != nil {
			return err
		}
	}
	for _, note := range e.notes {
		r.note("%s", note)
	}
	return nil
}

func (p *part) measure(r *run) error {
	points := p.points
	if r.quick && p.quick != nil {
		points = p.quick
	}
	asked := r.asked
	defer func() { r.asked = asked }()
	if p.once && r.quick && r.asked == 0 {
		r.asked = 1
	}
	r.reserved = p.reserved
	if p.servers == nil {
		r.measure(points, p.systems(r), p.length, p.called)
		return nil
	}
	sample := func(ctx context.Context, s *server, at point, d time.Duration) ([]sample, error) {
		return p.sample(r, ctx, s, at, d)
	}
	launchers := slices.DeleteFunc(p.servers(r), func(l launcher) bool { return !r.wants(l.system) })
	if len(launchers) == 0 {
		return nil
	}
	if p.fresh > 0 {
		r.measure(points, slower(p.fresh, starting(launchers, sample)), p.length, nil)
		return nil
	}
	servers := r.startAll(launchers)
	defer closeAll(servers)
	r.measure(points, serving(servers, sample), p.length, nil)
	if p.beside == nil {
		return nil
	}
	return p.beside(r, servers)
}

var experiments = []experiment{
	primitivesExperiment, pairsExperiment, pipesExperiment, parkedExperiment, idleConnsExperiment,
	graphOverheadExperiment, admissionMemoryExperiment, cohortPubsubExperiment, cohortWritesExperiment, cohortCacheExperiment,
	diskDirectExperiment, diskCachedExperiment, bigStackExperiment, deepHandlerExperiment, stackCostExperiment,
	webExperiment, webSurgeExperiment, webSupportExperiment, modelsExperiment, lingeringExperiment,
	relayExperiment, flowAdaptExperiment, flowOverheadExperiment, vodExperiment, goTraceExperiment,
	truthExperiment, realServersExperiment, soakExperiment, sitesSoakExperiment, conformanceExperiment, suitesExperiment,
	slowClientsExperiment, proxyExperiment, proxyCacheExperiment, filesExperiment, tlsExperiment, http2Experiment, http3Experiment,
	nativeExperiment, helloExperiment, overloadWebExperiment, overloadMemoryExperiment, overloadCgroupExperiment,
	overloadFDsExperiment, admissionExperiment, priorityExperiment, plantedExperiment, fleetExperiment, fleetQuotaExperiment,
}

func experimentNames() []string {
	names := make([]string, 0, len(experiments))
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

const (
	// Server core and client core of every experiment with two processes;
	// whatever has one process runs on the server core.
	serverCore = 0
	clientCore = 1

	quickBudget = 38 * time.Second // the 7 s to the limit of 45 s are for starting and writing
	quickRounds = 3
	fullRounds  = 4 // of two equal systems, all rounds of one are above all of the other by chance in 1 run of 35
)

// run is one run of one experiment. It belongs to the goroutine that started it.
type run struct {
	ctx      context.Context
	quick    bool
	began    time.Time
	progress io.Writer
	scratch  string        // a folder of the run's own, removed at its end
	folder   string        // for results
	self     string        // the path of this program, for workers
	reserved time.Duration // of a quick run's time, for what comes after measure
	rows     []string      // picked; none: all
	systems  []string      // likewise
	offered  []string      // systems that there are
	samples  report.Samples
	env      report.Env
	charts   []report.Chart
	details  []string       // metrics that are in the JSON only
	asked    int            // rounds; 0: as usual
	length   time.Duration  // of a soak; 0: as usual
	round    int            // that is being measured, from 0
	planned  *time.Duration // so far; nil: the run is none of a plan, see planOf
	ends     []func()       // of what was started beside the servers
	outline  []string       // of a plan: what is measured on which systems
	profiles []report.Profile
	failed   error // the first of our own systems': the run goes on and fails at its end
}

// ours are the systems this project builds, with any setting: "knot" is "knot-uring" too. Verdicts
// are about the first of them that an experiment has.
var ours = []string{"capriccio", "knot", "flow-high-5", "flow-high-2", "flow-1024-fixed", "gotrace"}

func runExperiment(ctx context.Context, o options, out, progress io.Writer) (err error) {
	dir, err := resultFolder(o.dir)
	if err != nil {
		return err
	}
	if _, err := proc.RaiseDescriptorLimit(); err != nil {
		return err
	}
	if cores, err := proc.Cores(); err != nil {
		return err
	} else if len(cores) < 2 || cores[0] != serverCore || cores[1] != clientCore {
		return fmt.Errorf("experiments need cores %d and %d, may use %v", serverCore, clientCore, cores)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "capriccio-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	r := &run{
		ctx: ctx, quick: o.quick, asked: o.rounds, length: o.length, rows: o.rows, systems: o.systems, began: time.Now(), progress: progress,
		scratch: scratch, folder: dir, self: self, env: environment(o.quick),
	}
	r.env.Args = o.args
	revision := commit(ctx)
	others := watchMachine()
	err = o.experiment.carryOut(r)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.experiment.name, err)
	}
	if r.env.Others = max(0, others()); r.env.Disturbed() {
		r.note("THE MACHINE WAS BUSY: other programs had %.0f %% of its time. A server of one thread then has a smaller share of a core than one of many: compare CPU per request, not throughput or latency", r.env.Others)
	}
	r.env.Notes = slices.Compact(r.env.Notes) // each part of a run may say the same
	unknown := o.unknownSystem(r.offered)
	if unknown != nil && len(r.samples.Rows()) == 0 {
		return unknown
	}
	result := report.Report{Name: o.experiment.name, Commit: revision, Env: r.env, Rows: r.samples.Rows(), Details: r.details,
		Took: time.Since(r.began).Seconds(), Charts: r.charts, Profiles: r.profiles}
	if err := result.WriteTable(out, ours...); err != nil {
		return err
	}
	files := out
	if len(o.several) > 0 {
		files = io.Discard // they do not stay where they are
	}
	if err := writeFiles(&result, dir, files); err != nil {
		return err
	}
	return cmp.Or(unknown, r.failed)
}

// unknownSystem is about the first of the systems asked for that is not offered; nil if there is none, or if
// the experiment does not pick systems.
func (o options) unknownSystem(offered []string) error {
	for _, name := range o.systems {
		if len(offered) > 0 && !slices.Contains(offered, name) {
			return &usageError{fmt.Sprintf("%s has no system %q: choose from %s", o.experiment.name, name, strings.Join(offered, ", "))}
		}
	}
	return nil
}

func resultFolder(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "capriccio-results-")
	}
	return dir, os.MkdirAll(dir, 0o777)
}

func writeFiles(result *report.Report, dir string, out io.Writer) error {
	path := filepath.Join(dir, result.Name+".json")
	if err := writeFile(path, result.WriteJSON); err != nil {
		return err
	}
	fmt.Fprintf(out, "wrote %s\n", path)
	path = filepath.Join(dir, result.Name+".svg")
	drawn, err := draw(result, path)
	if drawn {
		fmt.Fprintf(out, "wrote %s\n", path)
	}
	return err
}

func draw(result *report.Report, path string) (drawn bool, err error) {
	err = writeFile(path, func(w io.Writer) (err error) {
		drawn, err = result.WriteSVG(w, result.Charts)
		return err
	})
	if err == nil && !drawn {
		err = os.Remove(path)
	}
	return drawn && err == nil, err
}

// writeFile writes a file that is there whole or, after an error, as it was before.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (r *run) rounds() int {
	if r.asked > 0 {
		return r.asked
	}
	return choose(r.quick, quickRounds, fullRounds)
}

// choose is one or the other, as of a quick run or a full one.
func choose[T any](first bool, one, other T) T {
	if first {
		return one
	}
	return other
}

// skip notes that something was left out, and why.
func (r *run) skip(what string, why error) {
	if r.env.Skipped == nil {
		r.env.Skipped = map[string]string{}
	}
	if _, known := r.env.Skipped[what]; !known {
		fmt.Fprintf(r.progress, "skipped %s: %v\n", what, why) // in full, unlike the table
		r.env.Skipped[what] = why.Error()
	}
}

func (r *run) note(format string, args ...any) {
	r.env.Notes = append(r.env.Notes, fmt.Sprintf(format, args...))
}
