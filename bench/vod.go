package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// vodShape is what a run of vod does. In the paper a client gets a minute of film at once, then 5 s at a time.
// Shorter chunks do as well: whether a client starves shows after some chunks of any length.
type vodShape struct {
	rates        []float64     // Mbit/s
	first, chunk time.Duration // of the film
	trial        time.Duration // how long clients are watched for starving
	film         int64         // bytes
	begin, most  int           // clients at which the search begins, and of which it tries no more
	exact        int           // the search ends at a 1/exact of the clients
}

var (
	vodFull  = vodShape{[]float64{1, 6, 18}, time.Second, 250 * time.Millisecond, 2500 * time.Millisecond, 1 << 30, 128, 8000, 10}
	vodQuick = vodShape{[]float64{6}, time.Second, 500 * time.Millisecond, 2 * time.Second, 256 << 20, 128, 4000, 20}
)

// vodExperiment finds how many players of a film a server can serve so that none ever runs out of
// film (Aspen, Figures 10 and 11).
var vodExperiment = experiment{
	name: "vod",
	doc:  "the most players of films, none of which runs out of film (Aspen, Figures 10 and 11)",
	prepare: func(r *run, e *experiment) error {
		shape := choose(r.quick, vodQuick, vodFull)
		film := filepath.Join(r.scratch, "film")
		if err := r.prepare(writing(shape.film), func() error { return writeBlocks(r.ctx, film, shape.film) }); err != nil {
			return err
		}
		path, err := r.buildCommand("examples/vod")
		if err != nil {
			return err
		}
		e.parts = []part{searching(shape.rates, shape.trial*3/2+time.Second, func() []launcher {
			return append([]launcher{{system: "capriccio-flow"}, {system: "capriccio"}, {system: "goroutine"}}, r.nginx("nginx", nil)...)
		}, func(l launcher, rate float64) ([]sample, error) {
			return r.mostPlayers(l.system, path, film, rate, shape)
		})}
		e.notes = []string{
			fmt.Sprintf("clients: the most that played for %v without one running out of film, found by bisection to %d %%, two trials to fail; %v of film at once, then %v at a time; x: Mbit/s",
				shape.trial, 100/shape.exact, shape.first, shape.chunk),
			fmt.Sprintf("one film of %d MB, each client from a place of its own; all read past the page cache; at most %d clients were tried", shape.film/1e6, shape.most),
			fmt.Sprintf("capriccio-flow, capriccio, goroutine: examples/vod; nginx: limit_rate, 10 %% above the rate; server on core %d, players on core %d", serverCore, clientCore),
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Players without interruption", Metric: "clients", XLabel: "Mbit/s", Bars: true},
		{Title: "CPU per player on the server", Metric: "cpu-per-client", XLabel: "Mbit/s", Bars: true},
	},
}

// vodServer serves a film at a rate.
func (r *run) vodServer(system, path, film string, rate float64, shape vodShape) launcher {
	if system == "nginx" {
		bytes := rate * 1e6 / 8
		// A tenth more than is played: it counts in whole seconds.
		return r.nginx(system, nginxFiles(filepath.Dir(film), fmt.Sprintf("aio threads; directio 512; limit_rate_after %d; limit_rate %d;",
			int64(bytes*shape.first.Seconds()), int64(bytes*1.1))).config)[0]
	}
	by := map[string]string{"capriccio-flow": "flow", "capriccio": "task", "goroutine": "goroutine"}[system]
	return programServer(system, nil, path, flagPairs("addr", "127.0.0.1:0", "by", by, "film", film, "rate", rate, "first", shape.first, "chunk", shape.chunk)...)
}

// mostPlayers finds the most players that one server can serve.
func (r *run) mostPlayers(system, path, film string, rate float64, shape vodShape) ([]sample, error) {
	server := r.vodServer(system, path, film, rate, shape)
	trial := func(n int) ([]sample, error) {
		s, err := server.start(r.ctx, needs{})
		if err != nil {
			return nil, err
		}
		defer s.child.Close()
		samples, err := r.client(r.ctx, shape.trial, s, "players", []any{"path", choose(system == "nginx", "/film", ""), "clients", n,
			"rate", rate, "first", shape.first, "for", shape.trial, "film", shape.film})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(r.progress, "%s at %v Mbit/s: %d players, %.0f starved\n", system, rate, n, samples[0].value)
		if samples[0].value > 0 {
			return nil, nil
		}
		return samples[1:], nil
	}
	return r.mostOf(system, point{metric: "clients", x: rate}, shape.begin, shape.most, shape.exact, func(n int) ([]sample, error) {
		// A machine that does something else for a moment has players starve, too.
		samples, err := trial(n)
		if err == nil && samples == nil {
			samples, err = trial(n)
		}
		return samples, err
	})
}

// searching is a part that has most find the most that each server can do at each x, by trials that take so long.
func searching(xs []float64, trial time.Duration, servers func() []launcher, most func(l launcher, x float64) ([]sample, error)) part {
	return part{
		points: pointsAt("", xs...),
		once:   true,
		called: func(system string, p point) string { return fmt.Sprintf("%s at %v", system, p.x) },
		systems: func(r *run) (all []contender) {
			for _, l := range servers() {
				all = append(all, contender{system: l.system, sample: func(_ context.Context, p point, _ time.Duration) ([]sample, error) { return most(l, p.x) },
					takes: func(point, time.Duration) time.Duration { return choose(r.quick, 6*trial, 15*trial/4) }})
			}
			return all
		},
	}
}

// mostOf finds the largest number, from 1 to most, that a trial has samples of, and the samples. It begins, after the
// first round, with the median of the rounds before, and in the first with that of another system.
func (r *run) mostOf(system string, p point, first, most, exact int, trial func(n int) ([]sample, error)) ([]sample, error) {
	factor, rows := 2.0, report.Report{Rows: r.samples.Rows()}
	for _, other := range append(r.offered, system) {
		if before, ok := rows.Find(other, p.metric, p.x); ok && before.Value >= 1 {
			first, factor = int(before.Value), choose(other == system, 1.1, 1.5)
		}
	}
	var best []sample
	found, err := bisect(first, most, exact, factor, func(n int) (bool, error) {
		if err := context.Cause(r.ctx); err != nil {
			return false, err
		}
		samples, err := trial(n)
		if samples != nil {
			best = samples
		}
		return samples != nil, err
	})
	return append(best, sample{p.metric, "1", p.x, float64(found)}), err
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

// responders is how many processes make pages, as the paper has PHP's.
const responders = 2

// supportShape is what a run of web-support does.
type supportShape struct {
	alphas   []float64 // popularity of a folder: 1 / rank^alpha
	folders  int
	limit    int64         // bytes of memory for server and pages
	trial    time.Duration // its first third is not measured
	patience time.Duration // that the 99th percentile has to keep
	begin    int           // sessions tried first
	most     int
	exact    int // the search ends at a 1/exact of the sessions
}

// SPECweb2005's patience is 4 s (TIME_TOLERABLE). As sessions think for 1 s, a server that keeps 1 s differs by some
// percent of its sessions from one that keeps 4 s, and shows it in trials of seconds.
var (
	supportFull  = supportShape{[]float64{0.4, 1.2, 2}, coldFolders, coldLimit, 5 * time.Second, time.Second, 500, 8000, 10}
	supportQuick = supportShape{[]float64{1.2}, 64, 100_000_000, 1500 * time.Millisecond, 500 * time.Millisecond, 500, 4000, 20}
)

// webSupportExperiment finds how many sessions of a site with dynamic pages a server can serve in time (Aspen, Figure 7).
var webSupportExperiment = experiment{
	name: "web-support",
	doc:  "the most sessions of a site with files and FastCGI that are served in time (Aspen, Figure 7)",
	prepare: func(r *run, e *experiment) error {
		shape := choose(r.quick, supportQuick, supportFull)
		c, err := newCold(r, "web-support", newWebTree(shape.folders), shape.limit)
		if c == nil {
			return err
		}
		var pages []string
		for range responders {
			s, err := r.startBeside("responder", onCore(serverCore, nil, r.self, workerCommand, "fcgi"))
			if err != nil {
				return err
			}
			r.ends = append(r.ends, s.close)
			pages = append(pages, s.addr)
		}
		e.parts = []part{searching(shape.alphas, shape.trial+time.Second, func() []launcher { return c.supportServers(pages) },
			func(l launcher, alpha float64) ([]sample, error) { return c.mostSessions(l, alpha, shape) })}
		e.notes = []string{
			fmt.Sprintf("sessions: the most of which 99 %% of the requests are answered within %v, found by bisection to %d %%; x: exponent of Zipf's law for the folders (SPECweb2005: 1.2)", shape.patience, 100/shape.exact),
			fmt.Sprintf("a session fetches a page made by FastCGI (12 KB, for which 2 MB are hashed), five files of %d MB in all, then thinks for 1 s on average; server and its pages may have %d MB", c.tree.bytes()/1e6, shape.limit/1e6),
			fmt.Sprintf("%d responders of net/http/fcgi, server and responders on core %d, clients on core %d; cpu-per-request is the server's alone", responders, serverCore, clientCore),
			"unlike SPECweb2005 the order of a session's pages is left to chance, sizes are SPECweb99's, and lines are not slow; Apache is not measured",
		}
		return nil
	},
	charts: []report.Chart{
		{Title: "Sessions served in time", Metric: "sessions", XLabel: "exponent of popularity", Bars: true},
		{Title: "CPU time per request on the server", Metric: "cpu-per-request", XLabel: "exponent of popularity", Bars: true},
	},
}

// supportServers are the servers before the responders.
func (c *cold) supportServers(pages []string) []launcher {
	found := []launcher{c.files("knot", []string{capriccio.EnvGraph + "=on", waitsEnv}, "-kind", "knot", "-fastcgi", strings.Join(pages, ","))}
	found = append(found, c.nginx("nginx", nginxSite{
		http:   "sendfile on;\naio threads;\nupstream pages { server " + strings.Join(pages, "; server ") + "; keepalive 64; keepalive_requests 1000000000; }",
		server: "root " + c.root + ";\n" + nginxPages,
	}.config)...)
	responders := "server.modules = ( \"mod_fastcgi\" )\nfastcgi.server = ( \".php\" => (\n"
	for _, page := range pages {
		host, port, _ := net.SplitHostPort(page)
		responders += fmt.Sprintf("( \"host\" => \"%s\", \"port\" => %s, \"check-local\" => \"disable\" ),\n", host, port)
	}
	return append(found, c.lighttpd(c.root, responders+") )\n")...)
}

// nginxPages are pages by FastCGI.
const nginxPages = `location ~ \.php$ {
	fastcgi_pass pages;
	fastcgi_keep_conn on;
	fastcgi_param REQUEST_METHOD $request_method;
	fastcgi_param REQUEST_URI $request_uri;
	fastcgi_param SERVER_PROTOCOL $server_protocol;
	fastcgi_param SCRIPT_NAME $fastcgi_script_name;
	fastcgi_param HTTP_HOST $host;
}`

// mostSessions finds the most sessions that one server can serve in time.
func (c *cold) mostSessions(l launcher, alpha float64, shape supportShape) ([]sample, error) {
	c.more = []any{"support", alpha}
	trials := 0
	return c.mostOf(l.system, point{metric: "sessions", x: alpha}, shape.begin, shape.most, shape.exact, func(n int) ([]sample, error) {
		if err := c.tree.uncache(c.root); err != nil {
			return nil, err
		}
		trials++
		samples, err := c.sample(c.ctx, l, n, 100*c.round+trials, shape.trial)
		if err != nil {
			return nil, err
		}
		p99 := valuesOf(samples)["p99"]
		fmt.Fprintf(c.progress, "%s, popularity %v: %d sessions, 99th percentile %.0f ms\n", l.system, alpha, n, p99)
		if p99 > float64(shape.patience.Milliseconds()) {
			return nil, nil
		}
		return allAt(alpha, samples), nil
	})
}
