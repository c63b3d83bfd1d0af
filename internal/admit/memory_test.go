package admit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A memoryServer is simulated event by event: closed-loop clients whose requests each
// take memory, hold it for a time, and give it back. It may have several loops, each
// with clients and an Admission of its own; a loop asks again when one of its requests
// finishes, and every millisecond.
type memoryServer struct {
	rng      *rand.Rand
	ledger   *Ledger
	memory   ResourceID
	limit    *ConcurrencyLimit
	loops    []*memoryLoop
	size     func() float64
	hold     time.Duration
	others   float64
	now      time.Duration
	tick     time.Duration
	inUse    float64
	holding  int     // tasks that have taken what they take
	most     float64 // the most that was ever in use
	late     float64 // share of hold after which memory is taken
	low      int     // the fewest inside since record, as of the ticks
	high     int     // and the most
	events   timeline[event]
	latency  []time.Duration // of what finished since record
	record   time.Duration
	byClient []int
}

type memoryLoop struct {
	admission *Admission
	line      []waitingClient
}

type waitingClient struct {
	client int
	since  time.Duration
}

type event struct {
	at     time.Duration
	loop   int
	client int
	since  time.Duration
	size   float64
	take   bool // else it is the end
}

const mib = 1 << 20

func newMemoryServer(t *testing.T, loops, clients int, hold time.Duration) *memoryServer {
	m := &memoryServer{rng: rand.New(rand.NewPCG(*seedFlag, 11)), hold: hold, others: 20 * mib}
	m.size = func() float64 { return mib }
	m.ledger = NewLedger()
	m.memory = mustAdd(t, m.ledger, Spec{Name: "memory", Limit: 512 * mib, Unknown: 16 * mib})
	m.limit = m.ledger.NewLimit("requests")
	for i := range loops {
		m.loops = append(m.loops, &memoryLoop{admission: NewAdmission(i, false, func(int) *ConcurrencyLimit { return m.limit })})
	}
	m.byClient = make([]int, clients)
	for c := range clients {
		m.loops[c%loops].line = append(m.loops[c%loops].line, waitingClient{c, 0})
	}
	return m
}

func (m *memoryServer) run(d time.Duration) {
	for end := m.now + d; m.now < end; {
		if m.tick <= m.now {
			m.tick += time.Millisecond
			if m.now%(10*time.Millisecond) < time.Millisecond {
				m.ledger.Ahead(m.holding, nil)
				m.ledger.Observe(m.now, m.memory, m.inUse+m.others)
				m.ledger.Tick(m.now)
			}
			for i := range m.loops {
				m.admit(i)
			}
			m.low, m.high = min(m.low, m.limit.Inside()), max(m.high, m.limit.Inside())
		}
		m.now = m.tick
		for len(m.events) > 0 && m.events[0].at <= m.tick {
			e := m.events.pop()
			m.now = e.at
			if e.take {
				m.use(1, e.size)
				continue
			}
			m.finish(e)
			m.admit(e.loop)
		}
		m.now = m.tick
	}
}

func (m *memoryServer) use(tasks int, size float64) {
	m.holding += tasks
	m.inUse += size
	m.most = max(m.most, m.inUse+m.others)
}

func (m *memoryServer) finish(e event) {
	l := m.loops[e.loop]
	l.admission.Left(m.now, 1)
	m.use(-1, -e.size)
	if e.since >= m.record {
		m.latency = append(m.latency, m.now-e.since)
	}
	m.byClient[e.client]++
	l.line = append(l.line, waitingClient{e.client, m.now})
}

func (m *memoryServer) admit(i int) {
	l := m.loops[i]
	for len(l.line) > 0 {
		c := l.line[0]
		if v := l.admission.Next(m.now, 1, &QueueState{Waiting: len(l.line), Oldest: m.now - c.since}); v == Defer {
			return
		}
		l.line = l.line[1:]
		size := m.size()
		hold := (0.9 + 0.2*m.rng.Float64()) * float64(m.hold)
		e := event{at: m.now + time.Duration(m.late*hold), loop: i, client: c.client, since: c.since, size: size, take: true}
		if m.late == 0 {
			m.use(1, size)
		} else {
			m.events.push(e.at, e)
		}
		e.at, e.take = m.now+time.Duration(hold), false
		m.events.push(e.at, e)
	}
}

// A memoryCase says what is known of the demand and what is true.
type memoryCase struct {
	name   string
	demand []Moments
	size   func(*rand.Rand) float64
	least  float64 // share of the best throughput that is reached
}

var memoryCases = []memoryCase{
	{"known", []Moments{{Mean: mib}}, nil, 0.95},
	{"varying", []Moments{{Mean: mib, Variance: mib * mib / 12}}, func(rng *rand.Rand) float64 { return (0.5 + rng.Float64()) * mib }, 0.88},
	{"unknown", nil, nil, 0.95},
	{"underestimated", []Moments{{Mean: mib / 2}}, nil, 0.95},
}

func TestMemoryIsUsedToTheCapAndNotBeyond(t *testing.T) {
	clients := []int{64, 512, 1024, 4096, 16384}
	if quick() {
		clients = []int{64, 1024}
	}
	for _, c := range memoryCases {
		for _, hold := range []time.Duration{50 * time.Millisecond, time.Second} {
			for _, loops := range []int{1, 2} {
				for _, n := range clients {
					t.Run(fmt.Sprintf("%s/hold=%v/loops=%d/clients=%d", c.name, hold, loops, n), func(t *testing.T) {
						runMemoryCase(t, c, hold, loops, n)
					})
				}
			}
		}
	}
}

func runMemoryCase(t *testing.T, c memoryCase, hold time.Duration, loops, clients int) {
	const limit = 512 * mib
	m := newMemoryServer(t, loops, clients, hold)
	if c.size != nil {
		m.size = func() float64 { return c.size(m.rng) }
	}
	m.limit.SetDemand(c.demand)
	m.run(2*time.Second + 2*hold)
	m.record, m.latency = m.now, nil
	m.low, m.high = clients, 0
	from := m.now
	best := min(float64(clients), (limit-m.others)/mib) / hold.Seconds()
	mean := max(float64(clients)/best, hold.Seconds()) // Little's law
	m.run(time.Duration((4*mean + 4*hold.Seconds()) * 1e9))
	rate := float64(len(m.latency)) / (m.now - from).Seconds()
	slices.Sort(m.latency)
	p99 := m.latency[len(m.latency)*99/100]
	// Requests that began before the end and are not finished are missing from the count.
	rate *= (m.now - from).Seconds() / ((m.now - from).Seconds() - mean)
	t.Logf("%.0f per second of %.0f, p99 %v of a mean of %.3fs, at most %.0f MiB", rate, best, p99.Round(time.Millisecond), mean, m.most/mib)
	if rate < c.least*best {
		t.Errorf("%.0f requests per second, want %.2f of %.0f", rate, c.least, best)
	}
	if m.most > limit {
		t.Errorf("%.1f MiB were in use, more than the cap of %.0f", m.most/mib, float64(limit/mib))
	}
	if p99.Seconds() > 2*mean {
		t.Errorf("p99 of the latency is %v, more than twice the mean that Little's law gives, %.3fs", p99, mean)
	}
	if clients >= 1024 && float64(m.high-m.low) > 0.1*float64(m.high) {
		t.Errorf("between %d and %d requests inside, though the load is always the same", m.low, m.high)
	}
	for client, n := range m.byClient {
		if n == 0 {
			t.Errorf("client %d has never been served", client)
			break
		}
	}
}

// A task that takes memory only some time after it was let in is not seen to do so at
// first. With the demand known the cap is kept nevertheless; without, it is exceeded by
// no more than a quarter and for no longer than the tasks last.
func TestMemoryThatIsTakenLate(t *testing.T) {
	for _, known := range []bool{true, false} {
		m := newMemoryServer(t, 1, 4096, 50*time.Millisecond)
		m.late = 0.5
		if known {
			m.limit.SetDemand([]Moments{{Mean: mib}})
		}
		m.run(time.Second)
		first := m.most / (512 * mib)
		m.most = 0
		m.run(2 * time.Second)
		then := m.most / (512 * mib)
		t.Logf("demand known: %v: at most %.3f of the cap in the first second, then %.3f", known, first, then)
		if known && max(first, then) > 1 {
			t.Errorf("%.3f of the cap was in use", max(first, then))
		}
		if first > 1.25 || then > 1.1 {
			t.Errorf("%.3f of the cap was in use in the first second, then %.3f", first, then)
		}
		if inside := m.limit.Inside(); inside < 400 {
			t.Errorf("%d tasks are inside, want nearly 500", inside)
		}
	}
}
