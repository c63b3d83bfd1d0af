package simfleet

import (
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
)

// A balancer sends attempts to some of the servers. It knows only what it has sent itself.
type balancer struct {
	f        *Fleet
	backends []backend
	loads    []balance.Load // room for what a choice goes by
	turn     uint32
	choices  uint64
	budget   *balance.Budget
}

// A backend is a server as a balancer sees it.
type backend struct {
	server int
	seed   uint64
	out    int64
	fails  int           // in a row
	until  time.Duration // out for its failures; 0: it is not
}

func (b *balancer) init(f *Fleet, index int) {
	share := -1.0
	if f.Parts.Budgets {
		share = 0.1
	}
	b.f, b.budget, b.turn = f, balance.NewBudget(share), uint32(f.rnd.Uint64())
	n := min(subset, len(f.servers))
	for i := range n { // neighbours have few in common, and each server is known to as many
		s := (index*n + i) % len(f.servers)
		b.backends = append(b.backends, backend{server: s, seed: balance.Hash([]byte(fmt.Sprint("server ", s)))})
	}
}

// route sends a to a server.
func (b *balancer) route(a *attempt) {
	b.choices++
	i := b.choose(a, false)
	if i < 0 {
		if i = b.choose(a, true); i < 0 {
			b.answer(a)
			return
		}
	}
	x := &b.backends[i]
	x.out++
	a.server, a.closed, a.refused = x.server, false, false
	if a.tries < mostTries {
		a.tried[a.tries] = x.server
	}
	a.tries++
	b.f.post(event{when: b.f.now + network, kind: reaches, at: a})
}

// choose is the index of a backend that has not been tried; -1: there is none. desperate: in spite of failures.
func (b *balancer) choose(a *attempt, desperate bool) int {
	all := b.loads[:0]
	for i := range b.backends {
		x := &b.backends[i]
		if (desperate || x.until <= b.f.now) && !slices.Contains(a.tried[:min(a.tries, mostTries)], x.server) {
			all = append(all, balance.Load{Of: i, Out: x.out, Weight: 1, Seed: x.seed})
		}
	}
	b.loads = all
	switch {
	case len(all) == 0:
		return -1
	case b.f.Cause.keyed:
		most := 0.0
		if b.f.Parts.Admission {
			most = bound
		}
		return all[balance.ByKey(all, balance.Mix(uint64(a.key)), most)].Of
	}
	b.turn++
	return all[balance.LeastLoaded(all, b.turn)].Of
}

func (b *balancer) backend(server int) *backend {
	return &b.backends[slices.IndexFunc(b.backends, func(x backend) bool { return x.server == server })]
}

// close records that a is no longer at its server, as far as the balancer knows.
func (b *balancer) close(a *attempt) *backend {
	x := b.backend(a.server)
	if !a.closed {
		a.closed = true
		x.out--
	}
	return x
}

// leaves is called when the user of a has gone.
func (b *balancer) leaves(a *attempt) {
	b.close(a)
	b.f.servers[a.server].hangup(a)
}

// answered is called when the answer of a server to a has come, or the connection was refused or broke.
func (b *balancer) answered(a *attempt) {
	if a.closed {
		return
	}
	x := b.close(a)
	if a.ok || a.refused && b.f.Parts.Budgets { // what a server refuses by design is no failure of it
		x.fails, x.until = 0, 0
		b.answer(a)
		return
	}
	if x.fails++; x.fails >= maxFails {
		x.until = b.f.now + failTime
	}
	if a.tries < mostTries {
		b.choices++
		if b.budget.Take(int64(b.f.now), b.choices) {
			b.f.series.count(b.f.now, retried)
			b.route(a)
			return
		}
	}
	b.answer(a)
}

// answer passes the answer on. The way to the user is part of what a user thinks.
func (b *balancer) answer(a *attempt) {
	a.closed = true
	b.f.answers(a)
}
