package site

import (
	"container/list"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

// DefaultMaxClients is how many clients a Clients remembers.
const DefaultMaxClients = 100_000

// Clients limits how often each client may ask: a bucket for each that holds up to burst requests
// and gains perSecond of them in a second. Clients are told apart by address, of IPv6 by its first
// 64 bits. A client that asks too often gets 429 with Retry-After. When it knows as many clients as it may,
// the one that has asked least recently is forgotten, and begins with a full bucket should it come
// back. Safe from anywhere; it never parks.
type Clients struct {
	perSecond, burst float64
	most             int
	now              func() time.Time

	mu      sync.Mutex
	buckets map[netip.Addr]*list.Element // of *bucket; guarded by mu
	recent  list.List                    // the last to ask is first; guarded by mu
	refused uint64                       // guarded by mu
}

type bucket struct {
	addr netip.Addr
	left float64   // requests
	at   time.Time // when left was right
}

// NewClients makes a Clients. burst 0 means one second's worth, and at least 1; most 0 means
// DefaultMaxClients.
func NewClients(perSecond, burst float64, most int) (*Clients, error) {
	if !(perSecond > 0) || math.IsInf(perSecond, 0) || burst < 0 || math.IsNaN(burst) || math.IsInf(burst, 0) {
		return nil, fmt.Errorf("a client can't have %v requests a second in bursts of %v", perSecond, burst)
	}
	if most < 0 {
		return nil, fmt.Errorf("%d clients can't be remembered", most)
	}
	if burst == 0 {
		burst = max(1, perSecond)
	}
	if most == 0 {
		most = DefaultMaxClients
	}
	return &Clients{perSecond: perSecond, burst: max(1, burst), most: most, now: time.Now, buckets: make(map[netip.Addr]*list.Element)}, nil
}

// Refused is how many requests have been turned away.
func (c *Clients) Refused() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// take takes up a request of the client of x. It returns 0, or when the client may ask again. A
// client without an IP address, on a unix socket, has no limit.
func (c *Clients) take(x *knot.Ctx) time.Duration {
	addr := x.ClientAddr()
	if !addr.IsValid() {
		return 0
	}
	return c.takeFrom(addr)
}

func (c *Clients) takeFrom(addr netip.Addr) time.Duration {
	addr = clientNetwork(addr)
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.buckets[addr]
	if e == nil {
		if len(c.buckets) >= c.most {
			last := c.recent.Back()
			delete(c.buckets, last.Value.(*bucket).addr)
			c.recent.Remove(last)
		}
		e = c.recent.PushFront(&bucket{addr, c.burst, now})
		c.buckets[addr] = e
	}
	c.recent.MoveToFront(e)
	b := e.Value.(*bucket)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left = min(c.burst, b.left+passed*c.perSecond)
		b.at = now
	}
	if b.left >= 1 {
		b.left--
		return 0
	}
	c.refused++
	return time.Duration(math.Ceil((1 - b.left) / c.perSecond * float64(time.Second)))
}

// clientNetwork is what clients are told apart by: the address, of IPv6 its first 64 bits.
func clientNetwork(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() {
		net, _ := addr.Prefix(64)
		addr = net.Addr()
	}
	return addr
}

// tooMany turns a request away.
func tooMany(x *knot.Ctx, wait time.Duration) error {
	x.AddHeader("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	return x.SendError(429)
}
