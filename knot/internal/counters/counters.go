// Package counters counts the responses of a server, in shards so that loops seldom meet: by status and duration, and the bytes
// of their bodies.
package counters

import (
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// shards bounds how many loops can count without meeting.
const shards = 8

// classes are those of the statuses of responses: 0 to 5.
const classes = h1.LastStatus/100 + 1

// Counters are the counts of a server. The zero value is ready. Safe from anywhere.
type Counters [shards]shard

// A shard counts some of the requests. All fields are atomic.
type shard struct {
	status  [classes]atomic.Uint64
	refused [len(refusals)]atomic.Uint64
	bytes   atomic.Uint64
	took    [len(limits) + 1]atomic.Uint64
	sum     atomic.Uint64 // of durations, in nanoseconds
	_       [64]byte      // another loop's counters are not on our cache line
}

// refusals are the statuses of errors that are counted one by one.
var refusals = [...]int{400, 401, 403, 404, 405, 408, 412, 413, 414, 416, 417, 421, 429, 431, 500, 501, 502, 503, 504, 505}

// limits are the upper bounds of the durations that are counted.
var limits = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 60 * time.Second,
}

// A Batch gathers responses that have been completed and have not been counted yet. One goroutine at a time may use it.
type Batch struct {
	shard           uint32
	requests, bytes uint64
	class           int // of their status
}

var batches atomic.Uint32

// NewBatch returns a Batch for one of the shards in turn.
func NewBatch() Batch { return Batch{shard: batches.Add(1) % shards} }

// Add gathers a response. took is 0 if that is not known.
func (b *Batch) Add(to *Counters, status int, bytes int64, took time.Duration) (told int) {
	if class := min(status/100, classes-1); class != b.class {
		told = b.Tell(to)
		b.class = class
	}
	b.requests++
	b.bytes += uint64(max(bytes, 0))
	k := &to[b.shard]
	if status >= 400 {
		for i, one := range refusals {
			if one == status {
				k.refused[i].Add(1)
			}
		}
	}
	if took == 0 {
		return told
	}
	k.sum.Add(uint64(took))
	i := 0
	for i < len(limits) && took > limits[i] {
		i++
	}
	k.took[i].Add(1)
	return told
}

// Tell counts what has been gathered, and returns how many responses that were.
func (b *Batch) Tell(to *Counters) (told int) {
	if b.requests == 0 {
		return 0
	}
	k := &to[b.shard]
	k.status[b.class].Add(b.requests)
	k.bytes.Add(b.bytes)
	told = int(b.requests)
	b.requests, b.bytes, b.class = 0, 0, 0
	return told
}

// A Sum is the sum of all shards.
type Sum struct {
	Responses [classes]uint64 // by class of their status
	Errors    map[int]uint64  // by status
	Bytes     uint64
	Durations struct {
		Limits []time.Duration
		Counts []uint64 // up to Limits[i]; not cumulative
		Count  uint64
		Sum    time.Duration
	}
}

// Sum adds the shards up.
func (c *Counters) Sum() (sum Sum) {
	sum.Errors = make(map[int]uint64)
	d := &sum.Durations
	d.Limits, d.Counts = limits[:], make([]uint64, len(limits))
	for i := range c {
		k := &c[i]
		for class := range k.status {
			sum.Responses[class] += k.status[class].Load()
		}
		for i := range k.refused {
			if n := k.refused[i].Load(); n > 0 {
				sum.Errors[refusals[i]] += n
			}
		}
		sum.Bytes += k.bytes.Load()
		for i := range k.took {
			n := k.took[i].Load()
			d.Count += n
			if i < len(limits) {
				d.Counts[i] += n
			}
		}
		d.Sum += time.Duration(k.sum.Load())
	}
	return sum
}
