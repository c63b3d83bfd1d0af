package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
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
	load.OpenConfig               // what is due before From is not counted
	Within          time.Duration // how soon an answer counts
	Steps           *load.Steps   // whose times are wanted
}

// admissionClosed is what a closed loop is told.
type admissionClosed struct {
	load.ClosedConfig
	Within time.Duration
}

// admissionPeople is what people are told.
type admissionPeople struct {
	people.Config
	Within time.Duration
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
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	text := flags.String("spec", "", "what to do, as JSON")
	flags.Parse(args)
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
	total := time.Duration(0)
	for _, p := range spec.Phases {
		total += p.For
	}
	fmt.Fprintln(out, admissionBegins)
	seen, err := load.Open(spec.OpenConfig)
	if err != nil {
		return err
	}
	r := admissionResult{Windows: make([]window, total/windowTime+1)}
	r.count(seen.Outcomes, len(spec.Requests), spec.From, total, spec.Within)
	r.Usage = seen.Usage
	for i := range seen.Outcomes {
		o := &seen.Outcomes[i]
		if o.Tries > 0 || o.Scheduled >= total {
			continue
		}
		w := &r.Windows[o.Scheduled/windowTime]
		w.Due++
		if o.Fate == load.Served && o.Latency() <= spec.Within {
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
	fmt.Fprintln(out, admissionBegins)
	seen, err := load.Closed(spec.ClosedConfig)
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
	r.count(seen.Outcomes, len(spec.Mix), seen.From, seen.To, spec.Within)
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
	r.count(seen.Outcomes, 2*len(spec.Groups), 0, spec.For, spec.Within)
	return r.print(out)
}
