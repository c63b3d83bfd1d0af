package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A reporter is a backend that says what a test has it say.
type reporter struct {
	says   atomic.Pointer[string]
	full   atomic.Bool  // requests are refused, without a report
	shut   atomic.Bool  // probes too
	asked  atomic.Int64 // requests
	probed chan string  // the Host of each probe
}

func newReporter(t *testing.T, says string) (*reporter, string) {
	r := &reporter{probed: make(chan string, 1000)}
	r.says.Store(&says)
	return r, behind(t, func(w http.ResponseWriter, req *http.Request) {
		testenv.Equal(t, req.Header.Get(orca.FormatHeader) != "", true, "asked for a report")
		switch probe := req.Method == "OPTIONS"; {
		case probe && r.shut.Load():
			r.probed <- ""
			w.WriteHeader(503)
			return
		case !probe && r.full.Load():
			r.asked.Add(1)
			w.WriteHeader(503)
			return
		}
		if says := *r.says.Load(); says != "" {
			w.Header().Set(orca.Header, says)
		}
		if req.Method == "OPTIONS" {
			r.probed <- req.RequestURI + " " + req.Host
			w.WriteHeader(204)
			return
		}
		r.asked.Add(1)
	})
}

func load(inFlight, seconds float64) string {
	return fmt.Sprintf("TEXT named_metrics.in_flight=%g,named_metrics.latency_seconds=%g", inFlight, seconds)
}

// TestByReports: requests go to the backend that answers fastest and is not fuller than others; a backend that lies, or says
// nothing, counts by what was sent there, with one line in the log; clients see only reports that they ask for.
func TestByReports(t *testing.T) {
	slow, a := newReporter(t, load(3, 0.5))
	fast, b := newReporter(t, load(3, 0.1))
	full, c := newReporter(t, load(90, 0.001))
	config := to(a, b, c)
	config.now = func() time.Time { return time.Unix(1000, 0) } // reports do not grow old
	config.Balance = "prequal"
	f := serve(t, config, 1)
	backends := f.p.stable.backends()
	know := func() { // what probes would bring
		for i, r := range []*reporter{slow, fast, full} {
			if says := *r.says.Load(); says != "" {
				backends[i].useReport(says, false)
			}
		}
	}
	for range 10 {
		know()
		f.asks("/")
	}
	testenv.Equal(t, fast.asked.Load(), 10, "requests at the backend that is fast and not full")
	resp, _ := f.do(f.request("GET", "/", ""))
	testenv.Equal(t, resp.Header.Get(orca.Header), "", "report to a client that did not ask")
	know()
	resp, _ = f.do(f.request("GET", "/", "", orca.FormatHeader+": JSON"))
	testenv.True(t, strings.HasPrefix(resp.Header.Get(orca.Header), "TEXT "), "report to a client that asked: %q", resp.Header)
	for _, lie := range []string{"TEXT cpu_utilization=NaN", "TEXT named_metrics.in_flight=-1", "TEXT application_utilization=1e9", "nonsense"} {
		fast.says.Store(&lie)
		for range 3 {
			resp, _ := f.do(f.request("GET", "/", ""))
			testenv.Equal(t, resp.StatusCode, 200, "status")
		}
	}
	testenv.AtMost(t, strings.Count(f.log.String(), "can't be true"), 1, "lines in the log: %s", f.log.String())
	none := ""
	for _, r := range []*reporter{slow, fast, full} {
		r.says.Store(&none)
		r.asked.Store(0)
	}
	for range 60 {
		f.asks("/")
	}
	testenv.True(t, slow.asked.Load()+fast.asked.Load()+full.asked.Load() == 60, "without reports")
}

// TestRefusalsAreNoIdleness: a backend that refuses at once, without a report, does not draw the requests of those that work.
func TestRefusalsAreNoIdleness(t *testing.T) {
	works, a := newReporter(t, load(30, 0.5))
	refuses, b := newReporter(t, load(3, 0.1))
	config := to(a, b)
	config.now = func() time.Time { return time.Unix(1000, 0) } // reports do not grow old
	config.Balance = "prequal"
	f := serve(t, config, 1)
	backends := f.p.stable.backends()
	backends[1].useReport(load(3, 0.1), false)
	refuses.full.Store(true)
	for range 10 {
		backends[0].useReport(load(30, 0.5), false)
		f.do(f.request("GET", "/", ""))
	}
	testenv.AtMost(t, refuses.asked.Load(), 1, "requests at the backend that refuses")
	testenv.AtLeast(t, works.asked.Load(), 9, "requests at the backend that works")
}

// TestLateErrorsHaveALatency: a backend that has only failed, and no sooner than others answer, is not taken for the fastest.
func TestLateErrorsHaveALatency(t *testing.T) {
	config := to(behinds(t, 2)...)
	config.Balance = "prequal"
	backends := serve(t, config, 1).p.stable.backends()
	backends[0].measured(10*time.Millisecond, false, false)
	backends[1].measured(time.Second, true, false)
	var l balance.Load
	backends[1].fill(0, &l)
	testenv.True(t, l.Known && l.Latency == time.Second, "%+v", l)
}

// withoutRequests serves two backends, the second of which gets probes only: it says that it has many requests.
func withoutRequests(t *testing.T) (f *front, second *reporter) {
	_, a := newReporter(t, load(1, 0.1))
	second, b := newReporter(t, load(500, 0.1))
	config := to(a, b)
	config.Balance = "prequal"
	return serve(t, config, 1), second
}

// TestProbes: a backend that gets no requests is asked how it is, for the host of the request that another one got.
func TestProbes(t *testing.T) {
	f, other := withoutRequests(t)
	f.p.Start()
	for range 10_000 {
		f.asks("/")
		select {
		case host := <-other.probed:
			testenv.Equal(t, host, "* "+f.addr, "target and host of a probe")
			return
		default:
		}
	}
	t.Error("no probe has come")
}

// TestRefusedProbes: a backend that has no room for a probe is probed again soon, unlike one that does not report.
func TestRefusedProbes(t *testing.T) {
	f, other := withoutRequests(t)
	other.shut.Store(true)
	f.p.Start()
	for range 10_000 {
		f.asks("/")
		if len(other.probed) > 2 {
			return
		}
	}
	t.Errorf("%d probes have come", len(other.probed))
}

// TestPanicThreshold: when fewer backends are well than it says, all get requests.
func TestPanicThreshold(t *testing.T) {
	config := to(behinds(t, 4)...)
	config.PanicThreshold, config.Check = 0.5, &Check{}
	f := serve(t, config, 1)
	all := f.p.stable.backends()
	used := func() int {
		seen := make(map[string]bool)
		for range 40 {
			body, _ := f.asks("/")
			seen[body] = true
		}
		return len(seen)
	}
	for sick, want := range []int{4, 3, 2, 4, 4} {
		if sick > 0 {
			for range f.p.Check.Fall {
				all[sick-1].checked(errors.New("of the test"))
			}
		}
		testenv.Equal(t, used(), want, "backends that get requests when %d of 4 are not well", sick)
	}
}

// TestOwnZone: backends elsewhere get requests only when too few of the own zone are well.
func TestOwnZone(t *testing.T) {
	config := to(behinds(t, 4)...)
	config.Zone, config.Zones, config.PanicThreshold = "a", []string{"a", "b", "a", "b"}, 0.6
	f := serve(t, config, 1)
	all := f.p.stable.backends()
	used := func() (seen string) {
		for i := range 4 {
			for range 20 {
				if body, _ := f.asks("/"); body == fmt.Sprint(i) {
					seen += body
					break
				}
			}
		}
		return seen
	}
	testenv.Equal(t, used(), "02", "backends that get requests")
	all[0].sick.Store(true)
	testenv.Equal(t, used(), "123", "when half of the own zone is out")
	for _, wrong := range []Config{{Zone: "a"}, {Zones: []string{"a"}}, {Zone: "a", Zones: []string{"a", "b"}}, {PanicThreshold: 2}} {
		wrong.Backends = []string{"http://127.0.0.1:1"}
		_, err := New(wrong)
		var field *FieldError
		testenv.True(t, errors.As(err, &field), "%+v: %v", wrong, err)
	}
}

// TestZonesOfDiscovered: a backend is in the zone that Zones has for it, wherever it stands in the list of Discover, and another
// backend in none.
func TestZonesOfDiscovered(t *testing.T) {
	one, two, other := "http://127.0.0.1:1", "http://127.0.0.1:2", "http://127.0.0.1:3"
	p := testenv.Need(New(Config{Backends: []string{one, two}, Zone: "a", Zones: []string{"a", "b"}}))(t)
	defer p.Close()
	for _, step := range []struct {
		list []string
		want string
	}{{[]string{other, two}, ":3= :2=b "}, {[]string{two, one}, ":2=b :1=a "}, {[]string{one, other, two}, ":1=a :3= :2=b "}} {
		testenv.Must(t, p.setBackends(&p.stable, "", step.list, nil))
		got := ""
		for _, b := range p.stable.backends() {
			got += strings.TrimPrefix(b.name, "127.0.0.1") + "=" + b.zone + " "
		}
		testenv.Equal(t, got, step.want, "zones of %v", step.list)
	}
}
