package limit

import (
	"iter"
	"slices"
)

// A Use is how many requests of a key were allowed.
type Use struct {
	Key      [16]byte
	Requests int
}

// Share has other servers take part in the buckets of r: Uses is what they must be told, Settle takes over what they leave. onUse is
// called when there is something for Uses that was not; it must not wait. Share must be called before the first request.
func (r *Rule) Share(onUse func()) { r.buckets.onUse = onUse }

// Rate is how many requests a bucket gains in a second, and how many it holds.
func (r *Rule) Rate() (perSecond, burst float64) { return r.buckets.perSecond, r.buckets.burst }

// Uses are the requests that were allowed since the last call, in lists of at most most keys.
func (r *Rule) Uses(most int) iter.Seq[[]Use] { return slices.Chunk(r.buckets.uses(), most) }

// Settle sets the buckets of these keys to what is left of them, less what was used since Uses. Below 0 it is owed.
func (r *Rule) Settle(uses []Use, left []float64) {
	b := r.buckets
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, u := range uses {
		if e := b.of[u.Key]; e != nil {
			one := e.Value.(*bucket)
			one.left, one.at = min(b.burst, left[i])-float64(one.used), now
		}
	}
}

// noteUse notes a request that was allowed. Caller holds mu.
func (b *buckets) noteUse(one *bucket) {
	if one.used++; one.used > 1 {
		return
	}
	if b.used = append(b.used, one); len(b.used) == 1 {
		b.onUse()
	}
}

func (b *buckets) uses() (all []Use) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.used {
		all = append(all, Use{one.key, one.used})
		one.used = 0
	}
	b.used = nil
	return all
}
