package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

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
)

// runSlowClients has slowhttptest attack each server while other clients go on as usual, and returns what became of their requests.
func runSlowClients(r *run) error {
	tool, err := r.find("slowhttptest")
	if err != nil {
		return err
	}
	launchers, err := r.caseServers()
	if err != nil {
		return err
	}
	length, rounds := 3, r.rounds()
	if r.quick && r.asked == 0 {
		rounds = 1
	}
	for round := range rounds {
		for x, mode := range slowModes {
			for _, l := range launchers {
				if l.system == "knot-net-http" || !r.wants(l.system) {
					continue
				}
				name := fmt.Sprintf("%s, %s", l.system, mode.name)
				r.try(l.system, name, fmt.Sprint(name, " round ", round), time.Duration(length)*time.Second+serverOverhead, func() ([]sample, error) {
					return r.slowSample(tool, l, x, length)
				})
			}
		}
	}
	rows := report.Report{Rows: r.samples.Rows()}
	for x, mode := range slowModes {
		if row, ok := rows.Find("knot", "refused", float64(x)); ok && row.Max > 0 {
			r.fail("knot", "knot, "+mode.name, fmt.Errorf("%.0f requests of normal clients were refused; want none", row.Max))
		}
	}
	r.note("x: 0 nobody attacks, 1 slow heads (-H), 2 slow bodies (-B), 3 many ranges (-R), 4 slow readers (-X); %d connections for %d s", slowAttackers, length)
	r.note("%d normal clients ask every 5 ms, every second time on a new connection; attackers and normal clients share core %d", slowNormal, clientCore)
	r.note("all have the limits that they have by themselves, but for the connections of nginx (19,900)")
	r.charts = []report.Chart{{Title: "p99 of normal clients", Metric: "p99", XLabel: "attack", Bars: true}}
	return nil
}

// slowSample has normal clients ask a server of its own beside an attack: what one has left does not count for the next.
func (r *run) slowSample(tool string, l launcher, mode, length int) ([]sample, error) {
	s, err := l.start(r.ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	latencies, refused, failed, err := r.besideSlow(tool, s, mode, length)
	if err != nil {
		return nil, err
	}
	slices.Sort(latencies)
	if len(latencies) == 0 {
		return nil, fmt.Errorf("none of %d requests was served", refused+failed)
	}
	x := float64(mode)
	at := func(q float64) float64 { return latencies[int(q*float64(len(latencies)-1))].Seconds() * 1e3 }
	return []sample{
		{metric: "p99", unit: "ms", x: x, value: at(0.99)}, {metric: "p50", unit: "ms", x: x, value: at(0.5)},
		{metric: "served", unit: "1/s", x: x, value: float64(len(latencies)) / float64(length)},
		{metric: "refused", unit: "1", x: x, value: float64(refused)},
		{metric: "failed", unit: "1", x: x, value: float64(failed)},
	}, nil
}

// besideSlow lets normal clients ask for some seconds beside the attack of that mode, if it is one, and returns
// what became of their requests.
func (r *run) besideSlow(tool string, s *server, mode, seconds int) (latencies []time.Duration, refused, failed int, err error) {
	span := time.Duration(seconds) * time.Second
	ctx, cancel := context.WithTimeout(r.ctx, span+serverStart)
	defer cancel()
	var attacker *proc.Child
	if m := slowModes[mode]; m.args != nil {
		args := append([]string{"-u", "http://" + s.addr + m.path, "-c", strconv.Itoa(slowAttackers), "-r", strconv.Itoa(slowAttackers / 2), "-i", "1", "-l", strconv.Itoa(seconds), "-v", "0"}, m.args...)
		if attacker, err = proc.Start(proc.Command{Path: tool, Args: args, Core: clientCore}); err != nil {
			return nil, 0, 0, err
		}
		defer attacker.Close() // it may wait for connections that the server does not let go
	}
	began := time.Now()
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range slowNormal {
		clients.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := http.Client{Transport: transport, Timeout: 5 * time.Second}
			for i := 0; time.Since(began) < span && ctx.Err() == nil; i++ {
				if i%2 == 0 {
					transport.CloseIdleConnections()
				}
				sent := time.Now()
				status, err := fetch(ctx, &client, http.MethodGet, "http://"+s.addr+"/file", nil, io.Discard)
				took := time.Since(sent)
				mu.Lock()
				switch {
				case err == nil && status == http.StatusOK:
					latencies = append(latencies, took)
				case err == nil && status == http.StatusServiceUnavailable:
					refused++
				default:
					failed++
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	clients.Wait()
	if attacker != nil {
		select {
		case <-attacker.Ended():
			if time.Since(began) < span/2 {
				return nil, 0, 0, fmt.Errorf("slowhttptest ended early: %w", attacker.Wait(ctx))
			}
		default:
		}
	}
	return latencies, refused, failed, r.ctx.Err()
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
