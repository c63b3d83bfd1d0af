package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// vodShape is what a run of vod does. In the paper it is a minute at once, then 5 s at a time;
// that nobody starves shows after some chunks, of any length.
type vodShape struct {
	rates        []float64     // Mbit/s
	first, chunk time.Duration // of the film
	trial        time.Duration // that nobody may starve in
	film         int64         // bytes
	begin, most  int           // clients tried
	exact        int           // the search ends at a 1/exact of the clients
}

var (
	vodFull  = vodShape{[]float64{1, 6, 18}, time.Second, 250 * time.Millisecond, 2500 * time.Millisecond, 1 << 30, 128, 8000, 10}
	vodQuick = vodShape{[]float64{6}, time.Second, 500 * time.Millisecond, 2 * time.Second, 256 << 20, 128, 4000, 20}
)

// runVod finds how many players of a film a server can serve so that none ever runs out of
// film (Aspen, Figures 10 and 11).
func runVod(r *run) error {
	shape := choose(r.quick, vodQuick, vodFull)
	film := filepath.Join(r.scratch, "film")
	if err := r.prepare(writing(shape.film), func() error { return writeBlocks(r.ctx, film, shape.film) }); err != nil {
		return err
	}
	path, err := r.buildCommand("examples/vod")
	if err != nil {
		return err
	}
	servers := func(rate float64) []launcher {
		var found []launcher
		for _, by := range []string{"flow", "task", "goroutine"} {
			system := map[string]string{"flow": "capriccio-flow", "task": "capriccio", "goroutine": "goroutine"}[by]
			found = append(found, programServer(system, nil, path, "-addr", "127.0.0.1:0", "-by", by, "-film", film,
				"-rate", fmt.Sprint(rate), "-first", shape.first.String(), "-chunk", shape.chunk.String()))
		}
		return append(found, r.nginx("nginx", func(dir, addr string) string {
			bytes := rate * 1e6 / 8
			// A tenth more than is played: it counts in whole seconds.
			option := fmt.Sprintf("aio threads; directio 512; limit_rate_after %d; limit_rate %d;",
				int64(bytes*shape.first.Seconds()), int64(bytes*1.1))
			return fmt.Sprintf(nginxFilesConfig, dir, addr, filepath.Dir(film), option)
		})...)
	}
	r.search(shape.rates, shape.trial*3/2+time.Second, servers, func(l launcher, rate float64) ([]sample, error) {
		return r.mostPlayers(l.system, l.start, rate, shape)
	})
	r.note("clients: the most that played for %v without one running out of film, found by bisection to %d %%, two trials to fail; %v of film at once, then %v at a time; x: Mbit/s",
		shape.trial, 100/shape.exact, shape.first, shape.chunk)
	r.note("one film of %d MB, each client from a place of its own; all read past the page cache; at most %d clients were tried", shape.film/1e6, shape.most)
	r.note("capriccio-flow, capriccio, goroutine: examples/vod; nginx: limit_rate, 10 %% above the rate; server on core %d, players on core %d", serverCore, clientCore)
	r.charts = []report.Chart{
		{Title: "Players without interruption", Metric: "clients", XLabel: "Mbit/s", Bars: true},
		{Title: "CPU per player on the server", Metric: "cpu-per-client", XLabel: "Mbit/s", Bars: true},
	}
	return nil
}

// mostPlayers finds the most players that one server can serve.
func (r *run) mostPlayers(system string, start func(context.Context) (*server, error), rate float64, shape vodShape) ([]sample, error) {
	var best []sample
	trial := func(n int) (bool, error) {
		if r.ctx.Err() != nil {
			return false, context.Cause(r.ctx)
		}
		s, err := start(r.ctx)
		if err != nil {
			return false, err
		}
		defer s.child.Close()
		samples, err := samplesOf(r.ctx, shape.trial, r.ownClient(append([]string{"players"}, flagPairs("addr", s.addr,
			"path", map[bool]string{true: "/film"}[system == "nginx"], "pid", s.child.PID(), "clients", n, "rate", rate,
			"first", shape.first, "for", shape.trial, "film", shape.film)...)...))
		if err != nil {
			return false, err
		}
		fmt.Fprintf(r.progress, "%s at %v Mbit/s: %d players, %.0f starved\n", system, rate, n, samples[0].value)
		if samples[0].value > 0 {
			return false, nil
		}
		best = samples[1:]
		return true, nil
	}
	first, factor := r.searchFrom(system, "clients", rate, shape.begin)
	most, err := bisect(first, shape.most, shape.exact, factor, func(n int) (bool, error) {
		// A machine that does something else for a moment has players starve, too.
		ok, err := trial(n)
		if err == nil && !ok {
			ok, err = trial(n)
		}
		return ok, err
	})
	return append(best, sample{"clients", "1", rate, float64(most)}), err
}

// search has most find the most that each server can do at each x, by trials that take so long: once in a quick run.
func (r *run) search(xs []float64, trial time.Duration, servers func(x float64) []launcher, most func(l launcher, x float64) ([]sample, error)) {
	if r.quick && r.asked == 0 {
		r.asked = 1
	}
	for r.round = range r.rounds() {
		for _, x := range xs {
			for _, l := range servers(x) {
				if !r.wants(l.system) {
					continue
				}
				name := fmt.Sprintf("%s at %v", l.system, x)
				r.try(l.system, name, fmt.Sprint(name, " round ", r.round), choose(r.round == 0, 6*trial, 3*trial), func() ([]sample, error) { return most(l, x) })
			}
		}
	}
}

// searchFrom is where a search begins, and by which factor it goes up or down until it has passed the number: after
// the first round with the median of those before, and in it with that of another system.
func (r *run) searchFrom(system, metric string, x float64, first int) (begin int, factor float64) {
	rows := report.Report{Rows: r.samples.Rows()}
	if before, ok := rows.Find(system, metric, x); ok && before.Value >= 1 {
		return int(before.Value), 1.1
	}
	for _, other := range r.offered {
		if before, ok := rows.Find(other, metric, x); ok && before.Value >= 1 {
			return int(before.Value), 1.5
		}
	}
	return first, 2
}

// bisect finds about the largest number from 1 to most that is good, to 1/exact of it, beginning with first; 0 if
// none is. What is more than a number that is not good is taken to be not good.
func bisect(first, most, exact int, factor float64, good func(int) (bool, error)) (int, error) {
	low, high := 0, most+1
	for n := min(first, most); high-low > max(1, low/exact); {
		ok, err := good(n)
		if err != nil {
			return 0, err
		}
		if ok {
			low = n
		} else {
			high = n
		}
		switch {
		case high > most:
			n = min(max(int(factor*float64(low)), low+1), most)
		case low == 0:
			n = max(int(float64(high)/factor), 1)
		default:
			n = (low + high) / 2
		}
	}
	return low, nil
}

// A player plays a film as it comes in: it begins when it has a first part of it.
type player struct {
	rate     float64 // bytes/s
	first    float64 // bytes
	received float64
	playing  bool
	began    time.Time // to play
	starved  bool
}

// receive notes that n more bytes have come.
func (p *player) receive(now time.Time, n int) {
	p.look(now)
	p.received += float64(n)
	if !p.playing && p.received >= p.first {
		p.playing, p.began = true, now
	}
}

// look finds out whether the player has run out of film.
func (p *player) look(now time.Time) {
	if p.playing && p.received < p.rate*now.Sub(p.began).Seconds() {
		p.starved = true
	}
}

// bodyOf is what follows a response's head in what has been read first.
func bodyOf(data []byte) (int, error) {
	head, body, ok := strings.Cut(string(data), "\r\n\r\n")
	if !ok || !strings.Contains(head, " 200 ") && !strings.Contains(head, " 206 ") {
		return 0, fmt.Errorf("the server said %.40q", data)
	}
	return len(body), nil
}
