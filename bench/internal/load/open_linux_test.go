package load

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var plain = []byte(Request)

func openTo(addr netip.AddrPort) OpenConfig {
	return OpenConfig{
		Target: of(addr), Requests: [][]byte{plain},
		Phases:   []Phase{{For: 200 * ms, Rates: []float64{1000}}},
		Patience: time.Minute, Drain: time.Minute, Conns: 500, Seed: 7,
	}
}

func fates(all []Outcome) map[Fate]int {
	n := map[Fate]int{}
	for _, o := range all {
		n[o.Fate]++
	}
	return n
}

func TestOpenLoopSendsWhatIsDue(t *testing.T) {
	cfg := openTo(serve(t, hello))
	began := time.Now()
	got := testenv.Need(Open(cfg))(t)
	testenv.AtMost(t, time.Since(began), cfg.Drain, "waited with nothing under way: took")
	// 200 requests are expected; the standard deviation is 14.
	if n := len(got.Outcomes); n < 130 || n > 270 {
		t.Errorf("%d requests, want about 200", n)
	}
	last := time.Duration(0)
	for i, o := range got.Outcomes {
		if o.Scheduled < last || o.Sent < o.Scheduled || o.Scheduled >= 200*ms || o.Fate == Served && o.Done < o.Sent {
			t.Errorf("request %d: %+v, the one before was due at %v", i, o, last)
		}
		last = o.Scheduled
	}
	if n := fates(got.Outcomes); n[Served] != len(got.Outcomes) {
		t.Errorf("fates %v", n)
	}
	if got.Usage.Server <= 0 || got.To < 200*ms || got.From > got.To {
		t.Errorf("CPU time %v from %v to %v", got.Usage, got.From, got.To)
	}
}

// The times between requests are those of a Poisson process, at the rates of the phases.
func TestOpenLoopFollowsThePhases(t *testing.T) {
	o := &open{random: rand.New(rand.NewPCG(3, 1)), phase: -1}
	o.cfg.Requests = [][]byte{plain, plain}
	o.cfg.Phases = []Phase{
		{For: 10 * time.Second, Rates: []float64{100, 300}},
		{For: 5 * time.Second, Rates: []float64{0, 0}},
		{For: 10 * time.Second, Rates: []float64{1000, 0}},
	}
	counts := [3][2]int{}
	sum, squares, n := 0.0, 0.0, 0.0
	last := time.Duration(0)
	for o.advance(0); o.next != never; o.advance(o.next) {
		phase := 0
		for end := time.Duration(0); o.next >= end+o.cfg.Phases[phase].For; phase++ {
			end += o.cfg.Phases[phase].For
		}
		counts[phase][o.class]++
		if phase == 0 {
			gap := (o.next - last).Seconds()
			sum, squares, n = sum+gap, squares+gap*gap, n+1
		}
		last = o.next
	}
	for phase, want := range [3][2]float64{{1000, 3000}, {0, 0}, {10_000, 0}} {
		for class, want := range want {
			if got := float64(counts[phase][class]); math.Abs(got-want) > 5*math.Sqrt(want) {
				t.Errorf("phase %d, class %d: %v requests, want about %v", phase, class, got, want)
			}
		}
	}
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(deviation/mean-1) > 0.1 {
		t.Errorf("gaps have mean %v and standard deviation %v, want both the same", mean, deviation)
	}
}

func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	givenTime(t, func(d time.Duration) (bool, any) {
		var requests atomic.Int32
		cfg := openTo(serve(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			<-stuck
		}))
		cfg.Conns, cfg.Patience = 60, d+100*ms
		got := testenv.Need(Open(cfg))(t)
		n := fates(got.Outcomes)
		if n[Abandoned]+n[Unsent] != len(got.Outcomes) {
			t.Fatalf("fates %v: want all given up or unsent", n)
		}
		for _, o := range got.Outcomes {
			if o.Fate == Abandoned && o.Latency() < cfg.Patience {
				t.Fatalf("given up after %v", o.Latency())
			}
		}
		// All the connections have been in use, and then given up.
		return n[Abandoned] >= 60 && n[Unsent] > 0 && requests.Load() >= 60, n
	})
}

func TestOpenLoopTellsRefusalsAndBrokenConnectionsApart(t *testing.T) {
	var requests atomic.Int32
	mixed := testenv.Need(Open(openTo(serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) % 3 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.Header().Set("Connection", "close")
			w.WriteHeader(503)
		}
	}))))(t)
	if n := fates(mixed.Outcomes); n[Served] == 0 || n[Refused] == 0 || n[Lost] == 0 {
		t.Errorf("fates %v", n)
	}
	nobody := testenv.Need(Open(openTo(refusing(t))))(t)
	if n := fates(nobody.Outcomes); n[Lost] != len(nobody.Outcomes) {
		t.Errorf("where nobody listens: fates %v", n)
	}
}

func TestOpenLoopRefusesNonsense(t *testing.T) {
	for want, change := range map[string]func(*OpenConfig){
		"connections": func(c *OpenConfig) { c.Conns = 0 },
		"classes":     func(c *OpenConfig) { c.Requests = nil },
		"patience":    func(c *OpenConfig) { c.Patience = 0 },
		"rates":       func(c *OpenConfig) { c.Phases[0].Rates = nil },
		"rate of":     func(c *OpenConfig) { c.Phases[0].Rates[0] = -1 },
		"lasts":       func(c *OpenConfig) { c.Phases[0].For = 0 },
		"ends at":     func(c *OpenConfig) { c.From = time.Second },
		"loopback":    func(c *OpenConfig) { c.Addr = netip.MustParseAddrPort("192.0.2.1:80") },
		"cpu clock":   func(c *OpenConfig) { c.PIDs[0] = 1 << 29 },
	} {
		cfg := openTo(netip.MustParseAddrPort("127.0.0.1:1"))
		change(&cfg)
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
