package main

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/ressched"
)

// pubsub is the state of a worker that matches events: a number at a time, each by a task
// or a goroutine of its own. The first fields are constant.
type pubsub struct {
	all    *subscriptions
	events int // in the stream, which is repeated
	flight int64
	wanted time.Duration
	limit  int64 // events measured at most

	next  atomic.Int64 // event to be taken
	done  atomic.Int64 // events
	found atomic.Int64 // matches
	begun atomic.Bool  // start and used are there
	start time.Time
	used  time.Duration // processor time by then
	over  chan pubsubResult
}

type pubsubResult struct {
	events    int64
	took, cpu time.Duration
}

// stageNames are the names of the stages of the matching. A stage looks at the clusters of one group
// of attributes.
var stageNames = func() (names [pubsubAttributes / attributeGroup]string) {
	for i := range names {
		names[i] = "match " + strconv.Itoa(i)
	}
	return names
}()

// runPubsubWorker measures one system; or, as -model, no system but a model of caches.
func runPubsubWorker(args []string, out io.Writer) {
	flags := flag.NewFlagSet("pubsub", flag.ExitOnError)
	system := flags.String("system", "capriccio", "capriccio, capriccio-fifo or goroutine")
	size := flags.Int("size", 0, "of a cohort; 0: unlimited")
	flight := flags.Int("flight", eventsInFlight, "events in flight")
	subs := flags.Int("subscriptions", allSubscriptions, "")
	events := flags.Int("events", allEvents, "in the stream")
	wanted := flags.Duration("for", time.Second, "measure about so long, or until all events are through")
	byClients := flags.Bool("by-clients", false, "events in flight are clients: emit how long one waits for its response")
	partless := flags.Bool("one-stage", false, "match all groups of attributes in one stage")
	model := flags.Bool("model", false, "count misses in a model of caches")
	flags.Parse(args)
	if *size < 0 || *flight < 1 || *subs < 1 || *events < 1 || *wanted < 1 {
		check(fmt.Errorf("arguments are %q, want numbers of at least 1", args))
	}
	p := &pubsub{
		all: newSubscriptions(*subs), events: *events, flight: int64(*flight), wanted: *wanted,
		limit: int64(*events), over: make(chan pubsubResult, 1),
	}
	if *model {
		check(modelPubsub(p.all, *flight, out))
		return
	}
	runtime.GC()
	spawn, boundary := func(fn func()) { go fn() }, func(string) {}
	if *system != "goroutine" {
		rt := must(oneLoopWith(capriccio.WithScheduler(choose(*system == "capriccio", capriccio.Cohort, capriccio.FIFO)),
			capriccio.WithCohortSize(*size), capriccio.WithHoldLimit(-1)))
		spawn, boundary = func(fn func()) { rt.Go(fn) }, ressched.YieldAt
	}
	for range *flight {
		spawn(func() { p.serve(boundary, *partless) })
	}
	r := <-p.over
	if *byClients { // each has one event under way: Little's law
		emitAt(out, *flight)("response", "ms", float64(*flight)*r.took.Seconds()*1e3/float64(r.events))
		return
	}
	emit := emitAt(out, *size)
	emit("events", "events/s", float64(r.events)/r.took.Seconds())
	emit("cpu-per-event", "us", r.cpu.Seconds()*1e6/float64(r.events))
}

// serve matches one event after the other.
func (p *pubsub) serve(boundary func(name string), oneStage bool) {
	var e matching
	for more := true; more; more = p.count() {
		boundary("event")
		e.begin(int(p.next.Add(1)-1) % p.events)
		for i := range stageNames {
			if e.needs(i) {
				if !oneStage {
					boundary(stageNames[i])
				}
				e.match(p.all, i)
			}
		}
		p.found.Add(int64(len(e.found)))
	}
}

// A matching is an event that is being matched.
type matching struct {
	values eventValues
	bits   eventBits
	found  []uint32 // subscriptions
}

// begin takes event i.
func (e *matching) begin(i int) {
	e.values = eventAt(i)
	e.bits.fill(&e.values)
	e.found = e.found[:0]
}

// needs reports whether stage i can find anything.
func (e *matching) needs(stage int) bool { return e.values[stage*attributeGroup] != absent }

// match does the work of a stage.
func (e *matching) match(all *subscriptions, stage int) {
	first := stage * attributeGroup
	for a, v := range e.values[first : first+attributeGroup] {
		e.found = e.bits.match(all.clusters(first+a, v), e.found)
	}
}

// count notes that an event is done; it returns false when that was the last. Events in
// large cohorts are done all at about the same time: so what is measured is how long it
// takes until as many more events are done as are in flight, or a multiple.
func (p *pubsub) count() (more bool) {
	n := p.done.Add(1) - 2*p.flight // the first ones warm up
	switch {
	case n == 0:
		p.start, p.used = time.Now(), processTime()
		p.begun.Store(true)
		return true
	case n < 0 || n%p.flight != 0 || !p.begun.Load():
		return true
	}
	took := time.Since(p.start)
	if took < p.wanted && n < p.limit {
		return true
	}
	select {
	case p.over <- pubsubResult{n, took, processTime() - p.used}:
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
