package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	soakClients = 24
	// soakLooks is how often a soak looks at its server.
	soakLooks = 60
)

// A soaked is a server under a soak: command knot with files and a proxy, and the requests of its clients.
type soaked struct {
	child       *proc.Child
	addr, admin string
	requests    atomic.Int64
	failed      atomic.Int64
	first       atomic.Pointer[error] // error of the first failed request
}

// soakExperiment loads command knot for a long time, with files, a proxy, uploads, clients that leave, and reloads of the
// configuration, and fails if a request does, or if memory, descriptors or goroutines grow.
var soakExperiment = experiment{
	name: "soak",
	doc:  "command knot under a mixed load for -for, whose memory, descriptors and goroutines must stay flat",
	after: func(r *run) error {
		length := cmp.Or(r.length, choose(r.quick, 25*time.Second, 4*time.Minute))
		return r.prepare(length, func() error { return r.soak(length) })
	},
}

func (r *run) soak(length time.Duration) error {
	backend, err := startCommand(r.ctx, "backend", proc.Command{Path: r.self, Core: proc.AnyCore, Args: []string{workerCommand, "knot"}})
	if err != nil {
		return err
	}
	defer backend.child.Close()
	s, err := r.startSoaked(backend.addr)
	if err != nil {
		return err
	}
	defer s.child.Close()
	ctx, cancel := context.WithTimeout(r.ctx, length)
	defer cancel()
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() { s.client(ctx, i) })
	}
	looks, err := s.watch(ctx, length/soakLooks)
	cancel()
	clients.Wait()
	if err == nil {
		err = r.ctx.Err()
	}
	if err != nil {
		return err
	}
	for i, look := range looks {
		for name, value := range look {
			if err := r.samples.Add("knot", name, soakUnits[name], float64(i+1)*100/soakLooks, value); err != nil {
				return err
			}
		}
	}
	r.note("x is the share of %v that has passed, in %%; %d requests, %d failed", length, s.requests.Load(), s.failed.Load())
	r.charts = []report.Chart{{Title: "Resident memory of knot", Metric: "resident", XLabel: "time, %"}, {Title: "Open descriptors", Metric: "descriptors", XLabel: "time, %"}}
	if first := s.first.Load(); first != nil {
		r.failed = fmt.Errorf("%d of %d requests have failed; the first: %w", s.failed.Load(), s.requests.Load(), *first)
	}
	r.failed = errors.Join(r.failed, flat(looks))
	stop, end := context.WithTimeout(r.ctx, serverStart)
	defer end()
	s.child.Signal(syscall.SIGTERM)
	if err := s.child.Wait(stop); err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("after SIGTERM: %w", err))
	}
	return nil
}

// soakUnits are what is looked at.
var soakUnits = map[string]string{"resident": "MB", "descriptors": "1", "goroutines": "1", "connections": "1"}

// soakSlack is how much more than 15 % each may grow, in its unit: two looks differ by as much by chance.
var soakSlack = map[string]float64{"resident": 12, "descriptors": 24, "goroutines": 24, "connections": 24}

// flat is an error if something has grown from the second quarter of the looks to the last.
func flat(looks []map[string]float64) error {
	if len(looks) < 8 {
		return fmt.Errorf("only %d looks at the server", len(looks))
	}
	median := func(part []map[string]float64, name string) float64 {
		var all []float64
		for _, look := range part {
			all = append(all, look[name])
		}
		return report.Median(all)
	}
	var errs []error
	n := len(looks)
	for name := range soakUnits {
		before, after := median(looks[n/4:n/2], name), median(looks[3*n/4:], name)
		if after > 1.15*before+soakSlack[name] {
			errs = append(errs, fmt.Errorf("%s have grown from %.0f to %.0f %s", name, before, after, soakUnits[name]))
		}
	}
	return errors.Join(errs...)
}

// startSoaked builds and starts command knot.
func (r *run) startSoaked(backend string) (*soaked, error) {
	path, err := r.buildCommand("cmd/knot")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(r.scratch, "site")
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := writeAll(root, map[string][]byte{"small.txt": text[:1<<10], "middle.css": text[:64<<10], "large.bin": text}); err != nil {
		return nil, err
	}
	config := filepath.Join(r.scratch, "knot.toml")
	settings := fmt.Sprintf("addr = '127.0.0.1:0'\nadmin = '127.0.0.1:0'\nlog = %q\n[[site]]\nroot = %q\n[[site.proxy]]\nmatch = '/app/**'\nto = ['http://%s']\ncheck = { every = '1s' }\n",
		filepath.Join(r.scratch, "access.log"), root, backend)
	if err := os.WriteFile(config, []byte(settings), 0o666); err != nil {
		return nil, err
	}
	child, err := proc.Start(proc.Command{Path: path, Args: []string{"-config", config}, Core: proc.AnyCore})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, serverStart)
	defer cancel()
	s := &soaked{child: child}
	for s.addr == "" || s.admin == "" {
		line, err := child.Line(ctx)
		if err != nil {
			child.Close()
			return nil, err
		}
		if _, at, ok := strings.Cut(line, " on http://"); ok && strings.HasPrefix(line, "serving ") {
			s.addr = at
		} else if ok {
			s.admin = at
		}
	}
	return s, nil
}

// watch looks at the server, and has it read its configuration again now and then.
func (s *soaked) watch(ctx context.Context, every time.Duration) (looks []map[string]float64, err error) {
	tick := time.NewTicker(max(every, time.Millisecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return looks, nil
		case <-s.child.Ended():
			return looks, errors.Join(errors.New("knot has ended"), s.child.Wait(context.Background()))
		case <-tick.C:
		}
		look, err := s.look()
		if err != nil {
			return looks, err
		}
		if looks = append(looks, look); i%6 == 5 {
			s.child.Signal(syscall.SIGHUP)
		}
	}
}

// look asks the admin address.
func (s *soaked) look() (map[string]float64, error) {
	client := http.Client{Timeout: serverStart}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + s.admin + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	names := map[string]string{"process_resident_memory_bytes": "resident", "process_open_fds": "descriptors", "go_goroutines": "goroutines", "knot_connections": "connections"}
	look := make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if as := names[name]; as != "" {
			if look[as], err = strconv.ParseFloat(value, 64); err != nil {
				return nil, err
			}
		}
	}
	look["resident"] /= 1 << 20
	if len(look) != len(names) {
		return nil, fmt.Errorf("of %v the server tells only %v", names, look)
	}
	return look, nil
}

// client asks until ctx ends: on kept connections and new ones, for files and for what the backend answers; one in
// eight leaves in the middle of a request or a response.
func (s *soaked) client(ctx context.Context, i int) {
	transport := &http.Transport{DisableKeepAlives: i%4 == 0}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: serverStart}
	dice := rand.New(rand.NewPCG(uint64(i), 1))
	for ctx.Err() == nil {
		if i%8 == 7 {
			s.leave(dice)
			continue
		}
		if err := s.ask(ctx, &client, dice); err != nil && ctx.Err() == nil {
			s.failed.Add(1)
			s.first.CompareAndSwap(nil, &err)
		}
		s.requests.Add(1)
	}
}

var soakTargets = []struct {
	method, path string
	status       int
}{
	{"GET", "/small.txt", 200}, {"GET", "/middle.css", 200}, {"HEAD", "/large.bin", 200}, {"GET", "/large.bin", 200}, {"GET", "/none", 404},
	{"GET", "/app/x", 200}, {"POST", "/app/upload", 200}, {"GET", "/app/y?z", 200},
}

func (s *soaked) ask(ctx context.Context, client *http.Client, dice *rand.Rand) error {
	t := soakTargets[dice.IntN(len(soakTargets))]
	var body io.Reader
	if t.method == "POST" {
		body = strings.NewReader(strings.Repeat("x", dice.IntN(200_000)))
	}
	status, err := fetch(ctx, client, t.method, "http://"+s.addr+t.path, body, io.Discard)
	if err == nil && status != t.status && status != http.StatusServiceUnavailable { // overload is no failure
		err = fmt.Errorf("status %d, want %d", status, t.status)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", t.method, t.path, err)
	}
	return nil
}

// leave is a client that closes its connection in the middle.
func (s *soaked) leave(dice *rand.Rand) {
	c, err := net.DialTimeout("tcp", s.addr, serverStart)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	text := "GET " + soakTargets[dice.IntN(len(soakTargets))].path + " HTTP/1.1\r\nHost: soak\r\n\r\n"
	io.WriteString(c, text[:1+dice.IntN(len(text))])
	if dice.IntN(2) == 0 {
		io.ReadFull(c, make([]byte, 1+dice.IntN(100)))
	}
}
