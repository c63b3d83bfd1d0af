package load

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestHistogramQuantilesAgainstSorting(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var h histogram
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(random.ExpFloat64() * 1e6)
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		got := h.quantile(q)
		if off := max(got-want, want-got); off > want/64+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestHistogramHoldsAnyDuration(t *testing.T) {
	var h histogram
	testenv.Equal(t, h.quantile(0.5), 0, "quantile of nothing")
	h.add(-1)
	h.add(1000 * time.Hour)
	if low, high := h.quantile(0.1), h.quantile(1); low > 1 || high < time.Hour {
		t.Errorf("quantiles are %v and %v, want 0 and an hour", low, high)
	}
}

// serve answers requests until the test ends.
func serve(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	ln := testenv.Listen(t)
	server := &http.Server{Handler: handler}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return netip.MustParseAddrPort(ln.Addr().String())
}

// nobody is an address that refuses connections as long as the test runs: its port is
// taken, but nobody listens.
func nobody(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	testenv.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name := testenv.Need(unix.Getsockname(fd))(t)
	own := name.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port))
}

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

func TestRunCountsResponses(t *testing.T) {
	for _, depth := range []int{1, 16} {
		result, err := Run(Config{
			Target: Target{Addr: serve(t, hello), PIDs: []int{os.Getpid()}}, Conns: 3, Depth: depth, For: 20 * time.Millisecond,
		})
		testenv.Must(t, err)
		if result.Requests < int64(depth) || result.Requests%int64(depth) != 0 {
			t.Errorf("depth %d: %d requests", depth, result.Requests)
		}
		if result.P50 <= 0 || result.P99 < result.P50 || result.Usage.Server <= 0 || result.Usage.Client <= 0 {
			t.Errorf("depth %d: %+v", depth, result)
		}
	}
}

func TestRunPauses(t *testing.T) {
	const pause = 2 * time.Millisecond
	result, err := Run(Config{
		Target: Target{Addr: serve(t, hello), PIDs: []int{os.Getpid()}}, Conns: 1, Depth: 1, Pause: pause, For: 20 * pause,
	})
	testenv.Must(t, err)
	if most := int64(result.Elapsed/pause) + 1; result.Requests < 1 || result.Requests > most {
		t.Errorf("%d requests in %v with pauses of %v, want 1 to %d", result.Requests, result.Elapsed, pause, most)
	}
}

func TestRunAtARate(t *testing.T) {
	const rate = 500
	result, err := Run(Config{
		Target: Target{Addr: serve(t, hello), PIDs: []int{os.Getpid()}}, Conns: 10, Depth: 1, Rate: rate, For: 200 * time.Millisecond,
	})
	testenv.Must(t, err)
	if most := 2*rate*result.Elapsed.Seconds() + 20; result.Requests < 1 || float64(result.Requests) > most {
		t.Errorf("%d requests in %v at %d a second, want 1 to %.0f", result.Requests, result.Elapsed, rate, most)
	}
}

func TestRunReportsWhatIsWrong(t *testing.T) {
	valid := Config{Target: Target{Addr: serve(t, hello), PIDs: []int{os.Getpid()}}, Conns: 1, Depth: 1, For: time.Millisecond}
	grows := ""
	missing := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) })
	growing := serve(t, func(w http.ResponseWriter, r *http.Request) {
		grows += "x"
		io.WriteString(w, grows)
	})
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no connection", func(c *Config) { c.Conns = 0 }, "connections"},
		{"too many connections", func(c *Config) { c.Conns = MaxConns + 1 }, "connections"},
		{"no depth", func(c *Config) { c.Depth = 0 }, "depth"},
		{"two that pause", func(c *Config) { c.Conns, c.Pause = 2, time.Second }, "only one connection"},
		{"a rate below 0", func(c *Config) { c.Rate = -1 }, "-1 requests a second"},
		{"a rate and a pause", func(c *Config) { c.Rate, c.Pause = 1, time.Second }, "or a pause"},
		{"too deep", func(c *Config) { c.Depth = MaxDepth + 1 }, "depth"},
		{"not loopback", func(c *Config) { c.Addr = netip.MustParseAddrPort("192.0.2.1:80") }, "loopback"},
		{"wrong status", func(c *Config) { c.Addr = missing }, "want 200"},
		{"responses that grow", func(c *Config) { c.Addr = growing; c.For = time.Second }, "more than the responses have"},
		{"no server", func(c *Config) { c.Addr = nobody(t) }, "refused"},
		{"no process", func(c *Config) { c.PIDs = []int{1 << 29} }, "cpu clock"},
	} {
		cfg := valid
		c.change(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestHoldKeepsConnectionsThatWereUsed(t *testing.T) {
	requests := make(chan string, 100)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r.RemoteAddr
		hello(w, r)
	})
	held := testenv.Need(Hold(addr, 5))(t)
	defer held.Close()
	different := map[string]bool{}
	for range 5 {
		different[<-requests] = true
	}
	testenv.Equal(t, len(different), 5, "requests came on N connections")
	testenv.Fails(t, testenv.Err(Hold(addr, 0)), "holding no connection is no error")
}
