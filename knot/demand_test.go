package knot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/urgency"
	"github.com/capriccio-go/capriccio/task"
)

// demanding is a server that goes by deadlines and urgencies of peers on this machine.
func demanding(h Handler) *Server {
	trust, err := ParseTrust("127.0.0.1")
	if err != nil {
		panic(err)
	}
	return &Server{Handler: h, H2C: true, Trust: trust, TimeoutHeader: "X-Request-Timeout", UrgencyHeader: "Priority"}
}

// Which lines say how long a client waits, and how important its request is.
func TestDemands(t *testing.T) {
	tell := func(x *Ctx) error {
		by, limited := x.Context().Deadline()
		u, urgent := urgency.Of(x.Context())
		return x.SendString(200, "text/plain", fmt.Sprint(limited, " ", time.Until(by).Round(time.Minute).Minutes(), " ", urgent, " ", u))
	}
	const none = "false"
	for _, c := range []struct {
		lines     string
		want      string // status, or whether there is a deadline, minutes left, whether there is an urgency, which
		malformed uint64
	}{
		{"", "", 0},
		{"|X-Request-Timeout: 600000", "true 10 false 0", 0},
		{"|grpc-timeout: 5M", "true 5 false 0", 0},
		{"|x-request-timeout: 600000|grpc-timeout: 5M|Priority: u=1, i", "true 5 true 1", 0},
		{"|grpc-timeout: 5M|X-Request-Timeout: 120000", "true 2 false 0", 0},
		{"|X-Request-Timeout: 10 s|X-Request-Timeout: 600000", "true 10 false 0", 1},
		{"|X-Request-Timeout: -5|grpc-timeout: 5|Priority: u=9", "", 3},
		{"|X-Request-Timeout: 999999999999999", "true", 0},
		{"|X-Request-Timeout: 0", "503", 0},
		{"|grpc-timeout: 0n", "503", 0},
		{"|Priority: i", "false", 0},
		{"|X-Other: 5", "", 0},
	} {
		sv := startServer(t, demanding(tell), 1)
		resp, body := askDemand(t, sv.url(), "GET /"+c.lines)
		switch {
		case c.want == "503":
			testenv.Equal(t, resp.StatusCode, 503, c.lines)
			testenv.Equal(t, resp.Header.Get("Retry-After") != "" && strings.Contains(body, "time"), true, "%s: it says why: %q", c.lines, body)
		case !strings.HasPrefix(body, c.want) || c.want == "" && !(strings.HasPrefix(body, none) && strings.Contains(body, "false 0")):
			t.Errorf("%s: %s; want %s", c.lines, body, c.want)
		}
		s := sv.Stats()
		testenv.Equal(t, s.Malformed, c.malformed, "malformed lines in %s", c.lines)
		testenv.Equal(t, s.Late, map[bool]uint64{true: 1}[c.want == "503"], "late requests of %s", c.lines)
		sv.stop()
	}
	for _, s := range []*Server{{Handler: tell}, {Handler: tell, TimeoutHeader: "X-Request-Timeout", UrgencyHeader: "Priority"}} { // off; of a peer that is not trusted
		_, body := askDemand(t, startServer(t, s, 1).url(), "GET /|X-Request-Timeout: 0|grpc-timeout: x|Priority: u=1")
		testenv.Equal(t, strings.HasPrefix(body, none) && strings.HasSuffix(body, "false 0"), true, "%q is of a request that says nothing", body)
		testenv.Equal(t, s.Stats().Malformed, 0)
	}
}

// askDemand is testenv.Ask with the body.
func askDemand(t *testing.T, url, line string) (*http.Response, string) {
	t.Helper()
	parts := strings.Split(line, "|")
	r := testenv.Need(http.NewRequest("GET", url, nil))(t)
	for _, field := range parts[1:] {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	resp := testenv.Need(http.DefaultTransport.RoundTrip(r))(t)
	defer resp.Body.Close()
	return resp, string(testenv.Need(io.ReadAll(resp.Body))(t))
}

// A request waits in the entry queue for no longer than its client, and the more important ones go first.
func TestDemandsInTheQueue(t *testing.T) {
	for version, transport := range map[int]http.RoundTripper{1: &http.Transport{}, 2: testenv.PlainHTTP2(t)} {
		var mu sync.Mutex
		var order []string
		held, began := make(chan bool), make(chan bool, 1)
		s := demanding(func(x *Ctx) error {
			if x.Path() == "/first" {
				began <- true
				task.Offload(func() { <-held })
			}
			mu.Lock()
			order = append(order, x.Path())
			mu.Unlock()
			return doneHandler(x)
		})
		ranked := make(chan bool, 10)
		s.Priority = func(x *Ctx) int {
			ranked <- true
			return ownctx.Of(x).(*inner).Priority()
		}
		sv := guarded(t, &doorman{room: 1}, s)
		var all sync.WaitGroup
		ask := func(path string, want int, lines ...string) {
			r := testenv.Need(http.NewRequest("GET", sv.url()+"/"+path, nil))(t)
			for _, line := range lines {
				name, value, _ := strings.Cut(line, ": ")
				r.Header.Set(name, value)
			}
			resp, err := transport.RoundTrip(r)
			if err != nil || resp.StatusCode != want || resp.ProtoMajor != version {
				t.Errorf("%s: %v, %v; want %d by HTTP/%d", path, resp, err, want, version)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		all.Go(func() { ask("first", 200) })
		<-began
		for path, u := range map[string]int{"u7": 7, "u0": 0, "u1": 1, "u5": 5} {
			all.Go(func() { ask(path, 200, fmt.Sprint("Priority: u=", u), "X-Request-Timeout: 600000") })
		}
		all.Go(func() { ask("u3", 200) })
		for range 6 {
			<-ranked
		}
		ask("late", 503, "X-Request-Timeout: 30", "Priority: u=0")
		testenv.Equal(t, sv.Stats().Late, 1, "late requests")
		close(held)
		all.Wait()
		mu.Lock() // the race detector does not see that the answers came later
		testenv.EqualSlices(t, order, []string{"/first", "/u0", "/u1", "/u3", "/u5", "/u7"}, "order by HTTP/%d", version)
		mu.Unlock()
	}
}

// Requests of net/http have the deadline in their context, which ends then; a connection that is taken over has none.
func TestDemandsOfNetHTTP(t *testing.T) {
	sv := startServer(t, demanding(AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := urgency.Of(r.Context())
		by, limited := r.Context().Deadline()
		child, cancel := context.WithTimeout(r.Context(), time.Hour)
		defer cancel()
		if r.URL.Path == "/hijack" {
			nc, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			_, limited := r.Context().Deadline()
			time.Sleep(time.Until(by) + 10*time.Millisecond)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%v %v", limited, r.Context().Err())
			return
		}
		<-child.Done()
		if left := time.Until(by); left > 0 || !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
			t.Errorf("it has ended %v before its deadline, with %v", left, r.Context().Err())
		}
		fmt.Fprint(w, limited, u, child.Err())
	}))), 1)
	_, body := askDemand(t, sv.url(), "GET /|X-Request-Timeout: 500|Priority: u=2")
	testenv.Equal(t, body, "true 2 context deadline exceeded")
	_, body = askDemand(t, sv.url()+"/hijack", "GET /|X-Request-Timeout: 500")
	testenv.Equal(t, body, "false <nil>")
}

// The context of a request with a deadline ends with the request, however its handler has left.
func TestDemandEndsWithTheRequest(t *testing.T) {
	for name, leave := range map[string]func(x *Ctx) error{
		"return": doneHandler,
		"panic":  func(*Ctx) error { panic("a test") },
		"Goexit": func(*Ctx) error { runtime.Goexit(); return nil },
		"Hijack": func(x *Ctx) error {
			nc, _, err := x.Hijack()
			if err != nil {
				return err
			}
			defer nc.Close()
			_, err = io.WriteString(nc, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
			return err
		},
	} {
		contexts := make(chan context.Context, 1)
		sv := startServer(t, demanding(func(x *Ctx) error {
			contexts <- x.Context()
			return leave(x)
		}), 1)
		askDemand(t, sv.url(), "GET /|X-Request-Timeout: 600000")
		ctx := <-contexts
		testenv.Until(t, name+": the context has ended", func() bool { return ctx.Err() != nil })
		testenv.Equal(t, ctx.Err(), context.Canceled, name)
	}
}

// What a handler before a proxy is told, and says.
func TestDemandForBackends(t *testing.T) {
	s := demanding(func(x *Ctx) error {
		told, read := ownctx.Of(x).(*inner).Demand()
		return x.SendString(200, "text/plain", fmt.Sprint(read, told.TimeoutHeader, told.UrgencyHeader, time.Until(told.Deadline).Round(time.Minute), told.Urgency, told.Urgent))
	})
	s.Priority = func(x *Ctx) int {
		in := ownctx.Of(x).(*inner)
		before := in.Priority()
		in.SetUrgency(6)
		return before + in.Priority()
	}
	_, body := askDemand(t, startServer(t, s, 1).url(), "GET /|X-Request-Timeout: 600000|Priority: u=1") // before it is admitted, the other one counts
	testenv.Equal(t, body, "trueX-Request-TimeoutPriority10m0s 6 true")
}

// A request that a cache makes is as important as that of the client, and has no deadline.
func TestDemandOfAFetch(t *testing.T) {
	r := &noteTaker{over: task.NewChan[string](1)}
	sv := startServer(t, demanding(func(x *Ctx) error {
		(*inner)(x).Fetch([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), func(x *Ctx) error {
			told, _ := (*inner)(x).Demand()
			_, limited := x.Context().Deadline()
			return x.SendString(200, "", fmt.Sprint(told.Urgency, told.Deadline.IsZero(), limited))
		}, r)
		return doneHandler(x)
	}), 1)
	askDemand(t, sv.url(), "GET /|X-Request-Timeout: 600000|Priority: u=5")
	got, _ := r.over.Recv()
	testenv.Contains(t, got, `"5 true false"`)
}
