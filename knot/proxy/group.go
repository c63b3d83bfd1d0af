package proxy

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/balance"
)

// A group is backends among which a request is balanced.
type group struct {
	backends []*backend
	turn     atomic.Uint64 // choices that were made
}

// addGroup adds the backends of a group. field is what their fields of Config begin with.
func (p *Proxy) addGroup(g *group, field string, backends []string, weights []int) (errs []error) {
	wrong := func(err error) {
		if field != "" {
			err = &FieldError{field + "Backends", err}
		}
		errs = append(errs, err)
	}
	if len(backends) == 0 {
		wrong(errors.New("say which backends requests go to, as http://127.0.0.1:3000 or unix:/run/app.sock"))
		return errs
	}
	if weights != nil && len(weights) != len(backends) {
		errs = append(errs, &FieldError{field + "Weights", fmt.Errorf("there are %d; want one for each of %d backends", len(weights), len(backends))})
	}
	sum := 0
	for i, text := range backends {
		b, err := p.newBackend(text)
		if err != nil {
			wrong(err)
			continue
		}
		for _, other := range p.backends {
			if other.name == b.name {
				wrong(fmt.Errorf("the backend %s is there twice", text))
			}
		}
		weight := 1
		if i < len(weights) {
			weight = weights[i]
		}
		if weight < 0 || weight > MaxWeight {
			errs = append(errs, &FieldError{field + "Weights", fmt.Errorf("%d is not from 0 to %d", weight, MaxWeight)})
		}
		sum += weight
		b.group, b.weight, b.seed, b.bit = g, float64(weight), balance.Hash([]byte(b.network+" "+b.address)), 1<<(len(p.backends)%MaxBackends)
		p.backends, g.backends = append(p.backends, b), append(g.backends, b)
	}
	if sum == 0 && len(g.backends) > 0 {
		errs = append(errs, &FieldError{field + "Weights", errors.New("all are 0; want one above that")})
	}
	return errs
}

// addBalance adds what is needed for other fields about the choice of backends.
func (p *Proxy) addBalance() (errs []error) {
	var err error
	if p.key, err = parseBalance(p.Balance); err != nil {
		errs = append(errs, &FieldError{"Balance", err})
	}
	switch {
	case p.Bound == 0:
	case !(p.Bound >= 1):
		errs = append(errs, &FieldError{"Bound", fmt.Errorf("%v is below 1: not all requests could be under way", p.Bound)})
	case p.key == key{} && err == nil:
		errs = append(errs, &FieldError{"Bound", errors.New("it is about requests that are led by a hash; want a balance, as \"hash client\"")})
	}
	if !(p.RetryShare <= 1) {
		errs = append(errs, &FieldError{"RetryShare", fmt.Errorf("%v is not from 0 to 1", p.RetryShare)})
	}
	if p.Canary != nil {
		c := new(*p.Canary) // the caller may change its own
		p.Canary = c
		var of []error
		p.canaryHeader, p.canaryCookie, of = c.rules()
		errs = append(errs, of...)
		errs = append(errs, p.addGroup(&p.canary, "Canary.", c.Backends, c.Weights)...)
	}
	if p.Sticky != nil {
		s := new(*p.Sticky)
		p.Sticky = s
		errs = append(errs, s.faults()...)
		p.byToken = make(map[string]*backend)
		for _, b := range p.backends {
			b.token = s.token(b)
			p.byToken[b.token] = b
		}
	}
	if p.Mirror != nil {
		var of []error
		p.mirror, of = newMirror(p.Config)
		errs = append(errs, of...)
	}
	p.aims = p.Sticky != nil || p.Canary != nil || p.key != key{}
	return errs
}

// isOnly reports whether b must stay, whatever its failures are: it is all that the first group has.
func (p *Proxy) isOnly(b *backend) bool {
	return !p.copies && b.group == &p.stable && len(p.stable.backends) == 1
}

// pick returns the backend for the next try, none of tried: that which the client sticks to, or one of its group, or one of
// the first group. If all of that are out for their failures, they count as well: it might be the network. nil: none is left.
func (e *exchange) pick(tried uint64) *backend {
	p := e.p
	turn := uint32(e.group.turn.Add(1))
	if b := e.home; b != nil && tried&b.bit == 0 && b.isWell(false) {
		return b
	}
	if e.group == &p.canary {
		if b := p.among(&p.canary, turn, tried, false, e); b != nil {
			return b
		}
	}
	if b := p.among(&p.stable, turn, tried, false, e); b != nil {
		return b
	}
	return p.among(&p.stable, turn, tried, true, e)
}

// among chooses one of a group, none of tried; nil: none is left. desperate: in spite of failures.
func (p *Proxy) among(g *group, turn uint32, tried uint64, desperate bool, e *exchange) *backend {
	all := e.loads[:0]
	for i, b := range g.backends {
		if tried&b.bit == 0 && b.weight > 0 && b.isWell(desperate) {
			all = append(all, balance.Load{Of: i, Out: b.outstanding.Load(), Weight: b.currentWeight(), Seed: b.seed})
		}
	}
	e.loads = all
	if len(all) == 0 {
		return nil
	}
	return g.backends[all[p.choose(all, turn, e)].Of]
}

// choose returns the index in all of the backend for e.
func (p *Proxy) choose(all []balance.Load, turn uint32, e *exchange) int {
	switch {
	case len(all) == 1:
		return 0
	case e.keyed:
		return balance.ByKey(all, e.key, p.Bound)
	}
	return balance.LeastLoaded(all, turn)
}

// isWell reports whether b gets requests; desperate: in spite of failures.
func (b *backend) isWell(desperate bool) bool {
	if b.sick.Load() {
		return false
	}
	until := b.downUntil.Load()
	return desperate || until == 0 || until <= b.p.clock()
}

// newest is the part of its weight with which a backend that was out begins.
const newest = 0.1

// currentWeight is the weight of b, less while it starts slowly.
func (b *backend) currentWeight() float64 {
	since := b.backAt.Load()
	if since == 0 {
		return b.weight
	}
	part := float64(b.p.clock()-since) / float64(b.p.SlowStart)
	if part >= 1 {
		b.backAt.CompareAndSwap(since, 0)
		return b.weight
	}
	return b.weight * max(newest, part)
}

// back notes that b gets requests again from that time on.
func (b *backend) back(at int64) {
	if b.p.SlowStart > 0 {
		b.backAt.Store(max(at, 1))
	}
}
