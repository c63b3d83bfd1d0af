package limit

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/knot"
)

// A Rule limits how often requests with the same key may come. Made by New or PerClient. Safe from anywhere; it never parks.
type Rule struct {
	match        site.Pattern
	methods      []string // nil: all
	parts        []part
	bits4, bits6 int // of addresses that tell clients apart
	buckets      *buckets
	name         string // in RateLimit; "": no such lines
	policy       string // the line RateLimit-Policy
}

// A part is what a key is made of.
type part struct {
	kind byte   // one of the constants below
	name string // of the header or cookie
}

const (
	byClient = 'c'
	byPath   = 'p'
	byHeader = 'h'
	byCookie = 'k'
)

// Refused is how many requests have been turned away.
func (r *Rule) Refused() uint64 {
	r.buckets.mu.Lock()
	defer r.buckets.mu.Unlock()
	return r.buckets.refused
}

// Rules are the limits of a site.
type Rules []*Rule

// Handle counts a request with each rule that is for it, in order, and answers it if one turns it away.
func (rs Rules) Handle(x *knot.Ctx) (answered bool, err error) {
	for _, r := range rs {
		if wait := r.take(x); wait > 0 {
			x.AddHeader("Retry-After", seconds(wait))
			return true, x.SendError(429)
		}
	}
	return false, nil
}

// take counts a request. It returns 0, or when the next one with this key may come.
func (r *Rule) take(x *knot.Ctx) (wait time.Duration) {
	if r.methods != nil && !slices.Contains(r.methods, x.Method()) || !site.Matches(x, r.match) {
		return 0
	}
	k, ok := r.keyOf(x)
	if !ok {
		return 0
	}
	left, wait := r.buckets.take(k)
	if r.name != "" {
		reset := wait
		if wait == 0 {
			reset = duration((r.buckets.burst - left) / r.buckets.perSecond * float64(time.Second))
		}
		x.AddHeader("RateLimit-Policy", r.policy)
		x.AddHeader("RateLimit", r.name+";r="+strconv.Itoa(int(max(0, left)))+";t="+seconds(reset))
	}
	return wait
}

// seconds are those of d, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10)
}

// keyOf is the key of a request. ok is false if it has none: the client would belong to it, and has no IP address.
func (r *Rule) keyOf(x *knot.Ctx) (k key, ok bool) {
	client := x.ClientAddr()
	if len(r.parts) == 1 && r.parts[0].kind == byClient { // nothing is hashed
		return r.network(client), client.IsValid()
	}
	var room [256]byte
	text := room[:0]
	for _, p := range r.parts {
		var value []byte
		switch p.kind {
		case byPath:
			value = x.PathBytes()
		case byHeader:
			value = only(site.HeaderValues(x, p.name))
		case byCookie:
			value = only(site.CookieValues(x, p.name))
		}
		if len(value) == 0 {
			if !client.IsValid() {
				return k, false
			}
			network := r.network(client)
			value, p.kind = network[:], byClient
		}
		text = append(binary.AppendUvarint(append(text, p.kind), uint64(len(value))), value...)
	}
	sum := sha256.Sum256(text)
	return key(sum[:]), true
}

// network is what clients are told apart by.
func (r *Rule) network(addr netip.Addr) key {
	if !addr.IsValid() {
		return key{}
	}
	return site.ClientNetwork(addr, r.bits4, r.bits6).As16()
}

// only is the value if there is one: of several, backends differ in which one they take.
func only(values iter.Seq[[]byte]) (value []byte) {
	n := 0
	for v := range values {
		value = v
		n++
	}
	if n > 1 {
		return nil
	}
	return value
}
