package simfleet

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A Config says what is simulated. The zero value of each field is its default.
type Config struct {
	Seed      uint64
	Servers   int     // 100
	Balancers int     // 16
	Load      float64 // 0.8; what users ask for, in parts of what the processors can serve
	Important float64 // 0; the part of the users whose requests are important
	Parts     Parts
	Cause     Cause
	Before    time.Duration // 15 s; until the cause
	After     time.Duration // 30 s; after its end
}

// Parts are what a fleet has against melting down.
type Parts struct {
	Admission bool // servers refuse what they can't serve in time, as Knot does
	Budgets   bool // balancers retry a tenth of what they send, and never what a server refused
	Deadlines bool // requests carry how long the user waits: servers and database drop what would come too late
	// Importance: requests carry how important they are: servers with Admission serve the important ones first.
	Importance bool
}

// All is every part.
var All = Parts{Admission: true, Budgets: true, Deadlines: true}

const (
	work      = 20 * time.Millisecond  // processor time of a request, the mean of an exponential distribution
	network   = 500 * time.Microsecond // of a message
	refusal   = 20 * time.Microsecond  // processor time of a refusal; Knot takes 10 µs
	thinks    = 4 * time.Second        // of a user between two requests, the mean of an exponential distribution
	patience  = time.Second            // of a user for one attempt
	retries   = 3                      // of a user
	backoff   = 100 * time.Millisecond // before the first of these; twice as long before each other; half as much more or less
	fifoRoom  = 1000                   // attempts that wait at a server without Admission
	mostTries = 3                      // servers that a balancer sends an attempt to
	subset    = 64                     // servers that a balancer knows at most
	maxFails  = 3                      // failures in a row that take a server out
	failTime  = 10 * time.Second       // for that long
	bound     = 1.25                   // of its part that the server of a key gets at most, with Parts.Admission
)

// A Fleet is a simulation that runs. One goroutine at a time may use it.
type Fleet struct {
	Config
	now       time.Duration
	events    heap
	number    uint64
	timeouts  fifo[*attempt] // attempts in the order of their time-outs
	rnd       *rand.Rand
	users     []user
	balancers []balancer
	servers   []server
	store     store
	muted     bool    // answers do not reach users
	hot       float64 // share of the requests that are for key 0
	series    Series
}

// An attempt is a request as it was sent once. It belongs to what it waits for.
type attempt struct {
	user, balancer, server int
	sent                   time.Duration
	work                   time.Duration // processor time
	key                    int
	tried                  [mostTries]int
	tries                  int
	over                   bool // the user has an answer, or has given up
	closed                 bool // the balancer waits for it no longer
	refused                bool // the server did not want it
	important              bool
	ok                     bool          // the answer is what the user wants
	calling                bool          // the server waits for the database
	asked                  time.Duration // since then
	place                  int           // in databaseCalls.all
	entry                  admit.Entry[*attempt]
	heads                  admit.Work
}

// Run simulates a fleet with one Cause.
func Run(c Config) *Result { return RunTimes(c, 1)[0] }

// RunTimes simulates a fleet to which the same Cause comes that many times, each Before after the After of the one before it.
func RunTimes(c Config, times int) (all []*Result) {
	f := newFleet(c)
	for range times {
		from := f.now + f.Before
		to := from + f.Cause.Lasts
		f.call(from, func() { f.Cause.begin(f) })
		if f.Cause.end != nil {
			f.call(to, func() { f.Cause.end(f) })
		}
		f.until(to + f.After)
		all = append(all, f.result(from, to))
	}
	return all
}

func newFleet(c Config) *Fleet {
	f := &Fleet{Config: c}
	orElse(&f.Servers, 100)
	orElse(&f.Balancers, 16)
	orElse(&f.Load, 0.8)
	orElse(&f.Before, 15*time.Second)
	orElse(&f.After, 30*time.Second)
	f.rnd = rand.New(rand.NewPCG(c.Seed, 0xf1ee7))
	f.servers = make([]server, f.Servers)
	for i := range f.servers {
		f.servers[i].init(f, i)
	}
	f.balancers = make([]balancer, f.Balancers)
	for i := range f.balancers {
		f.balancers[i].init(f, i)
	}
	rate := f.Load * float64(f.Servers) / work.Seconds()
	f.store.init(f, rate)
	f.users = make([]user, int(rate*(thinks+2*work).Seconds()))
	for i := range f.users {
		f.post(event{when: f.exp(thinks), kind: userAsks, who: i})
	}
	return f
}

func orElse[T comparable](v *T, or T) {
	var zero T
	if *v == zero {
		*v = or
	}
}

func (f *Fleet) exp(mean time.Duration) time.Duration {
	return time.Duration(f.rnd.ExpFloat64() * float64(mean))
}

func (f *Fleet) post(e event) {
	f.number++
	e.number = f.number
	f.events.push(e)
}

func (f *Fleet) call(at time.Duration, fn func()) { f.post(event{when: at, kind: calls, fn: fn}) }

// until carries out events until that time.
func (f *Fleet) until(end time.Duration) {
	for {
		due := time.Duration(math.MaxInt64)
		if f.timeouts.len() > 0 {
			due = f.timeouts.first().sent + patience
		}
		next := f.events[0].when // users ask for ever
		if min(due, next) > end {
			f.now = end
			return
		}
		if due <= next {
			f.now = due
			f.timesOut(f.timeouts.pop())
			continue
		}
		e := f.events.pop()
		f.now = e.when
		f.carryOut(&e)
	}
}

func (f *Fleet) carryOut(e *event) {
	switch e.kind {
	case userAsks:
		f.asks(e.who)
	case reaches:
		f.servers[e.at.server].reached(e.at)
	case served:
		f.servers[e.who].served(e.at, e.number)
	case turns:
		f.servers[e.who].turnPosted = false
		f.servers[e.who].turn()
	case looks:
		f.servers[e.who].calls.look()
	case queryReaches:
		f.store.reached(e.at)
	case queried:
		f.store.finished(e.at)
	case queryAnswered:
		f.servers[e.at.server].calls.answered(e.at)
	case queryTimesOut:
		f.servers[e.at.server].calls.timesOut(e.at)
	case answered:
		f.balancers[e.at.balancer].answered(e.at)
	case calls:
		e.fn()
	}
}
