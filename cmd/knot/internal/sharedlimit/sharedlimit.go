// Package sharedlimit has the limits of several servers count together, in Redis. No request waits for Redis: each server lets
// requests in by its own buckets, and a goroutine tells Redis in batches what was used of them, and sets them to what the whole
// fleet has left. While Redis is away, each server counts for itself.
//
//	request ─→ own bucket ─→ allowed or refused
//	              │ used, of all keys since the last batch        ↑ left in the fleet
//	              └──→ batch ──→ Redis: debit, what is left ──────┘
package sharedlimit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/redisclient"
)

const (
	// every is how long uses are gathered. Half of it is twice as many calls; with twice as much the servers let more in that the
	// others do not know of.
	every = 10 * time.Millisecond
	// patience is how long Redis may take for a batch.
	patience = time.Second
	// pause is how long Redis is left alone after it has failed.
	pause = time.Second
	// mostKeys is how many keys a batch has.
	mostKeys = 500
)

// debit takes what was used of each key, and returns what is left of each: below 0 it is owed. A bucket is the time at which it is
// full again, by the clock of Redis, in microseconds. It owes no more than what it can hold.
var debit = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local left = {}
for i, key in ipairs(KEYS) do
	local per, burst, used = tonumber(ARGV[3*i-2]), tonumber(ARGV[3*i-1]), tonumber(ARGV[3*i])
	local full = math.max(tonumber(redis.call('GET', key) or 0) or 0, now) + used * per
	full = math.min(full, now + 2 * burst * per)
	redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1)
	left[i] = tostring(burst - (full - now) / per)
end
return left`)

// A Fleet are the servers that use one Redis. Made by New.
type Fleet struct {
	client *redis.Client
	log    *slog.Logger
	rules  []shared
	used   chan struct{} // has room for one: something was used
	ctx    context.Context
	end    context.CancelFunc
	ended  chan struct{} // nil: Start was not called
}

// A shared is a rule and what it is called in Redis. Several may have one name: sites of different addresses.
type shared struct {
	name string
	rule *limit.Rule
}

// New makes a Fleet with the Redis at a URL, as redisclient has it. It connects only when something was used.
func New(url string, log *slog.Logger) (*Fleet, error) {
	client, err := redisclient.New(url, 1, patience)
	if err != nil {
		return nil, err
	}
	f := &Fleet{client: client, log: log, used: make(chan struct{}, 1)}
	f.ctx, f.end = context.WithCancel(context.Background())
	return f, nil
}

// Add has a rule count in the whole fleet. Rules with the same name share their buckets. It must be called before Start.
func (f *Fleet) Add(name string, r *limit.Rule) {
	f.rules = append(f.rules, shared{name, r})
	r.Share(func() {
		select {
		case f.used <- struct{}{}:
		default:
		}
	})
}

// Start begins to tell Redis what is used.
func (f *Fleet) Start() {
	f.ended = make(chan struct{})
	go f.run()
}

// Close ends that.
func (f *Fleet) Close() {
	f.end()
	if f.ended != nil {
		<-f.ended
	}
	f.client.Close()
}

// wait reports whether the time is over, and Close was not called.
func (f *Fleet) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.ctx.Done():
		return false
	}
}

func (f *Fleet) run() {
	defer close(f.ended)
	away := false
	for {
		select {
		case <-f.used:
		case <-f.ctx.Done():
			return
		}
		again := every
		err := f.tell()
		switch {
		case f.ctx.Err() != nil:
			return
		case err != nil && !away:
			f.log.Warn("knot: Redis can't be asked; each server counts requests for itself", "error", err)
		case err == nil && away:
			f.log.Info("knot: Redis is asked again; the servers count requests together")
		}
		if away = err != nil; away {
			again = pause
		}
		if !f.wait(again) {
			return
		}
	}
}

// tell tells Redis what was used of all rules. What an error keeps from it is forgotten.
func (f *Fleet) tell() (err error) {
	for _, of := range f.rules {
		for uses := range of.rule.Uses(mostKeys) {
			if err == nil {
				err = f.batch(of.name, of.rule, uses)
			}
		}
	}
	return err
}

func (f *Fleet) batch(name string, r *limit.Rule, uses []limit.Use) error {
	perSecond, burst := r.Rate()
	keys, args := make([]string, len(uses)), make([]any, 0, 3*len(uses))
	for i, u := range uses {
		keys[i] = fmt.Sprintf("{knot}:%s:%x", name, u.Key) // one node of a cluster has them all
		args = append(args, 1e6/perSecond, burst, u.Requests)
	}
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	left, err := debit.Run(ctx, f.client, keys, args...).Float64Slice()
	if err == nil && len(left) != len(uses) {
		err = fmt.Errorf("the Redis answers with %d numbers; want %d", len(left), len(uses))
	}
	for _, n := range left {
		if !(n >= -2*burst && n <= 2*burst) && err == nil { // a key that something else has written
			err = fmt.Errorf("the Redis says that %v requests are left; want %v at most", n, burst)
		}
	}
	if err == nil {
		r.Settle(uses, left)
	}
	return err
}
