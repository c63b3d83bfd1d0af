package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// What the overload experiments share: the systems, each with the same handler; the
// processes that they consist of; and the clients.

// defaultSched is the scheduling policy of the system "capriccio".
const defaultSched = "resource"

// overloaded is a server of an overload experiment. It may be several processes, all on
// the server core.
type overloaded struct {
	*server             // the one that clients talk to
	behind  *proc.Child // the one behind it; may be nil
}

func (s *overloaded) close() {
	s.child.Close()
	if s.behind != nil {
		s.behind.Close()
	}
}

func (s *overloaded) pids() string {
	pids := strconv.Itoa(s.child.PID())
	if s.behind != nil {
		pids += "," + strconv.Itoa(s.behind.PID())
	}
	return pids
}

// overloadSystem starts servers of one system, with flags of runServe and environment
// variables.
type overloadSystem struct {
	name  string
	start func(ctx context.Context, env []string, flags ...string) (*overloaded, error)
}

// overloadSystems are those of the named systems that there are here; the others are
// skipped with the reason.
func (r *run) overloadSystems(names ...string) ([]overloadSystem, error) {
	var found []overloadSystem
	for _, name := range names {
		start, err := r.overloadStarter(name)
		if err == nil && name == "capriccio" {
			// A build without this policy says so when it starts.
			var s *overloaded
			if s, err = start(r.ctx, nil); err == nil {
				s.close()
			} else if !strings.Contains(err.Error(), capriccio.EnvSched) {
				return nil, err
			}
		}
		if err != nil {
			r.skip(name, err)
			continue
		}
		found = append(found, overloadSystem{name, start})
	}
	if r.ctx.Err() != nil {
		return nil, context.Cause(r.ctx)
	}
	if len(found) == 0 {
		return nil, errors.New("no server could be started")
	}
	return found, nil
}

type starter = func(ctx context.Context, env []string, flags ...string) (*overloaded, error)

func (r *run) overloadStarter(name string) (starter, error) {
	own := []string{workerCommand, "overload", "serve", "-kind"}
	switch name {
	case "capriccio":
		return r.serverStarter(name, r.self, []string{capriccio.EnvSched + "=" + defaultSched}, append(own, "capriccio")...), nil
	case "capriccio-fifo":
		return r.serverStarter(name, r.self, []string{capriccio.EnvSched + "=fifo"}, append(own, "capriccio")...), nil
	case "net-http", memlimitSystem:
		return r.serverStarter(name, r.self, nil, append(own, "net-http")...), nil
	case "failsafe-go":
		path, err := r.buildPeer(name)
		return r.serverStarter(name, path, nil), err
	case "nginx":
		path, err := findNginx()
		return r.limitedStarter(path, r.serverStarter(name, r.self, nil, append(own, "net-http")...)), err
	}
	return nil, fmt.Errorf("unknown system %q", name)
}

func (r *run) serverStarter(name, path string, ownEnv []string, ownFlags ...string) starter {
	return func(ctx context.Context, env []string, flags ...string) (*overloaded, error) {
		s, err := startCommand(ctx, name, proc.Command{
			Path: path, Args: slices.Concat(ownFlags, flags), Core: serverCore,
			Env: slices.Concat([]string{"GOMAXPROCS=1"}, ownEnv, env),
		})
		if err != nil {
			return nil, err
		}
		return &overloaded{server: s}, nil
	}
}

// limitedConns is what nginx is told to let through at a time. It is chosen by hand for
// this handler: 32 requests of 1 ms are well below the target of 100 ms.
const limitedConns = 32

const limitedConfig = nginxHead + `	error_log %[1]s/error.log crit;
	limit_conn_zone $server_port zone=all:1m;
	limit_conn_status 503;
	limit_conn_log_level info;
	upstream behind {
		server %[3]s;
		keepalive %[4]d;
	}
	server {
		listen %[2]s backlog=4096 reuseport;
		location / {
			limit_conn all %[4]d;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_pass http://behind;
		}
	}
}
`

// limitedStarter puts nginx with a limit of requests under way before a server.
func (r *run) limitedStarter(path string, behind starter) starter {
	return func(ctx context.Context, env []string, flags ...string) (*overloaded, error) {
		b, err := behind(ctx, env, flags...)
		if err != nil {
			return nil, err
		}
		s, err := startLimited(ctx, path, r.scratch, b.addr)
		if err != nil {
			b.close()
			return nil, err
		}
		return &overloaded{server: s, behind: b.child}, nil
	}
}

func startLimited(ctx context.Context, path, scratch, behind string) (*server, error) {
	return startNginxWith(ctx, path, scratch, func(dir, addr string) string {
		return fmt.Sprintf(limitedConfig, dir, addr, behind, limitedConns)
	})
}

// overloadClient runs a client on the client core to its end, which takes about span,
// and returns the lines that it printed.
func (r *run) overloadClient(ctx context.Context, s *overloaded, span time.Duration, kind string, flags ...string) ([]string, error) {
	ctx, cancel := within(ctx, span+sampleTimeout)
	defer cancel()
	return proc.Output(ctx, r.clientCommand(s, kind, flags...))
}

func (r *run) clientCommand(s *overloaded, kind string, flags ...string) proc.Command {
	return r.ownClient(slices.Concat([]string{"overload", kind, "-addr", s.addr, "-pids", s.pids()}, flags)...)
}

// value finds a metric among samples.
func value(samples []sample, metric string) (float64, error) {
	for _, one := range samples {
		if one.metric == metric {
			return one.value, nil
		}
	}
	return 0, fmt.Errorf("no sample of %s", metric)
}

// counts are what a server of ours reports of itself.
type counts struct {
	gc, all     float64 // CPU seconds
	acceptFails float64
}

// askCounts makes a server of runServe report.
func (s *overloaded) askCounts(ctx context.Context) (counts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, serverStart, fmt.Errorf("no answer after %v", serverStart))
	defer cancel()
	s.child.Signal(syscall.SIGUSR1)
	line, err := s.child.Line(ctx)
	if err != nil {
		return counts{}, err
	}
	var c counts
	if _, err := fmt.Sscanf(line, "counts %f %f %f", &c.gc, &c.all, &c.acceptFails); err != nil {
		return counts{}, fmt.Errorf("%s: said %q, want \"counts …\": %w", s.system, line, err)
	}
	return c, nil
}

// flagPairs are flags out of names and values, in turn.
func flagPairs(pairs ...any) []string {
	var flags []string
	for i := 0; i+1 < len(pairs); i += 2 {
		flags = append(flags, fmt.Sprintf("-%v=%v", pairs[i], pairs[i+1]))
	}
	return flags
}

// calibrateBurn returns how many steps of work take 1 ms on the server core.
func (r *run) calibrateBurn() (int, error) {
	samples, err := samplesOf(r.ctx, 0, proc.Command{
		Path: r.self, Core: serverCore, Env: []string{"GOMAXPROCS=1"}, Args: []string{workerCommand, "overload", "calibrate"},
	})
	if err != nil {
		return 0, err
	}
	steps, err := value(samples, "steps")
	return int(steps), err
}

// capacities are what servers were found to reach, so that loads can be multiples of it.
type capacities map[string][]float64

// capacityMemory is how many measurements are remembered: the machine's speed changes.
const capacityMemory = 5

// capacityAttempts are made, each four times as long as the one before, as the kernel may
// let a server wait for longer than one takes when the machine has much else to do.
const capacityAttempts = 4

// capacityClients keep a server busy without letting it queue for long.
const capacityClients = 16

// measure lets a few clients ask as fast as they are answered, and returns the median of
// the last measurements of this system.
func (c capacities) measure(ctx context.Context, r *run, s *overloaded, span time.Duration) (float64, error) {
	now := 0.0
	for attempt := 0; now <= 0; attempt, span = attempt+1, 4*span {
		if attempt == capacityAttempts {
			return 0, errors.New("capacity: nothing was served")
		}
		lines, err := r.overloadClient(ctx, s, span, "closed",
			flagPairs("clients", capacityClients, "warm", span/4, "for", span)...)
		if err != nil {
			return 0, fmt.Errorf("capacity: %w", err)
		}
		lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, " ") })
		samples, err := parseSamples(lines)
		if err != nil {
			return 0, fmt.Errorf("capacity: %w", err)
		}
		if now, err = value(samples, "goodput"); err != nil {
			return 0, err
		}
	}
	known := append(c[s.system], now)
	c[s.system] = known[max(0, len(known)-capacityMemory):]
	return report.Median(c[s.system]), nil
}

// rotation numbers the samples of each point and system: the nth of every system gets the
// same seed, so that all meet the same requests.
type rotation map[string]int

func (n rotation) next(system string, p point) int {
	n[system+" "+p.String()]++
	return n[system+" "+p.String()]
}
