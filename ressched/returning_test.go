package ressched

import (
	"testing"
	"time"
)

// returning has so many clients that ask again a moment after each answer, for a while.
func (w *webServer) returning(clients int, d time.Duration) {
	const away = 50 * time.Microsecond
	w.admission.SetClients(1, clients)
	end := w.now + d
	next := make([]time.Duration, 0, clients) // when those who are not in line ask, in order
	for range clients {
		next = append(next, w.now)
	}
	for w.now < end {
		for len(next) > 0 && next[0] <= w.now {
			w.queue = append(w.queue, request{next[0], w.priority()})
			next = next[1:]
		}
		for ; w.tick <= w.now; w.tick += 10 * time.Millisecond {
			w.ledger.Tick(w.tick)
		}
		if len(w.queue) == 0 {
			w.now = next[0]
			continue
		}
		before := len(w.queue)
		if w.serve(); len(w.queue) < before {
			next = append(next, w.now+away)
		}
	}
	w.queue = w.queue[:0]
}

func TestReturningClientsAreServed(t *testing.T) {
	for _, c := range []struct {
		clients int
		service time.Duration
		first   float64 // refused, in parts of what can be served in a second, before it is clear
	}{
		{500, 10 * time.Microsecond, 0},
		{3000, 15 * time.Microsecond, 0},
		{10_000, 20 * time.Microsecond, 0.5},
		{50, time.Millisecond, 30},
		{90, time.Millisecond, 30},
		{20, 4 * time.Millisecond, 30},
	} {
		w := newWebServer(*seedFlag, always(c.service))
		w.returning(c.clients, 2*time.Second)
		if share := float64(len(w.refused)) * c.service.Seconds(); share > c.first {
			t.Errorf("%d clients, %v each: in the first two seconds %.3g refused for each that could be served", c.clients, c.service, share)
		}
		w.refused = w.refused[:0]
		for range 5 { // on and off
			from := w.now
			w.returning(c.clients, 2*time.Second)
			if len(w.refused) > 0 {
				t.Errorf("%d clients, %v each: %d refused though it is known that they return", c.clients, c.service, len(w.refused))
				break
			}
			if got, want := w.goodput(from, w.now), 0.97/c.service.Seconds(); time.Duration(c.clients)*c.service < latencyTarget && got < want {
				t.Errorf("%d clients, %v each: %.0f served in time, want %.0f", c.clients, c.service, got, want)
			}
			w.now += time.Second
		}
	}
}

// Who would have to wait for longer than can be borne is refused, also if he returns.
func TestTooManyReturningClients(t *testing.T) {
	for _, c := range []struct {
		clients int
		service time.Duration
	}{{1000, time.Millisecond}, {100_000, 20 * time.Microsecond}} {
		w := newWebServer(*seedFlag, always(c.service))
		w.returning(c.clients, 2*time.Second)
		from := w.now
		w.returning(c.clients, 2*time.Second)
		if got := w.quantile(0.99, from, w.now); got > 60*time.Millisecond || len(w.refused) == 0 {
			t.Errorf("%d clients, %v each: p99 %v, %d refused; want at most 60ms, and refusals", c.clients, c.service, got, len(w.refused))
		}
	}
}

// Independent clients are hardly ever taken for ones that return.
func TestTrialsAreRare(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.pooled = true
	w.run(1400, 5*time.Minute)
	if got := w.quantile(0.99, 10*time.Second, w.now); got > 13*time.Millisecond {
		t.Errorf("p99 with trials is %v, want hardly more than without", got)
	}
}

// When there come more and more clients while nobody is refused, that is tried
// again after twice the time, and after a minute in the end.
func TestPausesBetweenTrials(t *testing.T) {
	var c crowd
	c.clients = 100
	c.overloaded(0, false)
	want, from := firstTrial, time.Duration(0)
	for now := time.Duration(0); now < 10*time.Minute; now += time.Millisecond {
		if !c.tolerates(now, float64(c.clients), time.Millisecond, time.Second) {
			continue
		}
		if got := now - from; got < want || got > want+2*time.Millisecond {
			t.Fatalf("trial after %v, want %v", got, want)
		}
		c.clients += c.clients
		if c.tolerates(now, 1, time.Millisecond, time.Second) {
			t.Fatal("twice as many clients, and they are still believed to return")
		}
		c.clients, from = 100, now
		want = min(2*want, time.Minute)
	}
	if want != time.Minute {
		t.Errorf("the last pause is %v", want)
	}
	c.overloaded(11*time.Minute, false)
	if c.tolerates(11*time.Minute+time.Second, 84, time.Millisecond, time.Second) {
		t.Error("a trial, though many clients are not in line")
	}
	if c.tolerates(11*time.Minute+time.Second, 100, 2*time.Second, time.Second) {
		t.Error("a trial, though serving all would take longer than they can wait")
	}
	if !c.tolerates(11*time.Minute+time.Second, 100, time.Second, time.Second) {
		t.Error("no trial, though all are in line")
	}
}

// Where some are more important than others nobody is left in line before them.
func TestNoTrialsAmongPriorities(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.priority = func() Priority { return Priority(w.rng.IntN(2)) }
	w.returning(50, 10*time.Second)
	if got := w.quantile(0.99, 5*time.Second, w.now); got > 25*time.Millisecond || len(w.refused) == 0 {
		t.Errorf("p99 %v, %d refused", got, len(w.refused))
	}
}
