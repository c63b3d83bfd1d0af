package balance

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// hot is the part of the backends, by the requests that they have, above which a backend counts as hot (Prequal, Q_RIF).
	hot = 0.84
	// maxAge is how old a report of a backend may be. A backend that stalls sends none: with a multiple of maxAge it gets
	// requests for longer. It is also the longest time that a failure counts.
	maxAge = time.Second
)

// A Signal is the last report of a backend about its load. It counts for one request: balancers that use a report twice send
// the backend too much. In the simulation of the tests with four requests the 99th percentile is a third higher. The zero
// value knows nothing. Its methods may be called from any goroutine.
type Signal struct {
	mu       sync.Mutex
	known    bool          // guarded by mu, as all fields are
	inFlight float64       // requests
	latency  time.Duration // of one beside so many
	at       int64         // when it said so, in nanoseconds
}

// Report records what the backend has said: requests that it has, waiting ones too, and how long one takes beside so many. now
// is in nanoseconds.
func (s *Signal) Report(now int64, inFlight float64, latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.inFlight, s.latency, s.at = true, inFlight, latency, now
}

// Use records that a request is sent there.
func (s *Signal) Use() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
}

// Fill puts what is known of the backend, and is neither old nor used, into l. A backend has at least what was sent there.
func (s *Signal) Fill(now int64, l *Load) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Known = s.known && now-s.at <= int64(maxAge); l.Known {
		l.InFlight, l.Latency = max(s.inFlight, float64(l.Out)), s.latency
	}
}

// HotCold is the index of a backend by what the backends say (Prequal, NSDI 2024): of the backends that are not hot, the one
// that answers fastest. A backend of which nothing is known is chosen only if nothing is known of any, as by LeastLoaded. room
// is scratch space, returned for the next call.
func HotCold(all []Load, turn uint32, room []float64) (best int, _ []float64) {
	room = room[:0]
	for i := range all {
		if all[i].Known {
			room = append(room, all[i].InFlight/all[i].Weight)
		}
	}
	if len(room) == 0 {
		return LeastLoaded(all, turn), room
	}
	slices.Sort(room)
	threshold := room[int(hot*float64(len(room)-1))]
	least := math.Inf(1)
	for i := range all {
		// Begin at another one each time: backends that are equally good take turns.
		l := &all[(i+int(turn))%len(all)]
		if !l.Known || l.InFlight/l.Weight > threshold {
			continue
		}
		if at := l.Latency.Seconds(); at < least {
			best, least = (i+int(turn))%len(all), at
		}
	}
	return best, room
}
