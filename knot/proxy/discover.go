package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// assignBits gives those of list that have none a bit that no other backend of list and others has.
func assignBits(list, others []*backend) error {
	var taken uint64
	for _, b := range slices.Concat(list, others) {
		taken |= b.bit
	}
	if n := len(list) + len(others); n > MaxBackends {
		return fmt.Errorf("there are %d backends; want %d at most", n, MaxBackends)
	}
	for _, b := range list {
		if b.bit == 0 {
			b.bit = ^taken & (taken + 1) // the lowest one
			taken |= b.bit
		}
	}
	return nil
}

// discover has fn, unless it is nil, find the backends of a group until Close. field is the prefix of their fields of Config.
func (p *Proxy) discover(fn func(context.Context, func([]string, []int) error), g *group, field string) {
	if fn == nil {
		return
	}
	p.checks.Go(func() {
		fn(p.ctx, func(backends []string, weights []int) error { return p.setBackends(g, field, backends, weights) })
	})
}

// setBackends replaces the backends of a group.
func (p *Proxy) setBackends(g *group, field string, backends []string, weights []int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err
	}
	list, each, errs := p.listOf(g, field, backends, weights)
	other := &p.canary
	if g == other {
		other = &p.stable
	}
	if len(errs) == 0 {
		errs = append(errs, assignBits(list, other.backends()))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	before, hadFound := g.backends(), g.found
	for _, b := range list {
		if slices.Contains(before, b) {
			continue
		}
		if hadFound { // else all backends begin now
			b.back(p.clock())
		}
		g.found = true
		if p.started {
			p.beginChecks(b)
		}
	}
	p.setTokens(slices.Concat(list, other.backends()))
	g.set(list, each)
	p.leaving = slices.DeleteFunc(p.leaving, (*backend).isIdle)
	for _, b := range before {
		if !slices.Contains(list, b) {
			b.remove()
			p.leaving = append(p.leaving, b)
		}
	}
	return nil
}

// remove has b take up no request any more. Requests under way go on.
func (b *backend) remove() {
	b.removed.Store(true)
	if b.uncheck != nil {
		b.uncheck()
	}
	b.retire()
}

// retire closes the pool once no request is at b or waits for it. Until then a request that waits still gets a connection.
func (b *backend) retire() {
	b.retired.Store(true)
	if b.isIdle() {
		b.close()
	}
}

// close ends connections at rest. It may be called several times.
func (b *backend) close() {
	b.pool.Close()
	if b.http2 != nil {
		b.http2.CloseIdleConnections()
	}
}
