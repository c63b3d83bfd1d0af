// Package balance chooses backends for requests, and says how often a request may be sent again. It knows numbers only: it has
// no clock, opens no connection and does not park, so that the same code runs in a proxy, in a client and in a simulated fleet.
package balance

import (
	"math"
	"time"
)

// A Load is what is known of a backend that may have a request.
type Load struct {
	Of     int     // index of the backend in its group
	Out    int64   // requests at it or on their way there
	Weight float64 // its part of the requests beside those of the others; above 0
	Seed   uint64  // Hash of its name

	// For HotCold, from the load report of the backend: requests in flight, from all balancers, and how long a request takes.
	Known    bool
	InFlight float64
	Latency  time.Duration
}

// LeastLoaded is the index of a backend with the fewest requests for its weight; all must not be empty. turn is one more with
// each choice of a group, and spreads requests over backends that are equally good. Backends whose load is below what the
// least loaded one would have with the request count as equal, and get requests in proportion to their weights: an idle
// backend of weight 1 beside one of weight 3 gets one request in four, and under load a quarter of those under way.
func LeastLoaded(all []Load, turn uint32) int {
	least := math.Inf(1)
	for i := range all {
		least = min(least, float64(all[i].Out+1)/all[i].Weight)
	}
	equal, sum, last, alike := 0, 0.0, 0, true
	for i := range all {
		if l := &all[i]; float64(l.Out) < least*l.Weight {
			alike = alike && (equal == 0 || l.Weight == all[last].Weight)
			equal, sum, last = equal+1, sum+l.Weight, i
		}
	}
	at, skip := Spread(turn)*sum, int(turn%uint32(equal))
	for i := range all {
		l := &all[i]
		if float64(l.Out) >= least*l.Weight {
			continue
		}
		if alike && skip == 0 || !alike && at < l.Weight {
			return i
		}
		at, skip = at-l.Weight, skip-1
	}
	return last // of rounding
}

// ByKey is the index of the backend of a key (rendezvous hashing): the same backend as long as it is there. When a backend
// goes, its keys are spread over all others; when one comes, it takes keys from all others. With a bound of 1 or more,
// backends that have more than bound times their part of the requests under way are passed over; the next backend of a key
// is always the same too.
func ByKey(all []Load, key uint64, bound float64) (best int) {
	requests, weights := int64(1), 0.0
	for i := range all {
		requests, weights = requests+all[i].Out, weights+all[i].Weight
	}
	first := math.Inf(1)
	for i := range all {
		l := &all[i]
		if bound >= 1 && float64(l.Out) >= math.Ceil(bound*float64(requests)*l.Weight/weights) {
			continue
		}
		// The least of exponentially distributed numbers is that of a backend with a probability in proportion to its weight.
		if at := -math.Log(Fraction(Mix(key^l.Seed))) / l.Weight; at < first {
			best, first = i, at
		}
	}
	return best
}

// Spread is a sequence of numbers from 0 to 1 of which any few in a row lie far apart (the multiples of the golden ratio).
func Spread(turn uint32) float64 { return float64(turn*2654435769) / (1 << 32) }

// Fraction is a hash as a number between 0 and 1, neither included.
func Fraction(hash uint64) float64 { return (float64(hash>>12) + 0.5) / (1 << 52) }

// Mix spreads a difference in any bit of x over all bits (the last step of the generator splitmix64).
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Hash is FNV-1a and then Mix: the same in every process, so that servers in a row lead a key to the same backend.
func Hash(text []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, ch := range text {
		h = (h ^ uint64(ch)) * 1099511628211
	}
	return Mix(h)
}
