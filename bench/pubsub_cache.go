package main

import (
	"fmt"
	"io"
	"time"

	"github.com/capriccio-go/capriccio/internal/sched"
)

// A model of why the order in which events are matched matters: the cache lines that the
// matching touches, in the order that a scheduler gives it, go through caches of several
// sizes. It knows no prefetching and no other programs, so it tells how many lines have to
// come from further away, not how long that takes.

const (
	lineBytes = 64
	lineWords = lineBytes / 4
	modelWays = 16

	modelWarmUp = 1000 // events that fill the caches
	modelEvents = 1000
	// Cache lines of its own that a task touches on each step: stack, values, bits and the runtime's
	// records. Counted from the structures, rounded.
	taskLines = 32
)

// modelCaches are the sizes, in KiB.
var modelCaches = []int{1024, 4096, 16384, 32768, 65536}

// A lruCache is a set-associative cache that evicts the line which was not used for
// longest.
type lruCache struct {
	lines  []uint64 // of each set, the last used first; 0: none
	sets   uint64
	misses int
}

func newLRUCache(bytes int) *lruCache {
	sets := bytes / lineBytes / modelWays
	return &lruCache{lines: make([]uint64, sets*modelWays), sets: uint64(sets)}
}

// touch uses a line, whose number is not 0.
func (c *lruCache) touch(line uint64) {
	at := line % c.sets * modelWays
	set := c.lines[at : at+modelWays]
	before := line
	for i, l := range set {
		set[i] = before
		if l == line {
			return
		}
		before = l
	}
	c.misses++
}

// touched calls visit with every cache line of data that match reads, and returns how many
// subscriptions it finds. A column is read from its first line to its last.
func (b *eventBits) touched(clusters []uint32, at uint32, visit func(line uint64)) (found int) {
	for len(clusters) > 0 {
		n := int(clusters[0] & headerMask)
		ids := 1 + n*int(clusters[0]>>headerColumns)
		word := func(i int) { visit(1 + uint64(int(at)+i)/lineWords) }
		for i := 0; i <= n; i += lineWords {
			word(i)
		}
		word(n)
		for i := 1; i <= n; i++ {
			k := i
			for ; k < ids && b.bit(clusters[k]) != 0; k += n {
				word(k)
			}
			if k != i {
				word(k)
			}
			if k >= ids {
				found++
			}
		}
		clusters = clusters[ids+n:]
		at += uint32(ids + n)
	}
	return found
}

// modelOrder is the order in which a scheduler runs the steps of events in flight.
type modelOrder interface {
	ready(slot, stage int)
	next() (slot int)
}

// A cohortOrder is the policy itself, with tasks that are numbers. Stage 0 is that an event
// begins.
type cohortOrder struct {
	policy sched.Policy
	queues [1 + pubsubAttributes/attributeGroup][]int
	steps  int

	// The batch.
	node      sched.Node
	left, ran int
}

func (o *cohortOrder) ready(slot, stage int) {
	o.policy.Count(sched.Node(stage), 1)
	o.queues[stage] = append(o.queues[stage], slot)
}

func (o *cohortOrder) next() int {
	if o.steps++; o.steps%64 == 0 {
		o.policy.Tick(time.Duration(o.steps) * modelStep)
	}
	if o.left == 0 || len(o.queues[o.node]) == 0 {
		if o.ran > 0 {
			o.policy.Ran(o.node, o.ran, uint64(o.ran)*uint64(modelStep), 0)
		}
		if o.node, o.left, _ = o.policy.Choose(); o.left == 0 {
			panic("nothing ready in the model")
		}
		o.ran = 0
	}
	o.left--
	o.ran++
	slot := o.queues[o.node][0]
	o.queues[o.node] = o.queues[o.node][1:]
	return slot
}

const modelStep = 10 * time.Microsecond // about what matching a stage takes

// A queueOrder is first in, first out. With one event in flight each runs to its end.
type queueOrder struct{ queue []int }

func (o *queueOrder) ready(slot, _ int) { o.queue = append(o.queue, slot) }

func (o *queueOrder) next() int {
	slot := o.queue[0]
	o.queue = o.queue[1:]
	return slot
}

// modelPubsub prints how many lines an event misses in each cache, by the order: a system, and a sample of it.
func modelPubsub(all *subscriptions, flight int, out io.Writer) error {
	model := func(system string, size int, o modelOrder, flight int) {
		for i, misses := range countMisses(all, o, flight) {
			if size == 0 {
				fmt.Fprintf(out, "%s model-misses lines %d %.6g\n", system, modelCaches[i], misses)
			}
			if metric := map[int]string{1 << 10: "model-l2", 32 << 10: "model-l3"}[modelCaches[i]]; metric != "" {
				fmt.Fprintf(out, "%s %s lines %d %.6g\n", system, metric, size, misses)
			}
		}
	}
	for _, size := range modelSizes {
		model("capriccio", size, &cohortOrder{policy: sched.NewCohort(sched.CohortConfig{Size: size})}, flight)
	}
	model("capriccio-fifo", 0, &queueOrder{}, flight)
	model("goroutine", 0, &queueOrder{}, 1)
	return nil
}

// countMisses matches events in an order and returns the misses of an event in each of
// modelCaches.
func countMisses(all *subscriptions, o modelOrder, flight int) []float64 {
	var caches []*lruCache
	for _, kilobytes := range modelCaches {
		caches = append(caches, newLRUCache(kilobytes<<10))
	}
	visit := func(line uint64) {
		for _, c := range caches {
			c.touch(line)
		}
	}
	events := make([]modelEvent, flight)
	for i := range events {
		o.ready(i, 0)
	}
	next, done := 0, 0
	for done < modelWarmUp+modelEvents {
		slot := o.next()
		e := &events[slot]
		for i := range uint64(taskLines) {
			visit(1<<40 + uint64(slot)*taskLines + i)
		}
		if e.stage == 0 {
			e.begin(next)
			next++
		} else {
			e.touch(all, visit)
		}
		if e.advance(); e.stage == 0 {
			if done++; done == modelWarmUp {
				for _, c := range caches {
					c.misses = 0
				}
			}
		}
		o.ready(slot, e.stage)
	}
	var misses []float64
	for _, c := range caches {
		misses = append(misses, float64(c.misses)/modelEvents)
	}
	return misses
}

// A modelEvent is a matching whose next step is stage; 0: to begin.
type modelEvent struct {
	matching
	stage int
}

// touch is the next step; it returns how many subscriptions it finds.
func (e *modelEvent) touch(all *subscriptions, visit func(line uint64)) (found int) {
	first := (e.stage - 1) * attributeGroup
	for a, v := range e.values[first : first+attributeGroup] {
		found += e.bits.touched(all.clusters(first+a, v), all.at[(first+a)*pubsubValues+int(v)], visit)
	}
	return found
}

// advance goes on to the stage that comes next.
func (e *modelEvent) advance() {
	for e.stage++; e.stage <= len(stageNames); e.stage++ {
		if e.needs(e.stage - 1) {
			return
		}
	}
	e.stage = 0
}
