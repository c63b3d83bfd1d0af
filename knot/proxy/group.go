package proxy

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/balance"
)

// A group is backends among which a request is balanced.
type group struct {
	list  atomic.Pointer[[]*backend] // replaced as a whole, by one goroutine at a time
	turn  atomic.Uint64              // choices that were made
	from  uint32                     // what takes turns begins there: at random, or all proxies that start would begin at the first backend
	found bool                       // Discover has named a backend besides the fixed ones; guarded by Proxy.mu
}

// backends returns the present backends, in a slice that must not be changed.
func (g *group) backends() []*backend {
	if list := g.list.Load(); list != nil {
		return *list
	}
	return nil
}

// all are the backends of both groups.
func (p *Proxy) all() []*backend { return slices.Concat(p.stable.backends(), p.canary.backends()) }

// addGroup makes the backends of a group, which may have none yet if they come later. field is the prefix of their fields of
// Config.
func (p *Proxy) addGroup(g *group, field string, backends []string, weights []int, comeLater bool) (errs []error) {
	if len(backends) == 0 && comeLater {
		return nil
	}
	if len(backends) == 0 {
		err := errors.New("say which backends requests go to, as http://127.0.0.1:3000 or unix:/run/app.sock")
		if field != "" {
			err = &FieldError{field + "Backends", err}
		}
		return []error{err}
	}
	list, weights, errs := p.listOf(g, field, backends, weights)
	g.set(list, weights)
	return errs
}

// set replaces the backends.
func (g *group) set(list []*backend, weights []int) {
	for i, b := range list {
		b.weight.Store(int64(weights[i]))
	}
	g.list.Store(&list)
}

// listOf are the backends of a list for a group, and their weights. What the group has of them it keeps; others are made.
func (p *Proxy) listOf(g *group, field string, backends []string, weights []int) (list []*backend, each []int, errs []error) {
	wrong := func(name string, err error) {
		if field != "" || name == "Weights" {
			err = &FieldError{field + name, err}
		}
		errs = append(errs, err)
	}
	if weights != nil && len(weights) != len(backends) {
		wrong("Weights", fmt.Errorf("there are %d; want one for each of %d backends", len(weights), len(backends)))
	}
	sum := 0
	for i, text := range backends {
		b, err := p.newBackend(text)
		if err != nil {
			wrong("Backends", err)
			continue
		}
		named := func(o *backend) bool { return o.name == b.name }
		if slices.ContainsFunc(list, named) || g != &p.stable && slices.ContainsFunc(p.stable.backends(), named) ||
			g != &p.canary && slices.ContainsFunc(p.canary.backends(), named) {
			wrong("Backends", fmt.Errorf("the backend %s is there twice", text))
		}
		weight := 1
		if i < len(weights) {
			weight = weights[i]
		}
		if weight < 0 || weight > MaxWeight {
			wrong("Weights", fmt.Errorf("%d is not from 0 to %d", weight, MaxWeight))
		}
		sum += weight
		if at := slices.Index(p.Backends, text); g == &p.stable && at >= 0 && at < len(p.Zones) {
			b.zone = p.Zones[at]
		}
		b.group, b.seed = g, balance.Hash([]byte(b.network+" "+b.address))
		if was := slices.IndexFunc(g.backends(), named); was >= 0 && (g.backends()[was].tls == nil) == (b.tls == nil) {
			b = g.backends()[was]
		}
		list, each = append(list, b), append(each, weight)
	}
	if sum == 0 && len(list) > 0 {
		wrong("Weights", errors.New("all are 0; want one above that"))
	}
	return list, each, errs
}

// setTokens notes which of all backends the cookies of Sticky lead to. Backends of the list that no request can reach yet get
// their token here; requests read it without a lock afterwards.
func (p *Proxy) setTokens(all []*backend) {
	if p.Sticky == nil {
		return
	}
	tokens := make(map[string]*backend)
	for _, b := range all {
		if b.token == "" {
			b.token = p.Sticky.token(b)
		}
		tokens[b.token] = b
	}
	p.byToken.Store(&tokens)
}

// addBalance checks the fields about the choice of backends, but for Backends and Weights, and prepares p for them. given is the
// Config without the defaults: a Mirror fills in its own, as a setting that is off would get its default if that was done twice.
func (p *Proxy) addBalance(given Config) (errs []error) {
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
		p.canaryHeader, p.canaryCookie, of = c.parse()
		errs = append(errs, of...)
		errs = append(errs, p.addGroup(&p.canary, "Canary.", c.Backends, c.Weights, c.Discover != nil)...)
	}
	if p.Sticky != nil {
		s := new(*p.Sticky)
		p.Sticky = s
		errs = append(errs, s.faults()...)
		p.setTokens(p.all())
	}
	if p.Mirror != nil {
		var of []error
		p.mirror, of = newMirror(given)
		errs = append(errs, of...)
	}
	p.hasAffinity = p.Sticky != nil || p.Canary != nil || p.key != key{}
	return errs
}

// isOnly reports whether b must stay, whatever its failures are: it is all that the first group has.
func (p *Proxy) isOnly(b *backend) bool {
	return !p.copies && b.group == &p.stable && len(p.stable.backends()) == 1
}

// next counts a choice, and returns whose turn it is.
func (g *group) next() uint32 { return g.from + uint32(g.turn.Add(1)) }

// pick returns the backend for the next try, none of tried: that which the client sticks to, or one of its group, or one of
// the first group. If all of the first group are out for their failures, it returns one of them all the same: the network
// may be at fault. nil: none is left.
func (e *exchange) pick(tried uint64) *backend {
	p := e.p
	turn := e.group.next()
	home := e.home
	if home != nil && (tried&home.bit != 0 || home.removed.Load()) {
		home = nil
	}
	if home != nil && (home.isWell(false) || p.panics(home.group)) {
		return home
	}
	if e.group == &p.canary {
		if b := p.among(&p.canary, turn, tried, false, e); b != nil {
			return b
		}
	}
	if b := p.among(&p.stable, turn, tried, false, e); b != nil {
		return b
	}
	if home != nil && home.group == &p.stable && home.isWell(true) {
		return home
	}
	return p.among(&p.stable, turn, tried, true, e)
}

// among chooses one of a group, none of tried; nil: none is left. desperate: in spite of failures.
func (p *Proxy) among(g *group, turn uint32, tried uint64, desperate bool, e *exchange) *backend {
	all, backends := e.loads[:0], g.backends()
	panics := p.panics(g)
	near := p.Zone != "" && tried == 0 && !panics && !desperate && !p.fewAreWell(backends, p.Zone)
	for i, b := range backends {
		if near && b.zone != p.Zone {
			continue
		}
		if tried&b.bit == 0 && b.weight.Load() > 0 && (panics || b.isWell(desperate)) {
			all = append(all, balance.Load{Of: i, Out: b.load(), Weight: b.currentWeight(), Seed: b.seed})
		}
	}
	e.loads = all
	switch {
	case len(all) == 0:
		return nil
	case p.byReports:
		return backends[all[e.byLoad(all, backends, turn)].Of]
	}
	return backends[all[p.choose(all, turn, e)].Of]
}

// panics reports whether so few backends of g are well that all of them get requests. If no canary is well none does: the first
// group takes their requests.
func (p *Proxy) panics(g *group) bool {
	return p.PanicThreshold > 0 && p.fewAreWell(g.backends(), "") &&
		(g == &p.stable || slices.ContainsFunc(g.backends(), func(b *backend) bool { return b.weight.Load() > 0 && b.isWell(false) }))
}

// fewAreWell reports whether of the backends in a zone, all with "", fewer are well than PanicThreshold says, or none is.
func (p *Proxy) fewAreWell(backends []*backend, zone string) bool {
	well, all := 0, 0
	for _, b := range backends {
		if (zone == "" || b.zone == zone) && b.weight.Load() > 0 {
			all++
			if b.isWell(false) {
				well++
			}
		}
	}
	return well == 0 || float64(well) < p.PanicThreshold*float64(all)
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
	since, weight := b.backAt.Load(), float64(b.weight.Load())
	if since == 0 {
		return weight
	}
	part := float64(b.p.clock()-since) / float64(b.p.SlowStart)
	if part >= 1 {
		b.backAt.CompareAndSwap(since, 0)
		return weight
	}
	return weight * max(newest, part)
}

// back notes that b gets requests again from that time on.
func (b *backend) back(at int64) {
	if b.p.SlowStart > 0 {
		b.backAt.Store(max(at, 1))
	}
}
