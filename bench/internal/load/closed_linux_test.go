package load

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

func closedTo(addr netip.AddrPort) ClosedConfig {
	return ClosedConfig{
		Target: Target{Addr: addr, PIDs: []int{os.Getpid()}}, Request: plain, Clients: 5, For: 50 * ms, Seed: 1,
	}
}

func TestClosedLoopKeepsItsClientsBusy(t *testing.T) {
	var now, most atomic.Int32
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		select {
		case <-r.Context().Done():
		case <-time.After(5 * ms):
		}
		now.Add(-1)
	})
	cfg := closedTo(addr)
	var calls []bool
	cfg.Warm, cfg.Measuring = 20*ms, func(begins bool) { calls = append(calls, begins) }
	got, err := Closed(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() != 5 {
		t.Errorf("%d requests at a time, want 5", most.Load())
	}
	if n := fates(got.Outcomes); n[Served] < 10 || n[Pending] != 5 || len(n) != 2 {
		t.Errorf("fates %v, want 5 under way and the rest served", n)
	}
	if len(calls) != 2 || !calls[0] || calls[1] {
		t.Errorf("measuring was announced %v", calls)
	}
	if got.To-got.From < 45*ms || got.Usage.Server <= 0 {
		t.Errorf("measured from %v to %v, CPU time %v", got.From, got.To, got.Usage)
	}
}

func TestPatientClientsStayAway(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(503)
	})
	for _, patient := range []bool{true, false} {
		cfg := closedTo(addr)
		cfg.Patient = patient
		got, err := Closed(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if n := fates(got.Outcomes)[Refused]; patient && n != 5 || !patient && n < 20 {
			t.Errorf("patient %v: refused %d times", patient, n)
		}
	}
}

func TestClientsComeBackAfterABrokenConnection(t *testing.T) {
	var n atomic.Int32
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) <= 5 {
			panic(http.ErrAbortHandler)
		}
	})
	got, err := Closed(closedTo(addr))
	if err != nil {
		t.Fatal(err)
	}
	if n := fates(got.Outcomes); n[Lost] != 5 || n[Served] == 0 {
		t.Errorf("fates %v", n)
	}
}

func TestServerThatIsGoneEndsTheLoop(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(ln.Addr().String())
	ln.Close()
	if _, err := Closed(closedTo(addr)); !errors.Is(err, ErrGone) {
		t.Errorf("got %v, want ErrGone", err)
	}
	for _, change := range []func(*ClosedConfig){
		func(c *ClosedConfig) { c.Clients = 0 },
		func(c *ClosedConfig) { c.Clients = MaxConns + 1 },
		func(c *ClosedConfig) { c.For = 0 },
		func(c *ClosedConfig) { c.Warm = -1 },
	} {
		cfg := closedTo(addr)
		change(&cfg)
		if _, err := Closed(cfg); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}

func TestCrowdIsServedAndHangsUp(t *testing.T) {
	var conns, most atomic.Int32
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(hello),
		ConnState: func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				if n := conns.Add(1); n > most.Load() {
					most.Store(n)
				}
			case http.StateClosed:
				conns.Add(-1)
			}
		},
	}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	cfg := CrowdConfig{
		Target: Target{Addr: netip.MustParseAddrPort(ln.Addr().String()), PIDs: []int{os.Getpid()}}, Request: plain,
		Clients: 100, Jam: 100 * ms, Keep: 10 * ms, Limit: 10 * time.Second,
	}
	got, err := Crowd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := fates(got.Outcomes); n[Served] != 100 {
		t.Errorf("fates %v", n)
	}
	if most.Load() != 100 {
		t.Errorf("%d connections at a time, want all 100 kept during the jam", most.Load())
	}
	if got.Took <= 0 || got.Took >= cfg.Limit || got.All.Server < got.Jam.Server {
		t.Errorf("took %v, usage %v, of that %v jammed", got.Took, got.All, got.Jam)
	}
	cfg.Jam = 0
	if _, err := Crowd(cfg); err == nil {
		t.Error("no jam is no error")
	}
}
