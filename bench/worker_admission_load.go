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

// The client processes of the experiment admission. Each is told what to do as JSON and
// prints admissionBegins when it begins, then one admissionResult as JSON.

const admissionBegins = "begins"

// admissionOpen is what an open loop is told.
type admissionOpen struct {
	Addr     string
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
	Requests []string
	Weights  []float64
	Clients  int
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
	Busy    float64 // how much of its core the client used, %; open loops only
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
		Target: load.Target{Addr: addr, Core: serverCore}, Phases: spec.Phases, From: spec.From, Patience: spec.Patience,
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
	r.Busy = 100 * seen.Usage.Client.Seconds() / (seen.To - seen.From).Seconds()
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
		Target: load.Target{Addr: addr, Core: serverCore}, Clients: spec.Clients,
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
	// A closed loop is judged by what it gets, not by what it asks.
	for i := range seen.Outcomes {
		if o := &seen.Outcomes[i]; o.Fate != load.Pending && o.Done >= seen.From && o.Done < seen.To {
			o.Sent, o.Done, o.Scheduled = seen.From, seen.From+o.Latency(), seen.From
		} else {
			o.Scheduled = -1
		}
	}
	var r admissionResult
	r.count(seen.Outcomes, len(spec.Requests), seen.From, seen.To, spec.Target)
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
