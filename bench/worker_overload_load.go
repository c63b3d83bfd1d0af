package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
)

// latencyTarget is how soon a response must be there to count as goodput.
const latencyTarget = 100 * time.Millisecond

// The clients of the overload experiments: processes that load a server and print what
// became of their requests.

const (
	// patience is how long clients of the open loops wait before they give up.
	patience = time.Second
	// openConns bounds the connections of an open loop. It is more than the heaviest
	// load has under way before patience ends, and the server's descriptors allow it.
	openConns = 16_000
)

// loadFlags are what all clients are told.
type loadFlags struct {
	*flag.FlagSet
	addr, pids string
	core       int
	x          float64
	seed       uint64
	warm, span time.Duration
	out        io.Writer
}

func newLoadFlags(name string, out io.Writer) *loadFlags {
	f := &loadFlags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), out: out}
	f.StringVar(&f.addr, "addr", "", "address of the server")
	f.StringVar(&f.pids, "pids", "", "processes of the server, with commas between")
	f.IntVar(&f.core, "core", serverCore, "core that they run on")
	f.Float64Var(&f.x, "x", 1, "parameter to print with each sample")
	f.Uint64Var(&f.seed, "seed", 1, "of what is drawn by lot")
	f.DurationVar(&f.warm, "warm", 0, "load before measuring")
	f.DurationVar(&f.span, "for", time.Second, "load measured")
	return f
}

// target reads the arguments, and in them what is to be loaded.
func (f *loadFlags) target(args []string) (load.Target, error) {
	if err := f.Parse(args); err != nil {
		return load.Target{}, err
	}
	debug.SetGCPercent(-1) // the raw system calls of load leave a collector no chance
	addr, err := netip.ParseAddrPort(f.addr)
	if err != nil {
		return load.Target{}, err
	}
	t := load.Target{Addr: addr, Core: f.core}
	for _, text := range strings.Split(f.pids, ",") {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return load.Target{}, fmt.Errorf("processes %q: %w", f.pids, err)
		}
		t.PIDs = append(t.PIDs, pid)
	}
	return t, nil
}

func (f *loadFlags) emit(metric, unit string, value float64) {
	fmt.Fprintf(f.out, "%s %s %g %.6g\n", metric, unit, f.x, value)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// requestText is a request, with its urgency if it has one.
func requestText(urgency string) []byte {
	if urgency != "" {
		urgency = "Priority: " + urgency + "\r\n"
	}
	return []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + urgency + "\r\n")
}

// runOpenLoad is an open loop with one rate.
func runOpenLoad(args []string, out io.Writer) error {
	f := newLoadFlags("load", out)
	rate := f.Float64("rate", 1, "requests a second")
	target, err := f.target(args)
	if err != nil {
		return err
	}
	result, err := load.Open(load.OpenConfig{
		Target: target, Requests: [][]byte{requestText("")},
		Phases: []load.Phase{{For: f.warm + f.span, Rates: []float64{*rate}}},
		From:   f.warm, Patience: patience, Conns: openConns, Seed: f.seed,
	})
	if err != nil {
		return err
	}
	s := load.Summarise(result.Outcomes, -1, result.From, result.To, latencyTarget)
	f.emitSummary(s)
	f.emitUsage(result.Usage, result.To-result.From)
	f.emit("client-late", "ms", milliseconds(s.Late))
	return nil
}

func (f *loadFlags) emitSummary(s load.Summary) {
	f.emit("goodput", "req/s", s.Goodput)
	if s.Responses > 0 {
		f.emit("p99", "ms", milliseconds(s.P99))
	}
	f.emit("refused", "req/s", s.Refused)
	f.emit("lost", "req/s", s.Lost)
}

func (f *loadFlags) emitUsage(u load.Usage, span time.Duration) {
	f.emit("cpu", "%", 100*u.Server.Seconds()/span.Seconds())
	f.emit("others", "%", 100*u.Others.Seconds()/span.Seconds())
	f.emit("client-busy", "%", 100*u.Client.Seconds()/span.Seconds())
}

// runOpenStep is an open loop whose load goes up and down.
func runOpenStep(args []string, out io.Writer) error {
	f := newLoadFlags("step", out)
	steps := load.Steps{Target: latencyTarget}
	low := f.Float64("low", 1, "requests a second at first")
	high := f.Float64("high", 1, "requests a second after the step")
	f.DurationVar(&steps.Lead, "lead", time.Second, "low load before the first step")
	f.DurationVar(&steps.High, "high-for", time.Second, "high load after a step up")
	f.DurationVar(&steps.Low, "low-for", time.Second, "low load after a step down")
	f.IntVar(&steps.Count, "count", 1, "steps up, and down")
	target, err := f.target(args)
	if err != nil {
		return err
	}
	result, err := load.Open(load.OpenConfig{
		Target: target, Requests: [][]byte{requestText("")}, Phases: steps.Phases(*low, *high),
		Patience: patience, Drain: latencyTarget, Conns: openConns, Seed: f.seed,
	})
	if err != nil {
		return err
	}
	t := steps.Times(result.Outcomes)
	f.emit("settle-ms", "ms", milliseconds(t.Settle))
	f.emit("recover-ms", "ms", milliseconds(t.Recover))
	f.emit("step-p99-before", "ms", milliseconds(t.Before))
	f.emit("step-p99-top", "ms", milliseconds(t.Top))
	return nil
}

// Classes of runOpenPriority.
const (
	urgentClass = iota
	leisurelyClass
)

// runOpenPriority is an open loop of urgent and leisurely requests.
func runOpenPriority(args []string, out io.Writer) error {
	f := newLoadFlags("priority", out)
	high := f.Float64("urgent", 1, "urgent requests a second")
	low := f.Float64("leisurely", 1, "others a second, when measuring")
	lead := f.Float64("leisurely-before", 1, "others a second, before")
	target, err := f.target(args)
	if err != nil {
		return err
	}
	result, err := load.Open(load.OpenConfig{
		Target: target, Requests: [][]byte{requestText(urgent), requestText(leisurely)},
		Phases: []load.Phase{
			{For: f.warm, Rates: []float64{*high, *lead}},
			{For: f.span, Rates: []float64{*high, *low}},
		},
		From: f.warm, Patience: patience, Drain: patience, Conns: openConns, Seed: f.seed,
	})
	if err != nil {
		return err
	}
	from, to := result.From, result.To
	success := func(metric string, class int, limit time.Duration) {
		f.emit(metric, "%", 100*load.SuccessShare(result.Outcomes, class, from, to, limit))
	}
	success("success", urgentClass, patience)
	success("success-in-time", urgentClass, latencyTarget)
	success("success-low", leisurelyClass, patience)
	s := load.Summarise(result.Outcomes, urgentClass, from, to, latencyTarget)
	if s.Responses > 0 {
		f.emit("p99", "ms", milliseconds(s.P99))
	}
	all := load.Summarise(result.Outcomes, -1, from, to, latencyTarget)
	f.emit("goodput", "req/s", all.Goodput)
	f.emit("refused", "req/s", all.Refused)
	f.emitUsage(result.Usage, to-from)
	f.emit("client-late", "ms", milliseconds(all.Late))
	return nil
}

// What a closed loop says beside samples: when it begins and ends to measure, when the
// server does not listen any more, in place of samples, and when it has said all.
const (
	closedBegins = "measuring"
	closedEnds   = "measured"
	closedGone   = "gone"
	closedEnd    = "end"
)

// runClosed is a closed loop.
func runClosed(args []string, out io.Writer) error {
	f := newLoadFlags("closed", out)
	clients := f.Int("clients", 1, "clients")
	patient := f.Bool("patient", false, "clients do as Retry-After says")
	target, err := f.target(args)
	if err != nil {
		return err
	}
	result, err := load.Closed(load.ClosedConfig{
		Target: target, Request: requestText(""), Clients: *clients,
		Warm: f.warm, For: f.span, Patient: *patient, Seed: f.seed,
		Measuring: func(begins bool) {
			if begins {
				fmt.Fprintln(out, closedBegins)
			} else {
				fmt.Fprintln(out, closedEnds)
			}
		},
	})
	if errors.Is(err, load.ErrGone) {
		fmt.Fprintln(out, closedGone)
		return nil
	}
	if err != nil {
		return err
	}
	s := load.Summarise(result.Outcomes, -1, result.From, result.To, time.Hour)
	f.emitSummary(s)
	f.emit("longest", "ms", milliseconds(s.Longest))
	f.emitUsage(result.Usage, result.To-result.From)
	fmt.Fprintln(out, closedEnd)
	return nil
}

// runCrowd is a crowd of clients that connect at once.
func runCrowd(args []string, out io.Writer) error {
	cfg := load.CrowdConfig{Request: requestText("")}
	f := newLoadFlags("crowd", out)
	f.IntVar(&cfg.Clients, "clients", 1, "clients")
	f.DurationVar(&cfg.Jam, "jam", time.Second, "how long nobody hangs up")
	f.DurationVar(&cfg.Keep, "keep", 0, "how long connections are kept afterwards")
	f.DurationVar(&cfg.Limit, "limit", time.Minute, "longest run")
	var err error
	if cfg.Target, err = f.target(args); err != nil {
		return err
	}
	result, err := load.Crowd(cfg)
	if err != nil {
		return err
	}
	s := load.Summarise(result.Outcomes, -1, 0, cfg.Limit+time.Second, time.Hour)
	share := func(fate load.Fate) float64 {
		n := 0
		for i := range result.Outcomes {
			if result.Outcomes[i].Fate == fate {
				n++
			}
		}
		return 100 * float64(n) / float64(cfg.Clients)
	}
	f.emit("served", "%", share(load.Served))
	f.emit("refused", "%", share(load.Refused))
	f.emit("lost", "%", share(load.Lost))
	f.emit("all-served", "s", result.Took.Seconds())
	f.emit("p99", "ms", milliseconds(s.P99))
	f.emit("cpu-jammed", "%", 100*result.Jam.Server.Seconds()/(cfg.Jam/2).Seconds())
	f.emit("cpu-per-client", "µs", result.All.Server.Seconds()*1e6/float64(cfg.Clients))
	return nil
}
