package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// A hedged is a proxy to two backends, which hedges at once. The first request goes to backend 0.
type hedged struct {
	*front
	asked chan int       // backends that have got a request
	ended chan int       // backends of which one was ended by the proxy
	says  [2]chan string // answers of the backends; "": the connection is closed
}

func hedging(t *testing.T, c Config) *hedged {
	h := &hedged{asked: make(chan int, 8), ended: make(chan int, 8), says: [2]chan string{make(chan string, 1), make(chan string, 1)}}
	backend := func(me int, conn net.Conn, head string) {
		if strings.Contains(head, " /plain ") {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nplain")
			return
		}
		h.asked <- me
		gone := make(chan bool)
		go func() {
			io.Copy(io.Discard, conn)
			close(gone)
		}()
		select {
		case text := <-h.says[me]:
			io.WriteString(conn, text)
		case <-gone:
			h.ended <- me
		}
	}
	for i := range 2 {
		c.Backends = append(c.Backends, script(t, func(_ int, conn net.Conn, head string) { backend(i, conn, head) }))
	}
	c.Hedge, c.ResponseTimeout, c.first = 0.95, time.Hour, func() uint32 { return 1 }
	h.front = serve(t, c, 2)
	h.known()
	return h
}

// known has so many requests taken hardly any time that others are hedged.
func (h *hedged) known() {
	for range 256 {
		h.p.took.Add(1)
	}
}

// start asks, and returns the status and the body once they are there.
func (h *hedged) start(method, body string) (answer chan string) {
	answer = make(chan string, 1)
	go func() {
		resp, text := h.do(h.request(method, "/", body))
		answer <- fmt.Sprint(resp.StatusCode, " ", text)
	}()
	return answer
}

func ok(text string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-From: %s\r\n\r\n%s", len(text), text, text)
}

const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"

// TestHedge: of two backends the one that answers first counts. Nothing of the other reaches the client, and its request is ended.
func TestHedge(t *testing.T) {
	for _, c := range []struct {
		name string
		says [][2]string // who, what
		want string
		ends int // the backend whose request the proxy ends; below 0: none
	}{
		{"the second is sooner", [][2]string{{"1", ok("second")}}, "200 second", 0},
		{"the first is sooner", [][2]string{{"0", ok("first")}}, "200 first", 1},
		{"the second refuses", [][2]string{{"1", refusal}, {"0", ok("first")}}, "200 first", -1},
		{"the first breaks off", [][2]string{{"0", ""}, {"1", ok("second")}}, "200 second", -1},
		{"the first refuses", [][2]string{{"0", refusal}}, "503 ", 1},
		{"the second refuses and the first breaks off", [][2]string{{"1", refusal}, {"0", ""}}, "502 ", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hedging(t, Config{})
			answer := h.start("GET", "")
			testenv.Equal(t, <-h.asked+<-h.asked, 1, "the backends that are asked")
			for _, s := range c.says {
				h.says[s[0][0]-'0'] <- s[1]
				if s[1] == refusal && len(c.says) > 1 {
					testenv.Until(t, "the other one only is under way", func() bool { return h.outstanding() == 1 })
				}
			}
			select {
			case got := <-answer:
				if got != c.want && !strings.HasPrefix(c.want, "50") || !strings.HasPrefix(got, c.want[:3]) {
					t.Errorf("the answer is %q; want %q", got, c.want)
				}
			case again := <-h.asked:
				h.says[again] <- refusal
				t.Errorf("backend %d gets the request again: %s", again, <-answer)
			}
			if c.ends >= 0 {
				testenv.Equal(t, <-h.ended, c.ends, "the backend whose request is ended")
			}
			testenv.Until(t, "none is under way", func() bool { return h.outstanding() == 0 })
			testenv.Equal(t, h.retries(), 1, "further tries")
			status, body := h.get("/plain")
			testenv.Equal(t, fmt.Sprint(status, body), "200plain", "the next request")
		})
	}
}

func (h *hedged) outstanding() (n int64) {
	for _, b := range h.p.Stats() {
		n += b.Outstanding
	}
	return n
}

func (h *hedged) retries() (n uint64) {
	for _, b := range h.p.Stats() {
		n += b.Retries
	}
	return n
}

// TestHedgeOnlyWhatMayBe: requests that may not be repeated, uploads and upgrades go to one backend, and so do all when the budget is
// used up. A request that is hedged meanwhile shows that there was time.
func TestHedgeOnlyWhatMayBe(t *testing.T) {
	for name, request := range map[string]string{
		"POST":    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
		"upload":  "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok",
		"chunked": "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"upgrade": "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			h := hedging(t, Config{})
			c, in := h.dial(request)
			defer c.Close()
			testenv.Equal(t, <-h.asked, 0, "the request")
			answer := h.start("GET", "")
			testenv.Equal(t, <-h.asked+<-h.asked, 1, "the backends of the other one")
			h.says[1] <- ok("hedged")
			testenv.Equal(t, <-answer, "200 hedged", "the other one")
			testenv.Equal(t, <-h.ended, 0, "the backend whose request is ended")
			h.says[0] <- ok("single")
			line, err := in.ReadString('\n')
			testenv.Must(t, err)
			testenv.Equal(t, line, "HTTP/1.1 200 OK\r\n", "the request")
			testenv.Equal(t, h.retries(), 1, "further tries")
		})
	}
	t.Run("budget", func(t *testing.T) {
		h := hedging(t, Config{RetryShare: 0.01})
		for h.p.mayRetry() {
		}
		answer := h.start("GET", "")
		testenv.Equal(t, <-h.asked, 0, "the request")
		testenv.Until(t, "the budget was asked", func() bool { s := h.p.Stats(); return s[0].OverBudget+s[1].OverBudget == 1 })
		h.says[0] <- ok("first")
		testenv.Equal(t, <-answer, "200 first", "the answer")
		testenv.Equal(t, h.retries(), 0, "further tries")
	})
}

// TestHedgeClientGone: when the client leaves, both requests are ended.
func TestHedgeClientGone(t *testing.T) {
	h := hedging(t, Config{})
	c, _ := h.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	testenv.Equal(t, <-h.asked+<-h.asked, 1, "the backends that are asked")
	c.Close()
	testenv.Equal(t, <-h.ended+<-h.ended, 1, "the backends whose requests are ended")
	testenv.Until(t, "none is under way", func() bool { return h.outstanding() == 0 })
}

// An endingConn reports that its end was read.
type endingConn struct {
	net.Conn
	ended chan bool
}

func (c endingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		c.ended <- true
	}
	return n, err
}

// TestHedgeMendsAFailure: a backend that breaks off has failed also if a hedge answers in its place.
func TestHedgeMendsAFailure(t *testing.T) {
	ended := make(chan bool, 8)
	h := hedging(t, Config{MaxFails: -1, Dial: func(network, address string, limit time.Duration) (net.Conn, error) {
		c, err := netpoll.DialTimeout(network, address, limit)
		return endingConn{c, ended}, err
	}})
	for range 50 { // the other answer may still be sooner, or the backend that has got its request first may be that of the hedge
		answer := h.start("GET", "")
		first, second := <-h.asked, <-h.asked
		h.says[first] <- ""
		<-ended
		h.says[second] <- "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecond"
		testenv.Equal(t, <-answer, "200 second", "the answer")
		if h.p.Stats()[0].Failures["broken"]+h.p.Stats()[1].Failures["broken"] == 1 {
			testenv.AtLeast(t, h.p.all()[0].fails.Load()+h.p.all()[1].fails.Load(), 1, "failures in a row")
			return
		}
	}
	t.Error("no failure has counted")
}

// TestHedgeOfALateClient: that the client waits no longer is no failure of the backend that has the hedge.
func TestHedgeOfALateClient(t *testing.T) {
	for _, isClientDeadline := range []bool{true, false} {
		p := testenv.Need(New(to(silent(t, ""))))(t)
		b := p.all()[0]
		if room, _ := b.enter(); !room || !b.slots.TryAcquire(1) {
			t.Fatal("there is no room for one")
		}
		h := &hedge{b: b, out: []byte(aRequest), deadline: now().Add(-time.Second), isClientDeadline: isClientDeadline, waits: newInterrupter()}
		h.done.Add(1)
		h.run()
		testenv.Equal(t, b.fails.Load() == 0, isClientDeadline, "that it is no failure, if the deadline is the client's: %v", isClientDeadline)
		testenv.Equal(t, b.outstanding.Load(), 0, "requests under way")
		p.Close()
	}
}

// TestHedgeOnAConnectionThatCloses: that a backend closes a connection at rest just when a hedge comes is no failure of it, and that it
// closes a new one is.
func TestHedgeOnAConnectionThatCloses(t *testing.T) {
	for _, used := range []bool{true, false} {
		c := to(says(t, ""))
		c.Dial = net.DialTimeout
		p := testenv.Need(New(c))(t)
		b := p.all()[0]
		u := testenv.Need(b.get(t.Context(), time.Time{}))(t)
		u.used = used
		b.pool.Put(u, false)
		if room, _ := b.enter(); !room || !b.slots.TryAcquire(1) {
			t.Fatal("there is no room for one")
		}
		h := &hedge{b: b, out: []byte(aRequest), waits: newInterrupter()}
		h.done.Add(1)
		h.run()
		testenv.Equal(t, b.fails.Load() == 0, used, "that it is no failure, if the connection was used: %v", used)
		testenv.Equal(t, h.isStale, used, "that the connection was stale, if it was used: %v", used)
		p.Close()
	}
}

// TestHedgeFaults: what Hedge can't be.
func TestHedgeFaults(t *testing.T) {
	for _, c := range []Config{{Hedge: 2}, {Hedge: -1}, {Hedge: 0.9, HTTP2: true}, {Hedge: 0.9, Sticky: &Sticky{Cookie: "a"}}} {
		c.Backends = []string{"http://127.0.0.1:1"}
		_, err := New(c)
		if field := (*FieldError)(nil); !errors.As(err, &field) || field.Field != "Hedge" {
			t.Errorf("%v: the error is %v; want one about Hedge", c.Hedge, err)
		}
	}
}
