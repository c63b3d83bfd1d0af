package cache

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// waiting waits until so many requests wait for flights.
func (r *rig) waiting(want int) {
	r.t.Helper()
	testenv.Until(r.t, fmt.Sprint(want, " requests wait"), func() bool {
		r.cache.mu.Lock()
		defer r.cache.mu.Unlock()
		n := 0
		for _, f := range r.cache.flights {
			f.mu.Lock()
			n += len(f.waiters)
			f.mu.Unlock()
		}
		return n == want
	})
}

// go asks beside the test.
func (r *rig) goGet(n int, target string, lines ...string) chan answer {
	got := make(chan answer, n)
	for range n {
		go func() { got <- r.get(target, lines...) }()
	}
	return got
}

// TestLeavers: a client that leaves does not end the fetch that others wait for, whether it has begun it or not; when all have
// left it ends.
func TestLeavers(t *testing.T) {
	r := newRig(t, Config{})
	release, ended := task.NewChan[struct{}](0), make(chan bool, 10)
	r.says(func(x *knot.Ctx) error {
		gone := task.NewChan[struct{}](1)
		var w peerwatch.Watch
		innerOf(x).WhenGone(&w, func() { gone.TrySend(struct{}{}) })
		defer w.Stop()
		n, _ := task.Select(release.RecvCase(new(struct{})), gone.RecvCase(new(struct{})))
		ended <- n == 1
		if n == 1 {
			return knot.Status(499)
		}
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", "x")
	})
	begin := func() io.Closer {
		nc := testenv.Dial(t, r.addr)
		fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
		return nc
	}
	first := begin()
	r.waiting(1)
	second := begin()
	r.waiting(2)
	got := r.goGet(1, "/")
	r.waiting(3)
	first.Close()
	r.waiting(2)
	second.Close()
	r.waiting(1)
	release.Send(struct{}{})
	testenv.Equal(t, (<-got).body, "x")
	testenv.Equal(t, <-ended, false)
	testenv.Equal(t, r.asked.Load(), 1)

	r.cache.Purge("http://site.test/", false)
	first = begin()
	r.waiting(1)
	second = begin()
	r.waiting(2)
	second.Close()
	first.Close()
	testenv.Equal(t, <-ended, true, "the fetch that nobody waits for is stopped")
	r.waiting(0)
}

// TestUncacheable: when a response turns out not to be for all, those who have waited ask on their own, at the same time, and
// those who come later don't wait at all.
func TestUncacheable(t *testing.T) {
	const clients = 20
	r := newRig(t, Config{})
	head, body := task.NewChan[struct{}](0), task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		head.Recv()
		x.AddHeader("Cache-Control", "private")
		x.WriteString("yours")
		if err := x.Flush(); err != nil {
			return err
		}
		body.Recv()
		return nil
	})
	got := r.goGet(clients, "/")
	r.waiting(clients)
	testenv.Equal(t, r.asked.Load(), 1)
	head.Close()
	all := func(n int64) {
		testenv.Until(t, "all are at the backend at once", func() bool { return r.asked.Load() == n })
	}
	all(clients)
	later := r.goGet(clients, "/")
	all(2 * clients)
	body.Close()
	for range clients {
		testenv.Equal(t, (<-got).body, "yours")
		testenv.Equal(t, (<-later).body, "yours")
	}
}

// TestPartInPlaceOfTheWhole: where only the client that has asked for a part would get the whole response, that is ended before
// the part is asked for: there may be one connection to the backend.
func TestPartInPlaceOfTheWhole(t *testing.T) {
	r := newRig(t, Config{MaxEntry: "1000"})
	var conn task.Mutex // held while it is in use
	r.says(func(x *knot.Ctx) error {
		conn.Lock()
		defer conn.Unlock()
		if x.HeaderBytes("range") != nil {
			return x.SendString(206, "", "part")
		}
		x.SetContentLength(4 * window)
		_, err := x.Write(make([]byte, 4*window))
		return err
	})
	testenv.Equal(t, r.get("/", "Range: bytes=0-3").body, "part")
	testenv.Equal(t, r.asked.Load(), 2)
}

// TestCredentials: requests with credentials don't wait for each other.
func TestCredentials(t *testing.T) {
	r := newRig(t, Config{Wait: "1h"})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "", x.Header("Authorization"))
	})
	a, b := r.goGet(1, "/", "Authorization: Basic a"), r.goGet(1, "/", "Authorization: Basic b")
	testenv.Until(t, "both are at the backend", func() bool { return r.asked.Load() == 2 })
	release.Close()
	testenv.Equal(t, (<-a).body+(<-b).body, "Basic aBasic b")
}

// TestVariants: those who wait for another variant make one request for each.
func TestVariants(t *testing.T) {
	r := newRig(t, Config{})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		x.AddHeader("Vary", "Accept")
		return x.SendString(200, "", x.Header("Accept"))
	})
	got := map[string]chan answer{}
	for _, accept := range []string{"a", "b", "c"} {
		got[accept] = r.goGet(10, "/", "Accept: "+accept)
	}
	r.waiting(30)
	release.Close()
	for accept, all := range got {
		for range 10 {
			testenv.Equal(t, (<-all).body, accept)
		}
	}
	testenv.AtMost(t, r.asked.Load(), 5, "requests at the backend for three variants")
}

// TestStreaming: a response reaches those who wait as it comes: with a length all, without only the first, as it may yet be
// too large.
func TestStreaming(t *testing.T) {
	for _, length := range []int64{-1, 6} {
		r := newRig(t, Config{})
		rest := task.NewChan[struct{}](0)
		r.says(func(x *knot.Ctx) error {
			x.AddHeader("Cache-Control", "max-age=60")
			if length >= 0 {
				x.SetContentLength(length)
			}
			x.WriteString("abc")
			if err := x.Flush(); err != nil {
				return err
			}
			rest.Recv()
			_, err := x.WriteString("def")
			return err
		})
		read := func() *bufio.Reader {
			nc := testenv.Dial(t, r.addr)
			t.Cleanup(func() { nc.Close() })
			fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
			return bufio.NewReader(nc)
		}
		expect := func(from *bufio.Reader) *http.Response {
			resp := testenv.Need(http.ReadResponse(from, nil))(t)
			start := make([]byte, 3)
			testenv.Need(io.ReadFull(resp.Body, start))(t)
			testenv.Equal(t, string(start), "abc", "length %d", length)
			return resp
		}
		first := expect(read())
		other := read()
		var second *http.Response
		if length >= 0 {
			second = expect(other)
		} else {
			r.waiting(2)
		}
		rest.Close()
		testenv.Equal(t, string(testenv.Need(io.ReadAll(first.Body))(t)), "def")
		if length >= 0 {
			testenv.Equal(t, string(testenv.Need(io.ReadAll(second.Body))(t)), "def")
		} else {
			second = testenv.Need(http.ReadResponse(other, nil))(t)
			testenv.Equal(t, string(testenv.Need(io.ReadAll(second.Body))(t)), "abcdef")
		}
		testenv.Equal(t, r.asked.Load(), 1)
		testenv.Equal(t, r.get("/").body, "abcdef")
		testenv.Equal(t, r.asked.Load(), 1)
	}
}

// TestBrokenOff: a response that is not whole is not kept, and all who have waited learn of the failure.
func TestBrokenOff(t *testing.T) {
	r := newRig(t, Config{})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		return fmt.Errorf("%w: no connection", knot.Status(504))
	})
	got := r.goGet(5, "/")
	r.waiting(5)
	release.Close()
	for range 5 {
		testenv.Equal(t, (<-got).status, 504)
	}
	testenv.Equal(t, r.asked.Load(), 1)
	for _, how := range []string{"error", "less", "panic"} {
		r.says(func(x *knot.Ctx) error {
			x.AddHeader("Cache-Control", "max-age=60")
			x.SetContentLength(10)
			x.WriteString("abc")
			x.Flush()
			switch how {
			case "error":
				return errors.New("broken")
			case "panic":
				panic("of the backend")
			}
			return nil
		})
		nc := testenv.Dial(t, r.addr)
		fmt.Fprint(nc, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
		resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
		_, err := io.ReadAll(resp.Body)
		testenv.Fails(t, err, how)
		nc.Close()
		testenv.Equal(t, r.cache.Stats().Entries, 0, how)
	}
}

// TestSlowClient: a client that takes nothing holds up neither the fetch of what can be kept, nor more memory than a window of
// what can't.
func TestSlowClient(t *testing.T) {
	r := newRig(t, Config{MaxEntry: "3000000"})
	whole := make(chan bool, 2)
	var sent int
	r.says(func(x *knot.Ctx) error {
		size := 2_000_000
		if x.Path() == "/large" {
			size = 50_000_000
		}
		x.AddHeader("Cache-Control", "max-age=60")
		for sent = 0; sent < size; sent += 1000 {
			if _, err := x.Write(make([]byte, 1000)); err != nil {
				whole <- false
				return err
			}
		}
		whole <- true
		return nil
	})
	begin := func(target string) io.Closer {
		nc := testenv.Dial(t, r.addr)
		fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: site.test\r\n\r\n", target)
		return nc
	}
	nc := begin("/small")
	testenv.Equal(t, <-whole, true)
	testenv.Equal(t, len(r.get("/small").body), 2_000_000)
	testenv.Equal(t, r.asked.Load(), 1)
	nc.Close()
	nc = begin("/large")
	r.waiting(1)
	testenv.Until(t, "it is too large to be kept", func() bool {
		r.cache.mu.Lock()
		defer r.cache.mu.Unlock()
		return len(r.cache.alone) == 1
	})
	nc.Close()
	testenv.Equal(t, <-whole, false, "it ends with its client")
	testenv.AtMost(t, sent, 40_000_000)
}

// TestLargeResponse that can't be kept comes whole.
func TestLargeResponse(t *testing.T) {
	r := newRig(t, Config{MaxEntry: "10000"})
	text := strings.Repeat("0123456789", 200_000)
	for _, lines := range [][]string{{fresh}, {fresh, fmt.Sprint("Content-Length: ", len(text))}, {"Cache-Control: no-store"}} {
		r.sends(200, append(lines, "", text)...)
		a := r.get("/" + lines[0][:3] + fmt.Sprint(len(lines)))
		testenv.True(t, a.body == text, "%q: %d bytes", lines, len(a.body))
	}
}

// TestCookiesCallNobodyAlone: that a response to a request with cookies can't be kept keeps no request without them from waiting
// for another one.
func TestCookiesCallNobodyAlone(t *testing.T) {
	r := newRig(t, Config{Lifetimes: map[string]string{"200": "10m"}})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		if x.Header("Cookie") == "" {
			release.Recv()
		}
		return x.SendString(200, "", "x")
	})
	r.want("fwd=miss", 1, "Cookie: a=b")
	got := r.goGet(3, "/")
	r.waiting(3)
	release.Close()
	for range 3 {
		testenv.Equal(t, (<-got).body, "x")
	}
	testenv.Equal(t, r.asked.Load(), 2, "requests at the backend")
}
