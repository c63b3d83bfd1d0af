package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/internal/gotrace"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/graphview/tables"
)

// A mode is what bgdump does with the graph.
type mode string

const (
	modeText   mode = "text" // a table; it has no flag
	modeDOT    mode = "dot"
	modeSVG    mode = "svg"
	modeJSON   mode = "json"
	modePprof  mode = "pprof"
	modeFolded mode = "folded"
	modeLint   mode = "lint"
	modeDump   mode = "dump"
	modeRecord mode = "record"
	modeHTTP   mode = "http"
	modeServe  mode = "serve"
	modeMD     mode = "md"
	modeTasks  mode = "tasks"
	modeRegion mode = "regions"
	modeStages mode = "stages"

	modeSlowest  mode = "slowest"
	modeRequests mode = "requests"
)

// settings is what the command line says.
type settings struct {
	sources  []string
	mode     mode
	json     bool // findings of lint as JSON
	sort     string
	limit    int
	stacks   bool
	focus    *regexp.Regexp
	ignore   *regexp.Regexp
	metric   string
	color    string
	seconds  time.Duration
	interval time.Duration
	timeout  time.Duration
	keep     retention
	out      string // file to write to; empty: the standard output
	record   string
	http     string
	serve    string
	otlp     string // a receiver of OpenTelemetry, for what serve tells; empty: none
	version  bool
	raw      bool // of traces: short system calls are waits, too
	cpu      bool // a CPU profile beside a trace
	cpuGiven bool // -cpu is on the command line
	prune    float64
	merge    bool     // the sources are added up
	slowest  int      // requests to show
	targets  []string // lists of programs that are added up
	probe    bool     // of a process, look for net/http/pprof
	test     *testRun // the source is the trace of these; nil: there are none
}

// tracing is how traces are read.
func (set *settings) tracing() gotrace.Options {
	return gotrace.Options{Raw: set.raw, Slowest: set.slowest}
}

// fits says in which modes a flag makes sense. A flag that it does not name makes sense in all.
var fits = func() map[string][]mode {
	drawn := []mode{modeDOT, modeSVG}
	filtered := append([]mode{modeText, modeJSON, modePprof, modeFolded, modeLint, modeDump, modeMD, modeTasks, modeRegion, modeStages}, drawn...)
	written := append([]mode{modeSlowest, modeRequests}, filtered...)
	return map[string][]mode{
		"sort":      {modeText},
		"limit":     append([]mode{modeText, modeMD, modeTasks, modeRegion, modeStages, modeRequests}, drawn...),
		"merge":     append([]mode{}, written...),
		"targets":   append([]mode{modeRecord, modeHTTP, modeServe}, written...),
		"prune":     append([]mode{modeText}, drawn...),
		"stacks":    {modeText},
		"focus":     append([]mode{modeHTTP}, filtered...),
		"ignore":    append([]mode{modeHTTP}, filtered...),
		"metric":    {modeFolded},
		"color":     drawn,
		"seconds":   written,
		"o":         written,
		"interval":  {modeRecord, modeHTTP, modeServe},
		"otlp":      {modeServe},
		"keep":      {modeRecord},
		"keep-age":  {modeRecord},
		"keep-size": {modeRecord},
	}
}()

// flags are the flags and where they go; those of the modes that take no value are in
// the map.
func (set *settings) flags() (*flag.FlagSet, map[mode]*bool) {
	flags := flag.NewFlagSet("bgdump", flag.ContinueOnError)
	wanted := map[mode]*bool{}
	for _, f := range []struct {
		mode mode
		text string
	}{
		{modeDOT, "write the graph in the language of Graphviz"},
		{modeSVG, "write a drawing of the graph, for browsers"},
		{modeJSON, "write everything that is known as JSON; with -lint, the findings"},
		{modePprof, "write a profile for go tool pprof, with the sample types cpu, wait, ready, count and heap"},
		{modeFolded, "write stacks in the folded form, for flame graphs; see -metric"},
		{modeLint, "look for steps that never yield, places where tasks pile up, contended locks, leaks and tasks that wait for ever"},
		{modeMD, "write what is most important as Markdown, for an issue"},
		{modeTasks, "show how long the tasks of runtime/trace took, by type; of a trace"},
		{modeRegion, "show how long the regions of runtime/trace took, by type; of a trace"},
		{modeRequests, "show the requests of net/http by what handles them, and tasks by type: how long they took, and how often and how long each waits at which place; of a trace"},
		{modeStages, "show the program by its stages: what each does and on which loops, and what wakes tasks of one loop from another"},
		{modeDump, "write a dump, which bgdump can read again"},
	} {
		wanted[f.mode] = flags.Bool(string(f.mode), false, f.text)
	}
	flags.StringVar(&set.record, string(modeRecord), "", "write a dump into this `folder` every -interval, until Ctrl-C; goes on when the program is away for a while")
	flags.StringVar(&set.http, string(modeHTTP), "", "serve a page with the live graph on this `address`, HOST:PORT; no host means for this machine only, port 0 a free port")
	flags.StringVar(&set.serve, string(modeServe), "", "serve metrics for Prometheus and profiles for Pyroscope, Parca and Grafana Alloy on this `address`, HOST:PORT; no host means for this machine only, port 0 a free port")
	flags.StringVar(&set.otlp, "otlp", "", "send the metrics of -serve every -interval to the receiver of OpenTelemetry at this `URL`, like http://localhost:4318")
	flags.IntVar(&set.slowest, string(modeSlowest), 0, "show this `number` of the slowest requests of net/http and tasks of runtime/trace, 1 to 100: where each waited, for how long, and what ended that; of a trace")
	flags.StringVar(&set.sort, "sort", "", "sort by this `column`, like now, wait, ready or cpu; a minus in front reverses the order; for a name that is unknown, all are listed")
	flags.IntVar(&set.limit, "limit", 0, "show at most this `number` of rows of each table, or draw that many nodes; 0 means all rows, or as many nodes as one can look at")
	flags.BoolVar(&set.stacks, "stacks", false, "show the call stack of every node")
	flags.Func("focus", "show only nodes whose name or stack this `regexp` matches", setRegexp(&set.focus))
	flags.Func("ignore", "leave out nodes whose name or stack this `regexp` matches", setRegexp(&set.ignore))
	flags.StringVar(&set.metric, "metric", "cpu", "what -folded counts, a `metric`: cpu, wait, ready, count or heap")
	flags.StringVar(&set.color, "color", "cpu", "what the `colours` of a drawing mean: cpu or wait")
	flags.Func("seconds", "take two snapshots this `number` of seconds apart and show what happened between them", setSeconds(&set.seconds))
	flags.DurationVar(&set.interval, "interval", 0, "how often to ask, a `duration` like 500ms or 1m; 0 means 1s with -http, 10s with -record, and 1m with -otlp")
	flags.DurationVar(&set.timeout, "timeout", 5*time.Second, "how long to wait for an answer of the program, a `duration`")
	flags.IntVar(&set.keep.number, "keep", 1000, "how many dumps of a program -record keeps, the latest: a `number`; 0 means all")
	flags.DurationVar(&set.keep.age, "keep-age", 0, "for how long -record keeps dumps, a `duration` like 168h; 0 means for ever")
	set.keep.size = 1 << 30
	flags.Func("keep-size", "how many bytes the folder of -record may have, a `size` like 500MB or 2GB; the oldest dumps of all programs go first, 0 means no limit, and otherwise it is 1GB", setSize(&set.keep.size))
	flags.StringVar(&set.out, "o", "", "write to this `file`, which is replaced only if all went well")
	flags.BoolVar(&set.merge, "merge", false, "add all sources up, as the graphs of processes that do the same; with more than two, that is done anyway")
	flags.Func("targets", "add up the programs in this `list`: a file or URL in the format of Prometheus (file_sd, http_sd), dns://HOST:PORT for all addresses of a host, or k8s:NAMESPACE/SELECTOR:PORT for pods, like k8s:shop/app=web:6060; may be given again", func(list string) error {
		set.targets = append(set.targets, list)
		return nil
	})
	flags.BoolVar(&set.probe, "probe", false, "of a process: look for net/http/pprof also where other machines reach it, and take a trace of that")
	flags.BoolVar(&set.raw, "raw", false, "keep every system call and every wait for the collector of a trace as a node; otherwise those under 1 ms are parts of steps")
	flags.BoolVar(&set.cpu, "cpu", true, "take a CPU profile beside the trace of a URL, which tells in which functions steps spend their time; with -http and -record only if -cpu is given")
	flags.Float64Var(&set.prune, "prune", 2, "leave edges out of the tables and the drawing of a trace that have less than this `percentage` of all steps and of all CPU time; 0 leaves none out")
	flags.BoolVar(&set.version, "version", false, "print the version of bgdump and stop")
	return flags, wanted
}

func setRegexp(to **regexp.Regexp) func(string) error {
	return func(text string) (err error) {
		*to, err = regexp.Compile(text)
		return err
	}
}

func setSeconds(to *time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			if d, err = time.ParseDuration(text + "s"); err != nil {
				return errors.New("want a number of seconds, like 10 or 0.5")
			}
		}
		if d <= 0 {
			return errors.New("want more than 0")
		}
		*to = d
		return nil
	}
}

// setSize sets a number of bytes, in units of 1024.
func setSize(to *int64) func(string) error {
	return func(text string) error {
		text = strings.ToUpper(text) // which may be longer
		digits := strings.TrimRight(text, "KMGTB")
		shift, ok := map[string]int{"": 0, "B": 0, "KB": 10, "MB": 20, "GB": 30, "TB": 40, "K": 10, "M": 20, "G": 30, "T": 40}[text[len(digits):]]
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || !ok || n < 0 || n > math.MaxInt64>>shift {
			return errors.New("want a number of bytes, like 500MB or 2GB")
		}
		*to = n << shift
		return nil
	}
}

// parse reads the command line. It returns flag.ErrHelp after printing the help that
// was asked for.
func parse(args []string, stdout io.Writer) (*settings, error) {
	set := new(settings)
	flags, wanted := set.flags()
	args = flaghelp.Flagged(args)
	help := writeHelp
	if !flaghelp.WantsAll(args) {
		help = func(w io.Writer, _ *flag.FlagSet) { io.WriteString(w, shortUsage) }
	}
	if len(args) > 0 && args[0] == "test" {
		set.test, help, args = new(testRun), writeTestHelp, args[1:]
		set.test.flags(flags)
	}
	sources, err := flaghelp.Parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		help(stdout, flags)
	}
	if err != nil {
		return nil, err
	}
	set.sources = sources
	if set.version {
		return set, nil
	}
	if err := set.setMode(flags, wanted); err != nil {
		return nil, err
	}
	flags.Visit(func(f *flag.Flag) { set.cpuGiven = set.cpuGiven || f.Name == "cpu" })
	if set.mode == modeHTTP || set.mode == modeRecord || set.mode == modeServe {
		set.cpu = set.cpu && set.cpuGiven
	}
	if set.test != nil {
		if err := set.test.setPackage(sources); err != nil {
			return nil, err
		}
		set.sources = []string{set.test.pkg} // its trace, later on
		if set.mode == modeText {
			set.mode = modeLint
		}
	}
	if err := set.checkFlags(flags); err != nil {
		return nil, err
	}
	return set, set.checkValues()
}

// setMode finds out which one of the flags that exclude each other is given.
func (set *settings) setMode(flags *flag.FlagSet, wanted map[mode]*bool) error {
	var chosen []mode
	flags.Visit(func(f *flag.Flag) {
		m := mode(f.Name)
		if on, isMode := wanted[m]; isMode && *on || m == modeRecord || m == modeHTTP || m == modeServe || m == modeSlowest {
			chosen = append(chosen, m)
		}
	})
	if slices.Equal(chosen, []mode{modeJSON, modeLint}) { // in the order of their names
		set.json = true
		chosen = chosen[1:]
	}
	switch len(chosen) {
	case 0:
		set.mode = modeText
	case 1:
		set.mode = chosen[0]
	default:
		return fmt.Errorf("-%s and -%s exclude each other", chosen[0], chosen[1])
	}
	return nil
}

// checkFlags reports which flag is of no use, rather than that it is ignored.
func (set *settings) checkFlags(flags *flag.FlagSet) error {
	var useless error
	flags.Visit(func(f *flag.Flag) {
		modes, limited := fits[f.Name]
		if !limited || slices.Contains(modes, set.mode) || useless != nil {
			return
		}
		var names []string
		for _, m := range modes {
			if m != modeText {
				names = append(names, "-"+string(m))
			}
		}
		where := "with " + strings.Join(names, ", ")
		switch {
		case len(names) == 0:
			where = "for tables"
		case slices.Contains(modes, modeText):
			where = "for tables and " + where
		}
		with := " without one of them"
		if set.mode != modeText {
			with = " with -" + string(set.mode)
		}
		useless = fmt.Errorf("-%s has no meaning%s; it is %s", f.Name, with, where)
	})
	return useless
}

func (set *settings) checkValues() error {
	switch n := len(set.sources); {
	case n == 0 && len(set.targets) == 0:
		return errors.New("say what to look at: bgdump SOURCE, where SOURCE is the id of a process, a URL, a file, a folder of recordings or -")
	case n == 1 && set.merge && len(set.targets) == 0:
		return errors.New("-merge wants two sources or more")
	case n > maxSources:
		return fmt.Errorf("%d sources; want one, two to compare, or up to %d to add up", n, maxSources)
	case n == 2 && set.seconds != 0 && !set.merge && len(set.targets) == 0:
		return errors.New("-seconds takes one source, or several to add up")
	case n == 2 && set.sources[0] == set.sources[1]:
		return errors.New("both sources are the same; to see what a program does from now on, use -seconds")
	}
	for i, name := range set.sources {
		if slices.Contains(set.sources[:i], name) {
			return fmt.Errorf("%s is there twice, and what it has would count twice", name)
		}
	}
	set.merge = set.merge || len(set.sources) > 2 || len(set.targets) > 0
	switch {
	case !(set.prune >= 0 && set.prune <= 100):
		return fmt.Errorf("-prune %v; want 0 to 100 percent", set.prune)
	case set.mode == modeSlowest && (set.slowest < 1 || set.slowest > graphlimits.Slowest):
		return fmt.Errorf("-slowest %d; want a number of requests, 1 to %d", set.slowest, graphlimits.Slowest)
	case set.limit < 0:
		return fmt.Errorf("-limit %d is negative", set.limit)
	case set.keep.number < 0:
		return fmt.Errorf("-keep %d; want a number of files, or 0 for all", set.keep.number)
	case set.keep.age < 0:
		return fmt.Errorf("-keep-age %s; want a duration, or 0 for ever", set.keep.age)
	case set.timeout <= 0:
		return fmt.Errorf("-timeout %s; want more than 0", set.timeout)
	case set.interval != 0 && set.mode == modeServe && set.otlp == "":
		return errors.New("-interval with -serve says how often to send metrics, and so needs -otlp; without it programs are asked when they are scraped")
	case set.interval != 0 && set.interval < minInterval:
		return fmt.Errorf("-interval %s; want at least %s", set.interval, minInterval)
	case !slices.Contains([]string{"cpu", "wait", "ready", "count", "heap"}, set.metric):
		return fmt.Errorf("-metric %q; want cpu, wait, ready, count or heap", set.metric)
	case set.color != "cpu" && set.color != "wait":
		return fmt.Errorf("-color %q; want cpu or wait", set.color)
	case set.record == "" && set.mode == modeRecord:
		return errors.New("-record needs the name of a folder")
	}
	if set.interval == 0 {
		set.interval = map[mode]time.Duration{modeRecord: 10 * time.Second, modeServe: time.Minute}[set.mode]
		set.interval = max(set.interval, time.Second)
	}
	return set.checkSort()
}

// isFleet reports whether there are several sources, or may be.
func (set *settings) isFleet() bool { return len(set.sources) > 1 || len(set.targets) > 0 }

// maxSources is how many sources are added up at most.
const maxSources = graphlimits.Sources

const minInterval = 100 * time.Millisecond

// checkSort reports which columns there are.
func (set *settings) checkSort() error {
	known := tables.Columns()
	if set.sort != "" && !slices.Contains(known, strings.TrimPrefix(set.sort, "-")) {
		return fmt.Errorf("-sort %q; want one of %s; a minus in front reverses the order", set.sort, strings.Join(known, ", "))
	}
	return nil
}
