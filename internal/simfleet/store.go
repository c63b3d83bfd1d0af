package simfleet

import (
	"math"
	"time"
)

// A store is a cache that all servers share, and the database behind it, which is first in, first out and not ours.
type store struct {
	f       *Fleet
	expires []time.Duration // of each key; by Zipf's law a key is asked for as often as its number says, 0 most
	workers int             // of the database
	takes   time.Duration   // a query, the mean of an exponential distribution
	busy    int
	slow    float64 // times as long as usual; 1
	queue   fifo[*attempt]
}

const (
	keysPerServer    = 200
	serversPerWorker = 10          // of the database
	keeps            = time.Minute // the cache, a key
	databaseRoom     = 3           // times what usually misses the cache that the database can do
	databaseQueue    = 50_000      // queries that wait; it drops others
)

// init makes the cache as it is after hours at that many requests a second.
func (s *store) init(f *Fleet, rate float64) {
	s.f, s.slow = f, 1
	s.expires = make([]time.Duration, keysPerServer*f.Servers)
	misses := 0.0
	for k := range s.expires {
		each := rate * math.Log(float64(k+2)/float64(k+1)) / math.Log(float64(len(s.expires)+1)) // requests a second
		kept := each * keeps.Seconds() / (1 + each*keeps.Seconds())
		misses += each * (1 - kept)
		if f.rnd.Float64() < kept {
			s.expires[k] = time.Duration(f.rnd.Float64() * float64(keeps))
		}
	}
	s.workers = max(f.Servers/serversPerWorker, 1)
	s.takes = time.Duration(float64(s.workers) / (databaseRoom * misses) * float64(time.Second))
}

// draw is the key of a request.
func (s *store) draw() int {
	if s.f.Cause.keyed { // a few popular keys would be hot ones all the time
		return s.f.rnd.IntN(len(s.expires))
	}
	k := int(math.Exp(s.f.rnd.Float64()*math.Log(float64(len(s.expires)+1)))) - 1
	return min(k, len(s.expires)-1)
}

// hit reports whether the cache has a key.
func (s *store) hit(key int) bool { return !s.f.Cause.cached || s.expires[key] > s.f.now }

func (s *store) fill(key int) { s.expires[key] = s.f.now + keeps }

// flush empties the cache.
func (s *store) flush() { clear(s.expires) }

// reached is called when the query of a has come.
func (s *store) reached(a *attempt) {
	if s.queue.len() < databaseQueue {
		s.queue.push(a)
		s.work()
	}
}

// work has workers that are free take queries.
func (s *store) work() {
	for s.busy < s.workers && s.queue.len() > 0 {
		a := s.queue.pop()
		if s.f.Parts.Deadlines && s.f.now > a.sent+patience {
			continue
		}
		s.busy++
		s.f.post(event{when: s.f.now + time.Duration(s.slow*float64(s.f.exp(s.takes))), kind: queried, at: a})
	}
}

// finished is called when a worker has finished the query of a.
func (s *store) finished(a *attempt) {
	s.busy--
	s.f.post(event{when: s.f.now + network, kind: queryAnswered, at: a})
	s.work()
}
