package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

func (k *Check) defaults() {
	k.Path = cmp.Or(k.Path, "/")
	setDefault(&k.Every, 5*time.Second)
	setDefault(&k.Timeout, 2*time.Second)
	setDefault(&k.Fall, 2)
	setDefault(&k.Rise, 1)
	k.Every, k.Timeout = max(k.Every, time.Millisecond), max(k.Timeout, time.Millisecond)
	k.Fall, k.Rise = max(k.Fall, 1), max(k.Rise, 1)
}

// Start begins to check the backends, if Config.Check says so, to probe their load, with the Balance "prequal", and to look for
// backends, if Config.Discover does, on goroutines that Close ends.
func (p *Proxy) Start() {
	if p.mirror != nil {
		p.mirror.to.Start()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = true
	for _, b := range p.all() {
		p.beginChecks(b)
	}
	p.discover(p.Discover, &p.stable, "")
	if p.Canary != nil {
		p.discover(p.Canary.Discover, &p.canary, "Canary.")
	}
}

// beginChecks has b checked, and probed, until it is removed, or Close is called. Caller holds mu.
func (p *Proxy) beginChecks(b *backend) {
	if p.Check == nil && b.heard == nil {
		return
	}
	var ctx context.Context
	ctx, b.uncheck = context.WithCancel(p.ctx)
	if b.heard != nil {
		p.checks.Go(func() { b.probeOn(ctx) })
	}
	if p.Check == nil {
		return
	}
	p.checks.Go(func() {
		tick := time.NewTicker(p.Check.Every)
		defer tick.Stop()
		for {
			err := b.check(ctx)
			if ctx.Err() != nil {
				return
			}
			b.checked(err)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// Close ends the checks. It closes the idle connections of each backend once that has no request any more. Requests go on
// that are under way, or wait for their turn.
func (p *Proxy) Close() {
	p.cancel()
	p.checks.Wait()
	if p.mirror != nil {
		p.mirror.to.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range append(p.all(), p.leaving...) {
		b.retire()
	}
}

// check asks once. It uses nothing of the runtime's, so that it works when that stands still, and blocks.
func (b *backend) check(ctx context.Context) error {
	k := b.p.Check
	ctx, cancel := context.WithTimeout(ctx, k.Timeout)
	defer cancel()
	if b.http2 != nil {
		status, err := b.checkHTTP2(ctx)
		return cmp.Or(err, k.checkStatus(status))
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, b.network, b.address)
	if err != nil || b.p.FastCGI != nil {
		if err == nil {
			c.Close()
		}
		return err
	}
	defer c.Close()
	if b.tls != nil {
		c = tls.Client(c, b.tls)
	}
	defer context.AfterFunc(ctx, func() { c.SetDeadline(ownconn.Past) })()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: knot-check\r\nConnection: close\r\n\r\n", k.Path, cmp.Or(k.Host, b.host())); err != nil {
		return err
	}
	var head h1.ResponseHead
	buf := make([]byte, 0, 4096)
	for {
		whole, err := head.Parse(buf)
		switch {
		case err != nil:
			return err
		case whole && head.Status < 200:
			buf = append(buf[:0], buf[head.Size:]...)
			continue
		case whole:
			return k.checkStatus(head.Status)
		}
		part := make([]byte, 4096)
		n, err := c.Read(part)
		if n == 0 {
			return cmp.Or(err, io.ErrUnexpectedEOF)
		}
		buf = append(buf, part[:n]...)
	}
}

// checkStatus returns an error unless a final status says that a backend is healthy.
func (k *Check) checkStatus(status int) error {
	if status >= 200 && status < 400 {
		return nil
	}
	return fmt.Errorf("GET %s has status %d; want 200 to 399", k.Path, status)
}

// host is the name of b in a Host line.
func (b *backend) host() string {
	if b.network == "unix" {
		return "localhost"
	}
	return b.address
}
