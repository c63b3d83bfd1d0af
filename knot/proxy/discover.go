package proxy

import (
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

// setBackends replaces the backends of the first group. It is what Config.Discover gets.
func (p *Proxy) setBackends(backends []string, weights []int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ctx.Err(); err != nil {
		return err
	}
	list, each, errs := p.listOf(&p.stable, "", backends, weights)
	if len(errs) == 0 {
		errs = append(errs, assignBits(list, p.canary.backends()))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	before := p.stable.backends()
	for _, b := range list {
		if slices.Contains(before, b) {
			continue
		}
		if len(before) > 0 {
			b.back(p.clock())
		}
		if p.started {
			p.beginChecks(b)
		}
	}
	p.setTokens(slices.Concat(list, p.canary.backends()))
	p.stable.set(list, each)
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
	if b.outstanding.Load() == 0 {
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
