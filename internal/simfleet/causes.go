package simfleet

import "time"

// A Cause is what happens to a fleet, for a while.
type Cause struct {
	Name   string
	What   string        // happens, for a reader
	Lasts  time.Duration // 0: a moment
	begin  func(f *Fleet)
	end    func(f *Fleet)
	keyed  bool // servers are chosen by the key of a request
	cached bool // requests need the cache or the database
}

// Causes are all there are.
func Causes() []Cause {
	return []Cause{
		{Name: "third-lost", What: "a third of the servers is away for 20 s", Lasts: 20 * time.Second, begin: loseThird, end: returnThird},
		{Name: "deploy", What: "all servers restart, a quarter at a time, slow at first", Lasts: 4 * batchTakes, begin: deploy},
		{Name: "slow-dependency", What: "the database takes ten times as long for 20 s", Lasts: 20 * time.Second, cached: true,
			begin: func(f *Fleet) { f.store.slow = 10 }, end: func(f *Fleet) { f.store.slow = 1 }},
		{Name: "retry-storm", What: "no answer reaches its user for 3 s", Lasts: 3 * time.Second,
			begin: func(f *Fleet) { f.muted = true }, end: func(f *Fleet) { f.muted = false }},
		{Name: "hot-key", What: "a third of all requests is for one key, for 20 s", Lasts: 20 * time.Second, keyed: true,
			begin: func(f *Fleet) { f.hot = 1.0 / 3 }, end: func(f *Fleet) { f.hot = 0 }},
		{Name: "cold-cache", What: "the cache is empty at once", cached: true, begin: func(f *Fleet) { f.store.flush() }},
	}
}

func loseThird(f *Fleet) {
	for i := 0; i < len(f.servers); i += 3 {
		f.servers[i].stop()
	}
}

func returnThird(f *Fleet) {
	for i := 0; i < len(f.servers); i += 3 {
		f.servers[i].start()
	}
}

// A deploy: how long a batch of servers takes, is away, and is slow.
const (
	batchTakes = 8 * time.Second
	batchAway  = 2 * time.Second
	batchSlow  = 4 * time.Second
	slowSpeed  = 0.4
)

// deploy starts a quarter of the servers anew at a time, as Kubernetes does by default.
func deploy(f *Fleet) {
	from := f.now
	for i := range f.servers {
		s, at := &f.servers[i], from+time.Duration(i%4)*batchTakes
		f.call(at, s.stop)
		f.call(at+batchAway, func() {
			s.start()
			s.speed = slowSpeed
		})
		f.call(at+batchAway+batchSlow, func() { s.speed = 1 })
	}
}
