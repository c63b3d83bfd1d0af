package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/timeleft"
	"github.com/capriccio-go/capriccio/knot"
)

// demanding has the server go by what its peers say of deadlines and importance, if it trusts them.
func demanding(trust ...string) func(*knot.Server) {
	return func(s *knot.Server) {
		s.TimeoutHeader, s.UrgencyHeader = "X-Request-Timeout", "Priority"
		s.Trust, _ = knot.ParseTrust(trust...)
	}
}

// TestDemands: a backend is told how long the client still waits, and how important the request is, on all wires.
func TestDemands(t *testing.T) {
	show := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s", r.Header.Get("X-Request-Timeout"), r.Header.Get("grpc-timeout"), strings.Join(r.Header["Priority"], ";"))
	}
	const trusted = "127.0.0.1"
	for wire, c := range wires(t, show) {
		for _, test := range []struct {
			trust, own   string
			off          bool
			lines        []string
			least, most  int    // milliseconds; 0: no line
			grpc, urgent string // "some": a line with as much
		}{
			{trust: trusted, lines: []string{"X-Request-Timeout: 90000", "Priority: u=1, i"}, least: 30_000, most: 90_000, urgent: "u=1"},
			{trust: trusted, lines: []string{"grpc-timeout: 90S"}, least: 30_000, most: 90_000, grpc: "some"},
			{trust: trusted, lines: []string{"X-Request-Timeout: x", "Priority: u=x"}},
			{trust: trusted},
			{lines: []string{"X-Request-Timeout: 5", "Priority: u=0", "grpc-timeout: 1S"}, grpc: "1S"}, // gRPC's own, and no more
			{off: true, lines: []string{"X-Request-Timeout: 5", "Priority: u=0", "grpc-timeout: 1S"}, least: 5, most: 5, grpc: "1S", urgent: "u=0"},
			{trust: trusted, own: "u=6", lines: []string{"Priority: u=1"}, urgent: "u=6"},
		} {
			c := c
			if test.own != "" {
				c.Header = func(*knot.Ctx) []knot.Header { return []knot.Header{{Name: "Priority", Value: test.own}} }
			}
			change := demanding(strings.Fields(test.trust)...)
			if test.off {
				change = func(*knot.Server) {}
			}
			f := serve(t, c, 1, change)
			_, body := f.do(f.request("GET", "/", "", test.lines...))
			parts := append(strings.Split(body, "|"), "", "")
			if ms, err := strconv.Atoi(parts[0]); (err != nil || ms < test.least || ms > test.most) && !(parts[0] == "" && test.most == 0) {
				t.Errorf("%s, %v: %q; want a timeout of %d to %d", wire, test.lines, body, test.least, test.most)
			}
			left, ok := timeleft.GRPC([]byte(parts[1]))
			if test.grpc == "some" && !(ok && left > 30*time.Second && left <= 90*time.Second) || test.grpc != "some" && parts[1] != test.grpc {
				t.Errorf("%s, %v: %q; want %s for gRPC", wire, test.lines, body, test.grpc)
			}
			if parts[2] != test.urgent {
				t.Errorf("%s, %v: %q; want the urgency %q", wire, test.lines, body, test.urgent)
			}
		}
	}
}

// TestClientsTimeIsOver: the client gets 504, no other backend is tried, and the backend is not taken for one that fails.
func TestClientsTimeIsOver(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		backends := []string{silent(t, ""), silent(t, "")}
		if http2 {
			slow := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			backends = []string{behind(t, slow), behind(t, slow)}
		}
		f := serve(t, Config{Backends: backends, HTTP2: http2, MaxFails: 1}, 1, demanding("127.0.0.1"))
		for range 4 {
			resp, _ := f.do(f.request("GET", "/", "", "X-Request-Timeout: 300"))
			testenv.Equal(t, resp.StatusCode, 504)
		}
		late := uint64(0)
		for _, s := range f.p.Stats() {
			testenv.Equal(t, s.Up && s.Failures["timeout"] == 0 && s.Ejected == 0 && s.Retries == 0, true, "it is well: %+v", s)
			late += s.Failures["deadline"]
		}
		testenv.Equal(t, late, 4, "requests whose client waits no longer")
		testenv.Equal(t, strings.Contains(f.log.String(), "failed"), false, "the log: %s", &f.log)
	}
}

// TestTotalTimeOfSlowClients: a client that sends its request too slowly gets 408, a client that reads too slowly a part of the
// response, and the backends are not taken for ones that fail.
func TestTotalTimeOfSlowClients(t *testing.T) {
	const limit = 500 * time.Millisecond
	endless := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for err := error(nil); err == nil; {
			_, err = w.Write(make([]byte, 1<<20))
		}
	}
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{behind(t, endless), behind(t, endless)}, HTTP2: http2, TotalTimeout: limit, MaxFails: 1}, 1)
		_, in := f.dial("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n1")
		resp := testenv.Need(http.ReadResponse(in, nil))(t)
		testenv.Equal(t, resp.StatusCode, 408, "HTTP/2 %v: a slow request", http2)
		_, in = f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		resp = testenv.Need(http.ReadResponse(in, nil))(t)
		<-time.After(2 * limit)
		testenv.Fails(t, testenv.Err(io.Copy(io.Discard, resp.Body)), "HTTP/2 %v: a response that is read slowly", http2)
		failures := func(cause string) uint64 { return f.p.Stats()[0].Failures[cause] + f.p.Stats()[1].Failures[cause] }
		testenv.Until(t, "the end", func() bool { return failures("deadline")+failures("timeout")+failures("broken") > 0 })
		for _, s := range f.p.Stats() {
			testenv.Equal(t, s.Up && s.Failures["timeout"]+s.Failures["broken"] == 0, true, "HTTP/2 %v: it is well: %+v", http2, s)
		}
		testenv.Equal(t, failures("deadline"), 1, "HTTP/2 %v: responses whose client took too long", http2)
		testenv.Equal(t, f.log.String(), "", "the log")
	}
}

// TestRefusalsAreNotSentAgain: the answer of a backend that wants no more goes to the client as it is.
func TestRefusalsAreNotSentAgain(t *testing.T) {
	for _, lines := range []string{"Retry-After: 3\r\n", "endpoint-load-metrics: TEXT application_utilization=1\r\n", ""} {
		var asked atomic.Int32
		refuses := func(_ int, c net.Conn, _ string) {
			asked.Add(1)
			fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n%s\r\n", lines)
		}
		f := serve(t, to(script(t, refuses), script(t, refuses)), 1)
		resp, _ := f.do(f.request("GET", "/", ""))
		testenv.Equal(t, resp.StatusCode, 503)
		testenv.Equal(t, asked.Load(), 1, "tries of a request refused with %q", lines)
	}
}
