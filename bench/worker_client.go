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

// The client process of the experiments admission, overload-* and others. It is told what to do as JSON, and prints
// clientBegins when it begins, then one clientResult as JSON.

const clientBegins = "begins"

const (
	// latencyTarget is how soon a response must be there to count as goodput.
	latencyTarget = 100 * time.Millisecond
	// patience is how long clients of the open loops wait before they give up.
	patience = time.Second
)

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

// clientSpec is what a client is told: one of the first four.
type clientSpec struct {
	Open   *load.OpenConfig // what is due before its From is not counted
	Closed *load.ClosedConfig
	People *people.Config
	Crowd  *load.CrowdConfig
	Within time.Duration // how soon an answer counts
	Steps  *load.Steps   // of an open loop, whose times are wanted
}

type clientResult struct {
	All     load.Tally
	Classes []load.Tally
	Span    time.Duration // in which they were due
	Bytes   int64         // of bodies; people only
	Windows []window      // from the beginning of the run on; open loops only
	Served  []int         // in each servedTime from then on; open loops only
	Steps   load.StepTimes
	Usage   load.Usage    // open loops, closed ones that know PIDs, crowds
	Longest time.Duration // that any request has waited; open and closed loops
	Jam     load.Usage    // in the second half of the jam; crowds only
	Took    time.Duration // until all were served; crowds only
}

// window is what became of the first attempts that were due in windowTime.
type window struct{ Due, InTime int }

const (
	windowTime = 100 * time.Millisecond
	servedTime = 250 * time.Millisecond
)

func runClient(args []string, out io.Writer) {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	text := flags.String("spec", "", "what to do, as JSON")
	flags.Parse(args)
	var spec clientSpec
	check(json.Unmarshal([]byte(*text), &spec))
	if spec.People == nil {
		debug.SetGCPercent(-1) // the raw system calls of load leave a collector no chance
	}
	fmt.Fprintln(out, clientBegins)
	var r clientResult
	switch {
	case spec.Open != nil:
		r.open(spec)
	case spec.Closed != nil:
		r.closed(*spec.Closed, spec.Within)
	case spec.People != nil:
		seen := must(people.Run(*spec.People))
		r.Bytes = seen.Bytes
		r.count(seen.Outcomes, 2*len(spec.People.Groups), 0, spec.People.For, spec.Within)
	case spec.Crowd != nil:
		seen := must(load.Crowd(*spec.Crowd))
		r.Usage, r.Jam, r.Took = seen.All, seen.Jam, seen.Took
		r.count(seen.Outcomes, 0, 0, spec.Crowd.Limit+time.Second, time.Hour)
	default:
		check(fmt.Errorf("client: -spec=%s says nothing", *text))
	}
	check(json.NewEncoder(out).Encode(r))
}

func (r *clientResult) count(outcomes []load.Outcome, classes int, from, to, target time.Duration) {
	r.Span = to - from
	r.All = load.Count(outcomes, -1, from, to, target)
	for class := range classes {
		r.Classes = append(r.Classes, load.Count(outcomes, class, from, to, target))
	}
}

// open loads the server with the open loop of spec and records the outcomes.
func (r *clientResult) open(spec clientSpec) {
	total := time.Duration(0)
	for _, p := range spec.Open.Phases {
		total += p.For
	}
	seen := must(load.Open(*spec.Open))
	r.Usage, r.Windows, r.Served = seen.Usage, make([]window, total/windowTime+1), make([]int, total/servedTime)
	r.Longest = load.Longest(seen.Outcomes, 0, total+spec.Open.Drain)
	r.count(seen.Outcomes, len(spec.Open.Requests), spec.Open.From, total, spec.Within)
	for i := range seen.Outcomes {
		o := &seen.Outcomes[i]
		if o.Fate == load.Served && o.Done < servedTime*time.Duration(len(r.Served)) {
			r.Served[o.Done/servedTime]++
		}
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
}

func (r *clientResult) closed(cfg load.ClosedConfig, target time.Duration) {
	seen := must(load.Closed(cfg))
	r.Longest = load.Longest(seen.Outcomes, seen.From, seen.To)
	if len(cfg.PIDs) > 0 {
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
	r.count(seen.Outcomes, len(cfg.Mix), seen.From, seen.To, target)
}
