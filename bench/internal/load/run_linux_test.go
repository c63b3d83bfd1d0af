package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// serve answers requests until the test ends.
func serve(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	return serveCounting(t, handler, func(http.ConnState) {})
}

// serveCounting is serve that tells what becomes of connections.
func serveCounting(t *testing.T, handler http.HandlerFunc, changed func(http.ConnState)) netip.AddrPort {
	t.Helper()
	ln := testenv.Listen(t)
	server := &http.Server{Handler: handler, ConnState: func(_ net.Conn, s http.ConnState) { changed(s) }}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	return netip.MustParseAddrPort(ln.Addr().String())
}

// refusing returns an address that refuses connections as long as the test runs: its port is
// taken, but no server listens.
func refusing(t *testing.T) netip.AddrPort {
	t.Helper()
	fd := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	testenv.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name := testenv.Need(unix.Getsockname(fd))(t)
	own := name.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(own.Addr), uint16(own.Port))
}

const helloBytes = 5

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

// of is the server at addr, in this process.
func of(addr netip.AddrPort) Target { return Target{Addr: addr, PIDs: []int{os.Getpid()}} }

func TestRunCountsResponses(t *testing.T) {
	for _, depth := range []int{1, 16} {
		began := time.Now()
		result, err := Run(Config{Target: of(serve(t, hello)), Conns: 3, Depth: depth, For: 20 * time.Millisecond})
		testenv.Must(t, err)
		testenv.AtMost(t, result.Longest, time.Since(began), "depth %d: the longest response", depth)
		if result.Requests < int64(depth) || result.Requests%int64(depth) != 0 {
			t.Errorf("depth %d: %d requests", depth, result.Requests)
		}
		if result.P50 <= 0 || result.P99 < result.P50 || result.Usage.Server <= 0 || result.Usage.Client <= 0 {
			t.Errorf("depth %d: %+v", depth, result)
		}
	}
}

func TestRunReportsWhatIsWrong(t *testing.T) {
	valid := Config{Target: of(serve(t, hello)), Conns: 1, For: time.Millisecond}
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
		{"too deep", func(c *Config) { c.Depth = MaxDepth + 1 }, "depth"},
		{"no time", func(c *Config) { c.For = 0 }, "more than 0"},
		{"not loopback", func(c *Config) { c.Addr = netip.MustParseAddrPort("192.0.2.1:80") }, "loopback"},
		{"wrong status", func(c *Config) { c.Addr = missing }, "want 200"},
		{"responses that grow", func(c *Config) { c.Addr = growing; c.For = time.Second }, "more than the response has"},
		{"no server", func(c *Config) { c.Addr = refusing(t) }, "refused"},
		{"no process", func(c *Config) { c.PIDs = nil }, "processes"},
	} {
		cfg := valid
		c.change(&cfg)
		if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// pieces is a server that sends each response in pieces.
func pieces(t *testing.T, answer func(path string) []string) Target {
	return of(netip.MustParseAddrPort(testenv.Serve(t, func(c net.Conn) {
		for in := bufio.NewReader(c); ; {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			for _, piece := range answer(request.URL.Path) {
				if _, err := c.Write([]byte(piece)); err != nil {
					return
				}
			}
		}
	})))
}

// filesFrom has three clients ask for /1, /2 and so on.
func filesFrom(target Target, body int64) (Result, error) {
	n := 0
	return Run(Config{Target: target, Conns: 3, Warm: time.Millisecond, For: 20 * time.Millisecond,
		Next: func() ([]byte, int64) {
			n++
			return fmt.Appendf(nil, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", n), body
		}})
}

// always draws the same file.
func always(body int64) func() ([]byte, int64) {
	return func() ([]byte, int64) { return []byte(Request), body }
}

func TestFilesComeInPieces(t *testing.T) {
	const body = 200_000 // longer than the buffer
	long := strings.Repeat("x", body)
	result, err := filesFrom(pieces(t, func(path string) []string {
		switch path[len(path)-1] % 3 {
		case 0:
			return []string{"HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n" + long}
		case 1:
			return []string{"HTTP/1.1 20", "0 OK\r\nContent-Length: 200000\r", "\n\r", "\n" + long[:7], long[7:]}
		default:
			return []string{"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n", long[:body-1], long[body-1:]}
		}
	}), body)
	testenv.Must(t, err)
	if result.Requests < 1 || result.Bytes != result.Requests*body || result.P99 <= 0 || result.P50 > result.Longest || result.Unserved > 3 {
		t.Errorf("got %+v", result)
	}
}

func TestClientsThatGetNothingAreCounted(t *testing.T) {
	first := make(chan struct{})
	result, err := filesFrom(pieces(t, func(path string) []string {
		if path == "/1" { // the first client's; the rest of its answer never comes
			close(first)
			return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"}
		}
		<-first
		return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}
	}), 3)
	testenv.Must(t, err)
	if result.Unserved < 1 || result.Longest < 20*time.Millisecond {
		t.Errorf("got %+v", result)
	}
}

func TestSurprisesAreErrors(t *testing.T) {
	for answer, want := range map[string]string{
		"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n": "want 200",
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour":    "the file has 3 bytes",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfour":    "1 bytes more",
		"HTTP/1.1 200 OK\r\n\r\n":                             "no Content-Length",
		strings.Repeat("HTTP/1.1 200 OK\r\nX: y\r\n", 4<<10):  "head of more than",
	} {
		if _, err := filesFrom(pieces(t, func(string) []string { return []string{answer} }), 3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", answer, err, want)
		}
	}
}

// A server may close a connection that is idle; one that answers nothing on a new connection is an error.
func TestConnectionsThatWereIdleAreOpenedAgain(t *testing.T) {
	server := func(answers int) Target {
		return of(netip.MustParseAddrPort(testenv.Serve(t, func(c net.Conn) {
			defer c.Close()
			in := bufio.NewReader(c)
			for range answers {
				if _, err := http.ReadRequest(in); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
			}
		})))
	}
	files := func(answers int, pause time.Duration) (result Result, err error) {
		// On a machine with much else to do some spans end before a client has asked three times.
		for span := 20 * time.Millisecond; err == nil && result.Requests < 12; span *= 2 {
			result, err = Run(Config{Target: server(answers), Conns: 3, For: span, Next: always(1),
				Think: func(int) time.Duration { return pause }})
		}
		return result, err
	}
	for _, pause := range []time.Duration{time.Millisecond, 0} { // the end of the connection is seen while idle, or when asking
		if result, err := files(2, pause); err != nil || result.Reopened < 1 || result.Reopened >= result.Requests {
			t.Errorf("got %+v, %v; want every second or third request made again", result, err)
		}
	}
	if _, err := files(0, 0); err == nil || !strings.Contains(err.Error(), "closed by the server") && !strings.Contains(err.Error(), "reset") {
		t.Errorf("a server that answers nothing: %v", err)
	}
}

func TestSlowResponseIsWaitedFor(t *testing.T) {
	slow := pieces(t, func(string) []string {
		<-time.After(60 * time.Millisecond) // longer than is to be measured
		return []string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}
	})
	for _, next := range []func() ([]byte, int64){nil, always(3)} {
		result, err := Run(Config{Target: slow, Conns: 1, For: time.Millisecond, Next: next})
		if err != nil || result.Requests < 1 {
			t.Errorf("%+v, %v", result, err)
		}
	}
}

func TestClientsPauseAndComeBackOnAnotherConnection(t *testing.T) {
	var conns atomic.Int64
	addr := serveCounting(t, hello, func(s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	})
	result, err := Run(Config{Target: of(addr), Conns: 2, For: 100 * time.Millisecond,
		PerConn: 3, Think: func(int) time.Duration { return 2 * time.Millisecond }, Next: always(helloBytes)})
	testenv.Must(t, err)
	most := int64(2 * 100 / 2)
	if n := conns.Load(); result.Requests < 1 || result.Requests > most+10 || n < result.Requests/3 || n > result.Requests/3+4 {
		t.Errorf("%d requests, at most %d were possible; %d connections", result.Requests, most, n)
	}
	testenv.Equal(t, result.Reopened, 0, "connections that the server had closed")
}

func TestClientsThinkForTimesOfTheirOwn(t *testing.T) {
	addr := serve(t, hello)
	for _, next := range []func() ([]byte, int64){nil, always(helloBytes)} {
		thought := make([]int, 3)
		result, err := Run(Config{Target: of(addr), Conns: len(thought), For: 200 * time.Millisecond,
			Think: func(client int) time.Duration { // the first one 20 times as long as the others
				thought[client]++
				return map[bool]time.Duration{true: 40 * time.Millisecond, false: 2 * time.Millisecond}[client == 0]
			},
			Next: next})
		testenv.Must(t, err)
		if thought[0] < 1 || thought[0] > 6 || thought[1] > 101 || int64(thought[0]+thought[1]+thought[2]) < result.Requests {
			t.Errorf("thought %v times, %d requests", thought, result.Requests)
		}
		if result.Mean <= 0 || result.Mean > result.Longest {
			t.Errorf("mean %v, longest %v", result.Mean, result.Longest)
		}
	}
}
