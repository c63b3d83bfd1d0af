package proxy

import "math"

// A load is what is known of a backend that may have a request.
type load struct {
	of     int     // index of the backend in its group
	out    int64   // requests at it or on their way there
	weight float64 // its part of the requests beside those of the others; above 0
	seed   uint64  // hash of its name
}

// choose returns the index of the backend for a request, of the backends that may have it, one at least. It has no clock, keeps
// nothing and never waits: what it goes by is in the arguments. turn is one more with each choice of a group, and
// spreads requests over backends that are equally good; key stands for what a request sticks by, if keyed.
//
//	all ─→ leastLoaded: fewest requests for its weight ─→ index in all
//	all ─→ byKey: the backend of the key, unless it has more than its part
func (c *Config) choose(all []load, turn uint32, key uint64, keyed bool) int {
	if len(all) == 1 {
		return 0
	}
	if keyed {
		return byKey(all, key, c.Bound)
	}
	return leastLoaded(all, turn)
}

// leastLoaded is the index of a backend with the fewest requests for its weight. Those whose load is below what the least
// loaded one would have with the request count as equal, and get requests in proportion to their weights: an idle backend
// of weight 1 beside one of weight 3 gets one request in four, and under load a quarter of those under way.
func leastLoaded(all []load, turn uint32) int {
	least := math.Inf(1)
	for i := range all {
		least = min(least, float64(all[i].out+1)/all[i].weight)
	}
	equal, sum, last, alike := 0, 0.0, 0, true
	for i := range all {
		if l := &all[i]; float64(l.out) < least*l.weight {
			alike = alike && (equal == 0 || l.weight == all[last].weight)
			equal, sum, last = equal+1, sum+l.weight, i
		}
	}
	at, skip := spread(turn)*sum, int(turn%uint32(equal))
	for i := range all {
		l := &all[i]
		if float64(l.out) >= least*l.weight {
			continue
		}
		if alike && skip == 0 || !alike && at < l.weight {
			return i
		}
		at, skip = at-l.weight, skip-1
	}
	return last // of rounding
}

// byKey is the index of the backend of a key: the same one as long as it is there, and of the keys of one that goes or
// comes each other backend gets or gives its part (rendezvous hashing). With a bound of 1 or more, backends that have more
// than bound times their part of the requests under way are passed over; the next one of the key is always the same too.
func byKey(all []load, key uint64, bound float64) (best int) {
	requests, weights := int64(1), 0.0
	for i := range all {
		requests, weights = requests+all[i].out, weights+all[i].weight
	}
	first := math.Inf(1)
	for i := range all {
		l := &all[i]
		if bound >= 1 && float64(l.out) >= math.Ceil(bound*float64(requests)*l.weight/weights) {
			continue
		}
		// The least of exponentially distributed numbers is that of a backend with a probability in proportion to its weight.
		if at := -math.Log(fraction(mix(key^l.seed))) / l.weight; at < first {
			best, first = i, at
		}
	}
	return best
}

// spread is a sequence of numbers from 0 to 1 of which any few in a row lie far apart (the multiples of the golden ratio).
func spread(turn uint32) float64 { return float64(turn*2654435769) / (1 << 32) }

// fraction is a hash as a number between 0 and 1, neither included.
func fraction(hash uint64) float64 { return (float64(hash>>12) + 0.5) / (1 << 52) }

// mix spreads what differs over all bits (the last step of the generator splitmix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashOf is FNV-1a: the same in every process, so that servers in a row lead a key to the same backend.
func hashOf(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, ch := range text {
		h = (h ^ uint64(ch)) * 1099511628211
	}
	return mix(h)
}
