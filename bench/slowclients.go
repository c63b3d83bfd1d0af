package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// slowModes are the ways in which slowhttptest holds up a server.
var slowModes = []struct {
	name, path string
	args       []string
}{
	{name: "nobody"},
	{"slow heads", "/", []string{"-H"}},
	{"slow bodies", "/", []string{"-B", "-s", "100000"}},
	{"many ranges", "/large", []string{"-R", "-a", "10", "-b", "3000"}},
	{"slow readers", "/large", []string{"-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32"}},
}

const (
	slowAttackers = 1000 // connections
	slowNormal    = 8    // clients that are as usual
	slowPatience  = 5 * time.Second
	slowSpan      = 3 * time.Second
)

var slowClientsExperiment = experiment{
	name: "slow-clients",
	doc:  "normal clients beside the slow clients of slowhttptest",
	prepare: func(r *run, e *experiment) error {
		tool, err := r.find("slowhttptest")
		if err != nil {
			return err
		}
		launchers, err := r.caseServers()
		launchers = slices.DeleteFunc(launchers, func(l launcher) bool { return l.system == "knot-net-http" })
		e.parts = []part{{
			points: pointsAt("", 0, 1, 2, 3, 4),
			called: func(system string, p point) string { return system + ", " + slowModes[int(p.x)].name },
			once:   true,
			systems: func(r *run) []contender {
				return slower(slowSpan+serverOverhead, starting(launchers, func(ctx context.Context, s *server, p point, _ time.Duration) ([]sample, error) {
					return r.slowSample(ctx, tool, s, p)
				}))
			},
		}}
		return err
	},
	after: func(r *run) error {
		rows := report.Report{Rows: r.samples.Rows()}
		for x, mode := range slowModes {
			if row, ok := rows.Find("knot", "refused", float64(x)); ok && row.Max > 0 {
				r.fail("knot", "knot, "+mode.name, fmt.Errorf("%.0f requests of normal clients were refused; want none", row.Max))
			}
		}
		return nil
	},
	notes: []string{
		fmt.Sprintf("x: 0 nobody attacks, 1 slow heads (-H), 2 slow bodies (-B), 3 many ranges (-R), 4 slow readers (-X); %d connections for %.0f s", slowAttackers, slowSpan.Seconds()),
		fmt.Sprintf("%d normal clients ask every 5 ms, every second time on a new connection; attackers and normal clients share core %d", slowNormal, clientCore),
		"all have the limits that they have by themselves, but for the connections of nginx (19,900)",
	},
	charts: []report.Chart{{Title: "p99 of normal clients", Metric: "p99", XLabel: "attack", Bars: true}},
}

// slowSample has normal clients ask a server of its own beside an attack: what one has left does not count for the next.
func (r *run) slowSample(ctx context.Context, tool string, s *server, p point) ([]sample, error) {
	var attacker *proc.Child
	if m := slowModes[int(p.x)]; m.args != nil {
		args := append([]string{"-u", "http://" + s.addr + m.path, "-c", strconv.Itoa(slowAttackers), "-r", strconv.Itoa(slowAttackers / 2), "-i", "1",
			"-l", fmt.Sprint(slowSpan.Seconds()), "-v", "0"}, m.args...)
		var err error
		if attacker, err = proc.Start(proc.Command{Path: tool, Args: args, Core: clientCore}); err != nil {
			return nil, err
		}
		defer attacker.Close() // it may wait for connections that the server does not let go
	}
	began := time.Now()
	kept := people.Group{Count: slowNormal / 2, Path: "/file", Repeat: true, Pause: 5 * time.Millisecond, Back: 5 * time.Millisecond, Patience: slowPatience}
	fresh := kept
	fresh.Fresh = true
	normal := people.Config{Addr: s.addr, Groups: []people.Group{kept, fresh}, For: slowSpan, Drain: slowPatience}
	seen, err := r.runLoad(ctx, clientSpec{People: &normal, Within: latencyTarget}, slowSpan+slowPatience, func(ctx context.Context, ended <-chan struct{}) error {
		if attacker == nil {
			return nil
		}
		select {
		case <-ended:
		case <-attacker.Ended():
			if time.Since(began) < slowSpan/2 {
				return fmt.Errorf("slowhttptest ended early: %w", attacker.Wait(ctx))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := seen.All
	if all.Served == 0 {
		return nil, fmt.Errorf("none of %d requests was served", all.Due)
	}
	return []sample{
		{"p99", "ms", p.x, milliseconds(all.P99)}, {"p50", "ms", p.x, milliseconds(all.P50)}, {"served", "1/s", p.x, seen.rate(all.Served)},
		{"refused", "1", p.x, float64(all.Refused)}, {"failed", "1", p.x, float64(all.Failed + all.TimedOut)},
	}, nil
}

// fetch makes a request and copies the whole answer.
func fetch(ctx context.Context, client *http.Client, method, url string, body io.Reader, to io.Writer) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(to, resp.Body)
	return resp.StatusCode, err
}
