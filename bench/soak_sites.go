package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	// soakUpgrades is how often a soak of sites replaces the process. Between two upgrades there are enough looks to
	// tell whether anything grows.
	soakUpgrades = 3
	// soakReload is the time between two changes of the configuration.
	soakReload = time.Second
	// In an hour there is an overload every five minutes, for 20 s.
	soakOverloads    = 12
	overloadShare    = 15 // an overload lasts a fifteenth of the time from one to the next
	overloadingConns = 2000
)

// sitesSoakExperiment loads command knot with every feature of its sites on, changes the configuration each second, replaces
// the process now and then, and fails if a response is wrong, or if memory, descriptors or goroutines grow.
var sitesSoakExperiment = experiment{
	name: "sites-soak",
	doc:  "command knot with all features of sites for -for, a changed configuration each second, and upgrades; each response is checked",
	after: func(r *run) error {
		length := cmp.Or(r.length, choose(r.quick, 30*time.Second, 10*time.Minute))
		return r.prepare(length, func() error { return r.soakSites(length) })
	},
}

// sitesSoak is a knot under a soak of sites.
type sitesSoak struct {
	soaked
	plain, tls, proxied string // addresses
	folder              string
	backends            [3]string // two of the sites, one of copies
	spare               string    // an address that every other configuration has
	group               int       // of processes
	pid                 atomic.Int64
	off                 string // file that takes a site out of service
	refused             atomic.Int64
	reloads, upgrades   int
	overloads           []load.Tally
	overloaded          atomic.Int64 // how many there were, with the present one
	overloadsBefore     []int64      // those before each look
	counts              sync.Map     // case → *atomic.Int64
	progress            io.Writer
}

func (r *run) soakSites(length time.Duration) error {
	s, err := r.startSites()
	if err != nil {
		return err
	}
	defer s.child.Close()
	defer s.kill()
	ctx, cancel := context.WithTimeout(r.ctx, length)
	defer cancel()
	var clients sync.WaitGroup
	for i, client := range s.clients() {
		clients.Go(func() { s.repeat(ctx, i, client) })
	}
	var overloaded error
	clients.Go(func() { overloaded = r.overloadSites(ctx, s, length/soakOverloads) })
	processes, err := s.watchSites(ctx, length)
	cancel()
	clients.Wait()
	if err = errors.Join(err, r.ctx.Err(), overloaded); err != nil {
		return err
	}
	if err := errors.Join(r.reportSites(s, processes, length), s.endSites()); err != nil || r.failed == nil {
		return err
	}
	text, err := os.ReadFile(s.errors())
	return errors.Join(err, os.WriteFile(filepath.Join(r.folder, "sites-soak.log"), text, 0o666))
}

// overloadSites has impatient clients ask for more than the server can do, once in each time of that length.
func (r *run) overloadSites(ctx context.Context, s *sitesSoak, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	ask := func(host, path string) load.Share {
		return load.Share{Request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host), Weight: 1}
	}
	addr, err := netip.ParseAddrPort(s.plain)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.overloaded.Add(1)
		seen, err := r.runLoad(ctx, clientSpec{Closed: &load.ClosedConfig{
			Target: load.Target{Addr: addr, Core: clientCore}, Clients: overloadingConns, For: every / overloadShare,
			Mix: []load.Share{ask("app.test", "/api/x?size=3000"), ask("kept.test", "/own/1"), ask("files.test", "/style.css")},
		}}, every, nil)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("overload: %w", err)
		}
		s.overloads = append(s.overloads, seen.All)
	}
}

// reportSites writes down what was seen of each of the processes, and checks that nothing has grown in the life of one.
func (r *run) reportSites(s *sitesSoak, processes [][]map[string]float64, length time.Duration) error {
	seen := 0
	for i, looks := range processes {
		first := seen
		for _, look := range looks {
			seen++
			for name, value := range look {
				if err := r.samples.Add("knot", name, soakUnits[name], float64(seen)*100/soakLooks, value); err != nil {
					return err
				}
			}
		}
		if len(looks) >= 8 {
			if err := flat(betweenOverloads(looks, s.overloadsBefore[first:])); err != nil {
				r.failed = errors.Join(r.failed, fmt.Errorf("process %d: %w", i+1, err))
			}
		}
	}
	r.note("x is the share of %v that has passed, in %%; %d requests, %d wrong or failed, %d refused with 503 as the server was overloaded; %d changes of the configuration, %d upgrades",
		length, s.requests.Load(), s.failed.Load(), s.refused.Load(), s.reloads, s.upgrades)
	r.note("requests by case: %s", s.countsText())
	var during load.Tally
	for _, one := range s.overloads {
		during.Served, during.Refused, during.Failed, during.TimedOut = during.Served+one.Served, during.Refused+one.Refused, during.Failed+one.Failed, during.TimedOut+one.TimedOut
	}
	r.note("%d overloads by %d clients that ask again at once: %d of their requests answered, %d refused, %d failed", len(s.overloads), overloadingConns, during.Served, during.Refused, during.Failed+during.TimedOut)
	errs, faults := s.logged()
	r.note("lines of level ERROR in the log of knot: %d", errs)
	r.charts = []report.Chart{{Title: "Resident memory of knot", Metric: "resident", XLabel: "time, %"}, {Title: "Open descriptors", Metric: "descriptors", XLabel: "time, %"}}
	if first := s.first.Load(); first != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("%d of %d requests have failed; the first: %w", s.failed.Load(), s.requests.Load(), *first))
	}
	if errs > 0 {
		r.failed = errors.Join(r.failed, fmt.Errorf("knot has logged %d errors; the first: %s", errs, faults))
	}
	return nil
}

// betweenOverloads returns looks in which the goroutines do not grow with an overload: a loop keeps up to 4096 goroutines of tasks that
// have finished for the next ones. before[i] is how many overloads had begun at look i; the last may still be under way.
func betweenOverloads(looks []map[string]float64, before []int64) (adjusted []map[string]float64) {
	kept := 0.0
	for i, look := range looks {
		if i > 0 && before[i] != before[max(i-2, 0)] {
			kept += look["goroutines"] - looks[i-1]["goroutines"]
		}
		look = maps.Clone(look)
		look["goroutines"] -= kept
		adjusted = append(adjusted, look)
	}
	return adjusted
}

// errors is the path of the log of knot.
func (s *sitesSoak) errors() string { return filepath.Join(s.folder, "error.log") }

// logged counts the errors that knot has logged.
func (s *sitesSoak) logged() (count int, first string) {
	text, err := os.ReadFile(s.errors())
	if err != nil {
		return 1, err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "panic") {
			if count++; first == "" {
				first = strings.TrimSpace(line)
			}
		}
	}
	return count, first
}

// startSites builds and starts command knot and its backends.
func (r *run) startSites() (*sitesSoak, error) {
	path, err := r.buildCommand("cmd/knot")
	if err != nil {
		return nil, err
	}
	s := &sitesSoak{folder: r.scratch, progress: r.progress, off: filepath.Join(r.scratch, "off")}
	for i := range s.backends {
		backend, err := startCommand(r.ctx, "backend", proc.Command{Path: r.self, Core: proc.AnyCore, Args: []string{workerCommand, "soak-backend", "-name", fmt.Sprint(i + 1)}})
		if err != nil {
			return nil, err
		}
		r.ends = append(r.ends, backend.close)
		s.backends[i] = backend.addr
	}
	if err := s.writeFolder(); err != nil {
		return nil, err
	}
	for _, addr := range []*string{&s.plain, &s.tls, &s.proxied, &s.admin, &s.spare} {
		if *addr, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	if err := s.configure(0); err != nil {
		return nil, err
	}
	// Successors are children of their predecessors, which end: their ends are told to this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become the parent of successors: %w", err)
	}
	script := fmt.Sprintf(`exec %q -config knot.toml 2>>error.log`, path)
	if s.child, err = proc.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", "cd " + s.folder + " && " + script}, Core: proc.AnyCore}); err != nil {
		return nil, err
	}
	s.group = s.child.PID()
	s.pid.Store(int64(s.group))
	ctx, cancel := context.WithTimeout(r.ctx, serverStart)
	defer cancel()
	_, plain := accepting("tcp", s.plain)(ctx, s.child)
	_, secure := accepting("tcp", s.tls)(ctx, s.child)
	if err := errors.Join(plain, secure); err != nil {
		said, _ := os.ReadFile(s.errors())
		s.child.Close()
		return nil, fmt.Errorf("%w: %.2000s", err, said)
	}
	return s, nil
}

// freeAddress is an address of loopback that nothing listens on.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// watchSites looks at the server, and changes its configuration, until ctx ends; the looks are apart for each process.
func (s *sitesSoak) watchSites(ctx context.Context, length time.Duration) (processes [][]map[string]float64, err error) {
	tick, look := time.NewTicker(soakReload), time.NewTicker(length/soakLooks)
	defer tick.Stop()
	defer look.Stop()
	upgrade := time.NewTicker(length / (soakUpgrades + 1))
	defer upgrade.Stop()
	var looks []map[string]float64
	for {
		select {
		case <-ctx.Done():
			return append(processes, looks), nil
		case <-tick.C:
			s.reloads++
			if err := errors.Join(s.configure(s.reloads), s.toggle()); err != nil {
				return nil, err
			}
			if err := syscall.Kill(int(s.pid.Load()), syscall.SIGHUP); err != nil {
				return nil, fmt.Errorf("knot has ended: %w", err)
			}
		case <-look.C:
			seen, err := s.look()
			if err != nil {
				return nil, err
			}
			looks = append(looks, seen)
			s.overloadsBefore = append(s.overloadsBefore, s.overloaded.Load())
		case <-upgrade.C:
			if err := s.upgrade(ctx); err != nil {
				return nil, err
			}
			processes, looks = append(processes, looks), nil
		}
	}
}

// toggle takes a site out of service, or brings it back.
func (s *sitesSoak) toggle() error {
	if s.reloads%10 < 5 {
		return os.WriteFile(s.off, nil, 0o666)
	}
	if err := os.Remove(s.off); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// upgrade replaces the process, and waits until the new one has taken over.
func (s *sitesSoak) upgrade(ctx context.Context) error {
	before := int(s.pid.Load())
	if err := syscall.Kill(before, syscall.SIGUSR1); err != nil {
		return fmt.Errorf("knot has ended: %w", err)
	}
	const handed = `handed over; the requests under way are answered here" pid=`
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < serverStart; {
		text, err := os.ReadFile(s.errors())
		if err != nil {
			return err
		}
		if said := strings.Split(string(text), handed); len(said) == s.upgrades+2 {
			var pid int64
			if _, err := fmt.Sscan(said[len(said)-1], &pid); err != nil {
				return err
			}
			s.pid.Store(pid)
			s.upgrades++
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	_, said := s.logged()
	return fmt.Errorf("the process was not replaced within %v: %s", serverStart, said)
}

// kill ends the last process, if it has not ended yet, and no successor of the child would be left.
func (s *sitesSoak) kill() {
	if pid := int(s.pid.Load()); pid != s.group {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// endSites stops the last process, and checks its end and those before it.
func (s *sitesSoak) endSites() error {
	pid := int(s.pid.Load())
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("knot has ended: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), serverStart)
	defer cancel()
	if err := s.child.Wait(ctx); err != nil || pid == s.group {
		return err
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	state, err := process.Wait()
	s.pid.Store(int64(s.group))
	if err == nil && !state.Success() {
		err = fmt.Errorf("after SIGTERM: %v", state)
	}
	return err
}
