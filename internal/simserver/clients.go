//go:build linux

package simserver

import (
	"slices"
	"time"
)

// Clients are all clients of a server, and what has become of their requests. Only the
// conductor uses the fields.
type Clients struct {
	w    *World
	Port uint16
	// Dropped means that the server may close connections without an answer: it has more
	// than it may have, or can't go on with an answer that it has begun.
	Dropped bool
	// Halted reports whether the server has been told to stop: it may take no more connections, and what
	// has come on those of HTTP/1.1 may remain without an answer.
	Halted bool
	// Slow reports whether the server's time limits are so short that it may give up requests (408).
	Slow bool

	pending  map[*Request]bool
	begun    int
	open     int  // sessions
	over     bool // no more requests are to be sent
	Statuses map[int]int
	Failures map[string]int
	// Latencies are the times that requests with status 200 took.
	Latencies []time.Duration
	// Refused is called for each 503; may be nil.
	Refused func(*Request)
}

func newClients(w *World, port uint16) *Clients {
	return &Clients{w: w, Port: port, pending: map[*Request]bool{}, Statuses: map[int]int{}, Failures: map[string]int{}}
}

func (c *Clients) begin(r *Request) {
	c.begun++
	c.pending[r] = true
}

func (c *Clients) end(r *Request, status int, why string) {
	if r.ended {
		c.w.fault("request %s has ended twice: %d %s", r.Path, status, why)
		return
	}
	r.ended, r.Status, r.Ended = true, status, c.w.Now()
	delete(c.pending, r)
	if why != "" {
		c.Failures[why]++
	} else {
		c.Statuses[status]++
	}
	if status == 200 && r.Want > 0 && r.Got != r.Want {
		c.w.fault("the answer to %s has %d bytes, want %d", r.Path, r.Got, r.Want)
	}
	switch {
	case status == 408 && !c.Slow:
		c.w.fault("request %s (body %d) of %v was given up as too slow", r.Path, r.Body, r.Sent)
	case status == 200:
		c.Latencies = append(c.Latencies, r.Took())
	case status == 503 && r.Later && c.Refused != nil:
		c.Refused(r)
	}
	if r.Done != nil {
		r.Done(r)
	}
}

// Quantile is the q-th quantile of the times that requests with status 200 took.
func (c *Clients) Quantile(q float64) time.Duration {
	if len(c.Latencies) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(c.Latencies))
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

// A Habit is how clients behave.
type Habit struct {
	Path      Path
	HTTP2     *HTTP2 // nil: HTTP/1.1
	Make      func() *Request
	KeepAlive bool
	Pipeline  int            // requests sent at once on one connection; 0: 1
	Think     time.Duration  // mean time between an answer and the next request
	Timeout   time.Duration  // after which a client gives up; 0: never
	Retries   int            // how often it tries again after that, or after a 503
	Pause     time.Duration  // before it does
	Leave     float64        // probability that it leaves before the answer has come
	Abort     bool           // by a reset
	Gaps      func() float64 // of an open loop, between requests, 1 on average; nil: drawn as all else is
	Half      bool           // it ends its side after its requests, and still wants the answers; with HTTP/1.1
}

// Once sends what h makes on a connection of its own; done is called when that has ended,
// and may be nil.
func (c *Clients) Once(h *Habit, done func()) { c.attempt(h, h.Retries, done) }

func (c *Clients) attempt(h *Habit, tries int, done func()) {
	if c.over {
		return
	}
	s := c.Open(h.Path, h.HTTP2)
	all := h.batch(func(good bool) {
		s.Close("", false)
		switch {
		case !good && tries > 0:
			c.w.After(h.Pause, func() { c.attempt(h, tries-1, done) })
		case done != nil:
			done()
		}
	})
	c.impatient(s, h, all)
	s.Send(all...)
	if h.Half && h.HTTP2 == nil { // there the end of one side is that of all
		s.CloseWrite()
	}
}

// request makes a request; done is called when it has ended.
func (h *Habit) request(done func(*Request)) *Request {
	r := h.Make()
	then := r.Done
	r.Done = func(r *Request) {
		if then != nil {
			then(r)
		}
		done(r)
	}
	return r
}

// batch makes the requests that are sent at once; done is called when all have ended, good if each was answered with 200.
func (h *Habit) batch(done func(good bool)) []*Request {
	all := make([]*Request, max(h.Pipeline, 1))
	left, good := len(all), true
	for i := range all {
		all[i] = h.request(func(r *Request) {
			good = good && r.Status == 200
			if left--; left == 0 {
				done(good)
			}
		})
	}
	return all
}

// impatient has the client of s leave when it has waited too long, or by chance.
func (c *Clients) impatient(s *Session, h *Habit, all []*Request) {
	if h.Timeout > 0 {
		c.w.After(h.Timeout, func() {
			for _, r := range all {
				s.GiveUp(r, "timed out", h.Abort)
			}
		})
	}
	if h.Leave > 0 && c.w.Chance(h.Leave) {
		after := c.w.Exp(20 * time.Millisecond)
		if c.w.Chance(0.2) {
			after = 3 * h.Path.Latency // as soon as it has sent
		}
		c.w.After(after, func() { s.Close("left", h.Abort) })
	}
}

// OpenLoop sends rate requests a second at random times until the given time, each on a
// connection of its own, or, with KeepAlive, on one that rests or can be shared.
func (c *Clients) OpenLoop(h *Habit, rate float64, until time.Duration) {
	var resting []*Session
	free := func(s *Session) {
		if len(s.waiting) < s.wire.most() && !slices.Contains(resting, s) {
			resting = append(resting, s)
		}
	}
	gap := func() time.Duration {
		if h.Gaps != nil {
			return time.Duration(h.Gaps() * 1e9 / rate)
		}
		return c.w.Exp(time.Duration(1e9 / rate))
	}
	var send func(tries int)
	send = func(tries int) {
		if c.over {
			return
		}
		for k := len(resting); k > 0 && (resting[k-1].gone || resting[k-1].lastOne); k-- {
			resting = resting[:k-1]
		}
		var s *Session
		if k := len(resting); k > 0 {
			s = resting[k-1]
			resting = resting[:k-1]
		} else {
			s = c.Open(h.Path, h.HTTP2)
		}
		r := h.request(func(r *Request) {
			switch {
			case c.w.Now() >= until || s.lastOne || s.gone:
				if len(s.waiting) == 0 {
					s.Close("", false)
				}
			default:
				free(s)
			}
			if r.Status != 200 && tries > 0 {
				c.w.After(h.Pause, func() { send(tries - 1) })
			}
		})
		if h.Timeout > 0 {
			c.w.After(h.Timeout, func() { s.GiveUp(r, "timed out", h.Abort) })
		}
		s.Send(r)
		free(s)
	}
	var next func()
	next = func() {
		if c.w.Now() >= until || c.over {
			for _, s := range resting {
				if len(s.waiting) == 0 {
					s.Close("", false)
				}
			}
			resting = nil
			return
		}
		c.w.After(gap(), next)
		if !h.KeepAlive {
			c.Once(h, nil)
			return
		}
		send(h.Retries)
	}
	c.w.After(gap(), next)
}

// ClosedLoop has n clients send requests, one after the other, until the given time.
// All begin within the given time from now.
func (c *Clients) ClosedLoop(h *Habit, n int, within, until time.Duration) {
	for range n {
		start := time.Duration(0)
		if within > 0 {
			start = c.w.Below(within)
		}
		c.w.After(start, func() { c.loop(h, nil, until) })
	}
}

func (c *Clients) loop(h *Habit, s *Session, until time.Duration) {
	if c.w.Now() >= until || c.over {
		if s != nil {
			s.Close("", false)
		}
		return
	}
	again := func() { c.w.After(c.w.Exp(h.Think), func() { c.loop(h, s, until) }) }
	if !h.KeepAlive {
		c.Once(h, again)
		return
	}
	if s == nil || s.gone || s.lastOne {
		if s != nil {
			s.Close("", false)
		}
		s = c.Open(h.Path, h.HTTP2)
	}
	s.Send(h.batch(func(bool) { again() })...)
}
