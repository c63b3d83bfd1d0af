package addresses

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// A Change is how a server comes from the points that it listens on to others.
type Change struct {
	Added []*Point // of the points from now on: those to be opened and served
	Moved []*Point // of the points before: their sockets go on in another way, as Points in Added
	Gone  []*Point // of the points before: the server does not listen there any more
}

// Plan gives the points from now on what is listened on already, and returns the rest. A point that stays with its sockets has
// the Addr that it had.
func Plan(before, after []*Point) (c Change, err error) {
	left := slices.Clone(before)
	for _, p := range after {
		i := slices.IndexFunc(left, func(old *Point) bool { return p.continues(old) })
		if i < 0 {
			c.Added = append(c.Added, p)
			continue
		}
		old := left[i]
		left = slices.Delete(left, i, i+1)
		if len(old.opened) == 0 { // it was optional
			c.Added = append(c.Added, p)
			continue
		}
		p.Addr = old.Addr
		if p.TLS == old.TLS && p.Redirects == old.Redirects && p.HTTP3 == old.HTTP3 && slices.Equal(p.Proxies, old.Proxies) {
			p.sockets, p.opened, p.quic = old.sockets, old.opened, old.quic
			continue
		}
		c.Added, c.Moved = append(c.Added, p), append(c.Moved, old)
		if err := p.copySockets(old); err != nil {
			c.Undo()
			return Change{}, fmt.Errorf("%s: %w", p.Key, err)
		}
	}
	c.Gone = slices.DeleteFunc(left, func(p *Point) bool { return len(p.opened) == 0 })
	return c, nil
}

// continues reports whether p listens where old does.
func (p *Point) continues(old *Point) bool {
	passed := func(s Socket) bool { return s.Shared || s.Name != "" }
	return p.Addr == old.Addr || p.TakesAll && old.TakesAll && slices.ContainsFunc(old.sockets, passed) ||
		Port(p.Addr) != 0 && Same(p.Addr, old.Addr)
}

// copySockets gives p duplicates of the sockets of old.
func (p *Point) copySockets(old *Point) error {
	files, sockets, err := old.Files()
	if err != nil {
		return err
	}
	p.copied = true
	for i, f := range files {
		sockets[i].FD, err = duplicate(f)
		f.Close()
		if err != nil {
			for _, rest := range files[i+1:] {
				rest.Close()
			}
			return err
		}
		p.sockets = append(p.sockets, sockets[i])
	}
	return nil
}

// Undo closes what was opened for the points that were added. Their sockets are left to the points before.
func (c *Change) Undo() {
	for _, p := range c.Added {
		if len(p.opened) == 0 {
			for _, s := range p.sockets {
				unix.Close(s.FD)
			}
		}
		p.Close()
	}
}

// Finish ends the points before, once those that were added are served. Clients that wait to be accepted at addresses that are
// gone are still served, until ctx ends.
func (c *Change) Finish(ctx context.Context) {
	for _, p := range c.Added {
		p.Own()
	}
	for _, p := range c.Moved {
		for _, ln := range p.opened {
			ln.SetUnlinkOnClose(false)
		}
		p.Close()
	}
	for _, p := range c.Gone {
		for _, ln := range p.opened {
			ln.Drain(ctx)
		}
		p.opened = nil
		p.endQUIC()
	}
}
