package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/steer"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// pubsub is the state of a worker that matches events.
type pubsub struct {
	all    *subscriptions
	per    int      // attributes of a stage
	stages []string // names
	events int           // of the stream; constant
	wanted time.Duration // to measure for at most; constant
	warmUp int64         // events before the clock starts; constant

	next  atomic.Int64  // event
	done  atomic.Int64  // events
	found atomic.Int64  // matches
	start time.Time     // written by who has done the last event of the warm-up, as is
	used  time.Duration // processor time by then
	begun atomic.Bool
	over  chan pubsubResult
}

type pubsubResult struct {
	events    int64
	took, cpu time.Duration
}

// runPubsubWorker matches events: so many at a time, each on a task or goroutine of its own.
func runPubsubWorker(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("pubsub", flag.ContinueOnError)
	system := flags.String("system", "capriccio", "capriccio, capriccio-fifo or goroutine")
	size := flags.Int("size", 0, "of a cohort; 0: unlimited")
	stage := flags.Int("stage", attributeGroup, "attributes of a stage")
	flight := flags.Int("flight", 1000, "events in flight")
	subs := flags.Int("subscriptions", 1_000_000, "")
	events := flags.Int("events", 100_000, "in the stream")
	wanted := flags.Duration("for", time.Second, "measure at most so long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *flight < 1 || *events < *flight {
		return fmt.Errorf("bad arguments %q", args)
	}
	p := newPubsub(newSubscriptions(*subs), *stage)
	p.events, p.wanted, p.warmUp = *events, *wanted, int64(2**flight)
	runtime.GC()
	spawn, boundary := func(fn func()) { go fn() }, func(string) {}
	if *system != "goroutine" {
		rt, err := pubsubRuntime(*system, *size)
		if err != nil {
			return err
		}
		spawn, boundary = func(fn func()) { rt.Go(fn) }, task.At
	}
	for range *flight {
		spawn(func() { p.serve(boundary) })
	}
	r := <-p.over
	fmt.Fprintf(os.Stderr, "%d bytes, %d stages, %.1f found\n", p.all.bytes(), len(p.stages), float64(p.found.Load())/float64(p.done.Load()))
	fmt.Fprintf(out, "events events/s %d %.6g\n", *size, float64(r.events)/r.took.Seconds())
	fmt.Fprintf(out, "cpu-per-event us %d %.6g\n", *size, r.cpu.Seconds()*1e6/float64(r.events))
	return nil
}

func newPubsub(all *subscriptions, attributes int) *pubsub {
	p := &pubsub{all: all, per: attributes, over: make(chan pubsubResult, 1)}
	for a := 0; a < pubsubAttributes; a += attributes {
		p.stages = append(p.stages, "match "+strconv.Itoa(a))
	}
	return p
}

func pubsubRuntime(system string, size int) (*task.Runtime, error) {
	g := bgraph.New(bgraph.Config{})
	cfg := task.Config{
		Loops: 1, NewPoller: func(int) (task.Poller, error) { return netpoll.NewEpoll() },
		NewObserver: g.Observe, Log: slog.New(slog.DiscardHandler), HoldLimit: -1,
	}
	if system == "capriccio" {
		s, err := steer.New(steer.Config{Policy: steer.Cohort, Graph: g, CohortSize: size})
		if err != nil {
			return nil, err
		}
		cfg.NewPolicy = s.Policy
	}
	return task.New(cfg)
}

// serve matches one event after the other.
func (p *pubsub) serve(boundary func(name string)) {
	var bits eventBits
	var found []uint32
	for {
		boundary("event")
		values := eventAt(int(p.next.Add(1)-1) % p.events)
		bits.fill(&values)
		found = found[:0]
		for i, name := range p.stages {
			first := i * p.per
			if values[first] == absent {
				continue
			}
			boundary(name)
			for a := first; a < first+p.per; a++ {
				if values[a] != absent {
					found = bits.match(p.all.clusters(a, values[a]), found)
				}
			}
		}
		p.found.Add(int64(len(found)))
		if !p.count() {
			return
		}
	}
}

// count notes that an event is done; it returns false when that was the last.
func (p *pubsub) count() bool {
	n := p.done.Add(1)
	switch {
	case n < p.warmUp:
		return true
	case n == p.warmUp:
		p.start, p.used = time.Now(), processTime()
		p.begun.Store(true)
		return true
	case !p.begun.Load():
		return true
	}
	took := time.Since(p.start)
	if took < p.wanted && n < p.warmUp+int64(p.events) {
		return true
	}
	select {
	case p.over <- pubsubResult{n - p.warmUp, took, processTime() - p.used}:
	default:
	}
	return false
}

// processTime is the processor time that this process has used.
func processTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
