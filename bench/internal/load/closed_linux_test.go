package load

import (
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func closedTo(addr netip.AddrPort) ClosedConfig {
	return ClosedConfig{
		Target: of(addr), Mix: []Share{{plain, 1}}, Clients: 5, For: 50 * ms, Seed: 1,
	}
}

// givenTime measures for longer and longer until enough has happened, as a machine that
// is busy or stalls gets little done in a short time.
func givenTime(t *testing.T, enough func(time.Duration) (reached bool, got any)) {
	t.Helper()
	for d := 50 * ms; ; d *= 4 {
		reached, got := enough(d)
		if reached {
			return
		}
		if d > 10*time.Second {
			t.Fatalf("in %v: %+v", d, got)
		}
	}
}

// peak counts what there is at a time.
type peak struct{ now, most atomic.Int32 }

func (p *peak) add(n int32) {
	for now, most := p.now.Add(n), p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); most = p.most.Load() {
	}
}

func TestClosedLoopKeepsItsClientsBusy(t *testing.T) {
	for _, conns := range []int{0, 20} {
		givenTime(t, func(d time.Duration) (bool, any) {
			var requests peak
			var clients sync.Map // by address
			cfg := closedTo(serve(t, func(w http.ResponseWriter, r *http.Request) {
				clients.Store(r.RemoteAddr, true)
				requests.add(1)
				select {
				case <-r.Context().Done():
				case <-time.After(5 * ms):
				}
				requests.add(-1)
			}))
			cfg.Warm, cfg.For, cfg.Conns = 20*ms, d, conns
			got := testenv.Need(Closed(cfg))(t)
			n, seen, most := fates(got.Outcomes), 0, requests.most.Load()
			clients.Range(func(any, any) bool { seen++; return true })
			if seen > max(conns, 5) || most > 5 || n[Pending] > 5 || n[Served]+n[Pending] != len(got.Outcomes) {
				t.Fatalf("%d connections, %d requests at a time, fates %v, want at most %d, 5 under way, and the rest served", seen, most, n, max(conns, 5))
			}
			if got.To-got.From < d || got.Usage.Server <= 0 {
				t.Fatalf("measured from %v to %v, CPU time %v", got.From, got.To, got.Usage)
			}
			return most == 5 && n[Served] >= 10 && n[Pending] == 5 && seen == max(conns, 5), n
		})
	}
}

func TestPatientClientsStayAway(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1000")
		w.WriteHeader(503)
	})
	for _, patient := range []bool{true, false} {
		givenTime(t, func(d time.Duration) (bool, any) {
			cfg := closedTo(addr)
			cfg.Patient, cfg.For = patient, d
			got := testenv.Need(Closed(cfg))(t)
			n := fates(got.Outcomes)[Refused]
			if patient && n > 5 {
				t.Fatalf("refused %d times", n)
			}
			return patient && n == 5 || !patient && n >= 20, n
		})
	}
}

func TestClientsComeBackAfterABrokenConnection(t *testing.T) {
	givenTime(t, func(d time.Duration) (bool, any) {
		var requests atomic.Int32
		cfg := closedTo(serve(t, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) <= 5 {
				panic(http.ErrAbortHandler)
			}
		}))
		cfg.For = d
		got := testenv.Need(Closed(cfg))(t)
		n := fates(got.Outcomes)
		if n[Lost] > 5 {
			t.Fatalf("fates %v, want at most 5 lost", n)
		}
		return n[Lost] == 5 && n[Served] > 0, n
	})
}

func TestServerThatIsGoneEndsTheLoop(t *testing.T) {
	addr := refusing(t)
	testenv.ErrorIs(t, testenv.Err(Closed(closedTo(addr))), ErrGone)
	for _, change := range []func(*ClosedConfig){
		func(c *ClosedConfig) { c.Clients = 0 },
		func(c *ClosedConfig) { c.Clients = MaxConns + 1 },
		func(c *ClosedConfig) { c.For = 0 },
		func(c *ClosedConfig) { c.Warm = -1 },
		func(c *ClosedConfig) { c.Mix = nil },
	} {
		cfg := closedTo(addr)
		change(&cfg)
		if _, err := Closed(cfg); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestCrowdIsServedAndHangsUp(t *testing.T) {
	givenTime(t, func(jam time.Duration) (bool, any) {
		var conns peak
		addr := serveCounting(t, hello, func(s http.ConnState) { conns.add(map[http.ConnState]int32{http.StateNew: 1, http.StateClosed: -1}[s]) })
		cfg := CrowdConfig{Target: of(addr), Request: plain, Clients: 100, Jam: jam, Keep: 10 * ms, Limit: time.Minute}
		got := testenv.Need(Crowd(cfg))(t)
		if n := fates(got.Outcomes); n[Served] != 100 {
			t.Fatalf("fates %v", n)
		}
		if got.Took <= 0 || got.Took >= cfg.Limit || got.All.Server < got.Jam.Server {
			t.Fatalf("took %v, usage %v, of that %v jammed", got.Took, got.All, got.Jam)
		}
		return conns.most.Load() == 100, conns.most.Load() // all are kept during the jam
	})
	testenv.Fails(t, testenv.Err(Crowd(CrowdConfig{Request: plain, Clients: 100, Limit: time.Minute})), "no jam is no error")
}
