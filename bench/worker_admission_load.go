package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
)

// The client processes of the experiments admission, overload-* and priority. Each is told what to do as JSON and
// prints admissionBegins when it begins, then one admissionResult as JSON.

const admissionBegins = "begins"

const (
	// latencyTarget is how soon a response must be there to count as goodput.
	latencyTarget = 100 * time.Millisecond
	// patience is how long clients of the open loops wait before they give up.
	patience = time.Second
)

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// admissionOpen is what an open loop is told.
type admissionOpen struct {
	Addr     string
	PIDs     []int // of the server, if its CPU time is wanted
	Requests []string
	Sources  [][4]byte
	Phases   []load.Phase
	From     time.Duration // what is due before is not counted
	Patience time.Duration
	Drain    time.Duration
	Target   time.Duration
	Retries  uint8
	Seed     uint64
	Steps    *load.Steps // whose times are wanted
}

// admissionClosed is what a closed loop is told.
type admissionClosed struct {
	Addr     string
	PIDs     []int // of the server, if the CPU time is wanted
	Requests []string
	Weights  []float64
	Clients  int
	Conns    int
	Warm     time.Duration
	For      time.Duration
	Target   time.Duration
	Patient  bool
	Seed     uint64
}

// admissionPeople is what people are told.
type admissionPeople struct {
	people.Config
	Target time.Duration
}

// admissionResult is what a client has seen.
type admissionResult struct {
	All     load.Tally
	Classes []load.Tally
	Span    time.Duration // in which they were due
	Bytes   int64         // of bodies; people only
	Windows []window      // from the beginning of the run on; open loops only
	Steps   load.StepTimes
	Usage   load.Usage    // open loops, closed ones that know PIDs, crowds
	Longest time.Duration // that any request has waited; closed loops only
	Jam     load.Usage    // in the second half of the jam; crowds only
	Took    time.Duration // until all were served; crowds only
}

// window is what became of the first attempts that were due in windowTime.
type window struct{ Due, InTime int }

const windowTime = 100 * time.Millisecond

// readSpec reads the one argument of a client.
func readSpec(name string, args []string, into any) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	text := flags.String("spec", "", "what to do, as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(*text), into); err != nil {
		return fmt.Errorf("%s: -spec=%q: %w", name, *text, err)
	}
	return nil
}

func (r *admissionResult) count(outcomes []load.Outcome, classes int, from, to, target time.Duration) {
	r.Span = to - from
	r.All = load.Count(outcomes, -1, from, to, target)
	for class := range classes {
		r.Classes = append(r.Classes, load.Count(outcomes, class, from, to, target))
	}
}

func (r *admissionResult) print(out io.Writer) error {
	return json.NewEncoder(out).Encode(r)
}

func runAdmissionOpen(args []string, out io.Writer) error {
	var spec admissionOpen
	if err := readSpec("open", args, &spec); err != nil {
		return err
	}
	debug.SetGCPercent(-1) // the raw system calls of load leave a collector no chance
	addr, err := netip.ParseAddrPort(spec.Addr)
	if err != nil {
		return err
	}
	cfg := load.OpenConfig{
		Target: load.Target{Addr: addr, Core: serverCore, PIDs: spec.PIDs}, Phases: spec.Phases, From: spec.From, Patience: spec.Patience,
		Drain: spec.Drain, Conns: load.MaxConns, Seed: spec.Seed, Sources: spec.Sources, Retries: spec.Retries,
	}
	for _, text := range spec.Requests {
		cfg.Requests = append(cfg.Requests, []byte(text))
	}
	total := time.Duration(0)
	for _, p := range spec.Phases {
		total += p.For
	}
	fmt.Fprintln(out, admissionBegins)
	seen, err := load.Open(cfg)
	if err != nil {
		return err
	}
	r := admissionResult{Windows: make([]window, total/windowTime+1)}
	r.count(seen.Outcomes, len(spec.Requests), spec.From, total, spec.Target)
	r.Usage = seen.Usage
	for i := range seen.Outcomes {
		o := &seen.Outcomes[i]
		if o.Tries > 0 || o.Scheduled >= total {
			continue
		}
		w := &r.Windows[o.Scheduled/windowTime]
		w.Due++
		if o.Fate == load.Served && o.Latency() <= spec.Target {
			w.InTime++
		}
	}
	if spec.Steps != nil {
		r.Steps = spec.Steps.Times(seen.Outcomes)
	}
	return r.print(out)
}

func runAdmissionClosed(args []string, out io.Writer) error {
	var spec admissionClosed
	if err := readSpec("closed", args, &spec); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	addr, err := netip.ParseAddrPort(spec.Addr)
	if err != nil {
		return err
	}
	cfg := load.ClosedConfig{
		Target: load.Target{Addr: addr, Core: serverCore, PIDs: spec.PIDs}, Clients: spec.Clients, Conns: spec.Conns,
		Warm: spec.Warm, For: spec.For, Patient: spec.Patient, Seed: spec.Seed,
	}
	for i, text := range spec.Requests {
		cfg.Mix = append(cfg.Mix, load.Share{Request: []byte(text), Weight: spec.Weights[i]})
	}
	fmt.Fprintln(out, admissionBegins)
	seen, err := load.Closed(cfg)
	if err != nil {
		return err
	}
	r := admissionResult{Longest: load.Longest(seen.Outcomes, seen.From, seen.To)}
	if len(spec.PIDs) > 0 {
		r.Usage = seen.Usage
	}
	// A closed loop is judged by what it gets, not by what it asks.
	for i := range seen.Outcomes {
		if o := &seen.Outcomes[i]; o.Fate != load.Pending && o.Done >= seen.From && o.Done < seen.To {
			o.Sent, o.Done, o.Scheduled = seen.From, seen.From+o.Latency(), seen.From
		} else {
			o.Scheduled = -1
		}
	}
	r.count(seen.Outcomes, len(spec.Requests), seen.From, seen.To, spec.Target)
	return r.print(out)
}

func runAdmissionCrowd(args []string, out io.Writer) error {
	var cfg load.CrowdConfig
	if err := readSpec("crowd", args, &cfg); err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	fmt.Fprintln(out, admissionBegins)
	seen, err := load.Crowd(cfg)
	if err != nil {
		return err
	}
	r := admissionResult{Usage: seen.All, Jam: seen.Jam, Took: seen.Took}
	r.count(seen.Outcomes, 0, 0, cfg.Limit+time.Second, time.Hour)
	return r.print(out)
}

func runAdmissionPeople(args []string, out io.Writer) error {
	var spec admissionPeople
	if err := readSpec("people", args, &spec); err != nil {
		return err
	}
	fmt.Fprintln(out, admissionBegins)
	seen, err := people.Run(spec.Config)
	if err != nil {
		return err
	}
	r := admissionResult{Bytes: seen.Bytes}
	r.count(seen.Outcomes, 2*len(spec.Groups), 0, spec.For, spec.Target)
	return r.print(out)
}
