package load

import (
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestBurstsComeTogetherAtEvenDistances(t *testing.T) {
	o := &open{random: rand.New(rand.NewPCG(3, 1)), phase: -1}
	o.cfg.Requests = [][]byte{plain, plain}
	o.cfg.Phases = []Phase{
		{For: 100 * ms, Rates: []float64{75, 25}, Burst: 3},
		{For: 50 * ms, Rates: []float64{0, 100}, Burst: 1},
	}
	var got []time.Duration
	for o.advance(0); o.next != never; o.advance(o.next) {
		got = append(got, o.next)
	}
	want := []time.Duration{0, 0, 0, 30 * ms, 30 * ms, 30 * ms, 60 * ms, 60 * ms, 60 * ms, 90 * ms, 90 * ms, 90 * ms,
		100 * ms, 110 * ms, 120 * ms, 130 * ms, 140 * ms}
	testenv.EqualSlices(t, got, want, "due at")
}

// tries are how many attempts had which number.
func tries(all []Outcome, fate Fate) (n [4]int) {
	for _, o := range all {
		if o.Fate == fate {
			n[o.Tries]++
		}
	}
	return n
}

func TestWhatIsNotServedIsSentAgain(t *testing.T) {
	for fate, c := range map[Fate]struct {
		handler  http.HandlerFunc
		patience time.Duration
		pause    time.Duration // before another attempt
	}{
		Refused:   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, time.Minute, retryPause},
		Abandoned: {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 20 * ms, 20 * ms},
	} {
		cfg := openTo(serve(t, c.handler))
		cfg.Phases = []Phase{{For: 10 * ms, Rates: []float64{500}, Burst: 5}}
		cfg.Patience, cfg.Retries = c.patience, 2
		got := testenv.Need(Open(cfg))(t)
		testenv.Equal(t, tries(got.Outcomes, fate), [4]int{5, 5, 5, 0}, "fate %v: at first, second and third attempt", fate)
		for i, o := range got.Outcomes {
			if o.Scheduled < time.Duration(o.Tries)*c.pause {
				t.Errorf("fate %v: attempt %d at %v, less than %v after the one before", fate, i, o.Scheduled, c.pause)
			}
		}
	}
}

func TestClassesComeFromTheirSources(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{} // source by path; guarded by mu
	cfg := openTo(serve(t, func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		mu.Lock()
		defer mu.Unlock()
		if before, ok := seen[r.URL.Path]; ok && before != host {
			host = before + " and " + host
		}
		seen[r.URL.Path] = host
	}))
	cfg.Requests = [][]byte{[]byte("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"), []byte("GET /b HTTP/1.1\r\nHost: x\r\n\r\n")}
	cfg.Phases[0].Rates = []float64{500, 500}
	cfg.Sources = [][4]byte{{127, 0, 1, 1}, {127, 0, 1, 2}}
	testenv.Need(Open(cfg))(t)
	mu.Lock()
	defer mu.Unlock()
	if seen["/a"] != "127.0.1.1" || seen["/b"] != "127.0.1.2" {
		t.Errorf("sources %v", seen)
	}
	cfg.Sources = cfg.Sources[:1]
	testenv.Fails(t, testenv.Err(Open(cfg)), "one source for two classes is no error")
}

func TestClosedLoopDrawsFromItsMix(t *testing.T) {
	n, random := [2]int{}, rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		n[draw(random, []float64{3, 1})]++
	}
	if math.Abs(float64(n[0])-3000) > 150 {
		t.Errorf("drew %v, want about 3000 and 1000", n)
	}
	cfg := closedTo(serve(t, hello))
	cfg.Mix = []Share{{Request: plain, Weight: 0}, {Request: plain, Weight: 1}}
	givenTime(t, func(d time.Duration) (bool, any) {
		cfg.For = d
		got := testenv.Need(Closed(cfg))(t)
		for _, r := range got.Outcomes {
			testenv.MustEqual(t, r.Class, 1, "class N, which has no weight")
		}
		return len(got.Outcomes) > 10, len(got.Outcomes)
	})
}
