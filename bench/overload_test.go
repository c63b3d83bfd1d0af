package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// serverOf starts a server of one of our systems, or one that needs no building.
func serverOf(t *testing.T, r *run, system string, env []string, pairs ...any) *overloaded {
	t.Helper()
	needTwoCores(t)
	start, err := r.overloadStarter(system)
	if err != nil {
		t.Skip(err)
	}
	s, err := start(t.Context(), env, flagPairs(pairs...)...)
	testenv.Must(t, err)
	t.Cleanup(s.close)
	return s
}

// givenTime measures for longer and longer until there is something to see, as a machine
// that is busy or stalls gets little done in a short time.
func givenTime(t *testing.T, measure func(time.Duration) error) {
	t.Helper()
	for d := 30 * time.Millisecond; ; d *= 4 {
		err := measure(d)
		if err == nil {
			return
		}
		if d > 5*time.Second {
			t.Fatalf("in %v: %v", d, err)
		}
	}
}

var overloadServers = []string{"capriccio", "capriccio-fifo", "net-http", "nginx"}

func TestOverloadServersAnswer(t *testing.T) {
	for _, system := range overloadServers {
		t.Run(system, func(t *testing.T) {
			s := serverOf(t, testRun(t, true), system, nil, "burn", 1000, "pause", time.Millisecond)
			response, err := http.Get("http://" + s.addr)
			testenv.Must(t, err)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || string(body) != servedBody {
				t.Errorf("%s: %q, %v", response.Status, body, err)
			}
		})
	}
}

func TestOverloadClientsPrintWhatTheDriverReads(t *testing.T) {
	r := testRun(t, true)
	s := serverOf(t, r, "capriccio-fifo", nil, "burn", 1000)
	givenTime(t, func(d time.Duration) error {
		capacity, err := capacities{}.measure(t.Context(), r, s, d)
		if err == nil && capacity < 100 {
			err = fmt.Errorf("capacity %v", capacity)
		}
		return err
	})
	for kind, c := range map[string]struct {
		pairs func(d time.Duration) []any
		want  []string
	}{
		"load": {func(d time.Duration) []any {
			return []any{"rate", 1000, "warm", d, "for", d}
		}, []string{"goodput", "p99", "refused", "lost", "cpu", "others", "client-late"}},
		"step": {func(d time.Duration) []any {
			return []any{"low", 500, "high", 1000, "lead", d, "high-for", d, "low-for", d}
		}, []string{"settle-ms", "recover-ms"}},
		"priority": {func(d time.Duration) []any {
			return []any{"urgent", 1000, "leisurely", 1000, "leisurely-before", 100, "warm", d, "for", d}
		}, []string{"success", "success-in-time", "success-low", "p99", "goodput"}},
		"crowd": {func(d time.Duration) []any {
			return []any{"clients", 20, "jam", d, "keep", time.Millisecond, "limit", 30 * time.Second}
		}, []string{"served", "all-served", "cpu-jammed"}},
	} {
		t.Run(kind, func(t *testing.T) {
			givenTime(t, func(d time.Duration) error {
				lines, err := r.overloadClient(t.Context(), s, d, kind, flagPairs(append(c.pairs(d), "x", 2.5)...)...)
				testenv.Must(t, err)
				samples, err := parseSamples(lines)
				testenv.Must(t, err)
				for _, one := range samples {
					if one.x != 2.5 {
						t.Fatalf("%+v, want x 2.5", one)
					}
				}
				var missing []error
				for _, metric := range c.want {
					_, err := value(samples, metric)
					missing = append(missing, err)
				}
				return errors.Join(missing...)
			})
		})
	}
}

func TestServerReportsItsCounts(t *testing.T) {
	r := testRun(t, true)
	for _, system := range []string{"capriccio-fifo", "net-http"} {
		s := serverOf(t, r, system, []string{"GOGC=1"}, "allocate", 1<<18)
		before, err := s.askCounts(t.Context())
		testenv.Must(t, err)
		if _, err := (capacities{}).measure(t.Context(), r, s, 200*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		after, err := s.askCounts(t.Context())
		if err != nil || after.gc <= before.gc || after.all-before.all < after.gc-before.gc {
			t.Errorf("%s: from %+v to %+v, %v: want the collector to have worked", system, before, after, err)
		}
	}
}

func TestServerOutOfDescriptorsCountsFailures(t *testing.T) {
	r := testRun(t, true)
	for _, system := range []string{"capriccio-fifo", "net-http"} {
		s := serverOf(t, r, system, nil, "descriptors", 32, "waits", true)
		if _, err := r.overloadClient(t.Context(), s, time.Second, "crowd", flagPairs("clients", 100, "jam", 100*time.Millisecond,
			"keep", time.Millisecond, "limit", time.Minute)...); err != nil {
			t.Fatal(err)
		}
		if got, err := s.askCounts(t.Context()); err != nil || got.acceptFails < 1 {
			t.Errorf("%s: %+v, %v; want failures", system, got, err)
		}
	}
}

// A server that takes too much memory is killed, and that is a result.
func TestServerThatTakesTooMuchIsKilled(t *testing.T) {
	r := testRun(t, true)
	s := serverOf(t, r, "net-http", nil, "allocate", 1<<20, "hold", time.Minute)
	watch, err := watchMemory(s.child, 200<<20)
	testenv.Must(t, err)
	defer watch.end()
	lines, err := r.overloadClient(t.Context(), s, time.Second, "closed", flagPairs("clients", 1000, "for", time.Minute)...)
	if err != nil || !slices.Contains(lines, closedGone) || slices.Contains(lines, closedEnd) {
		t.Errorf("client says %q, %v, want %q", lines, err, closedGone)
	}
	if !watch.killed.Load() || watch.most.Load() <= 200<<20 {
		t.Errorf("killed: %v with %d bytes", watch.killed.Load(), watch.most.Load())
	}
}

func TestMemorySampleHasEveryMetric(t *testing.T) {
	needTwoCores(t)
	r := testRun(t, true)
	start, err := r.overloadStarter("capriccio-fifo")
	testenv.Must(t, err)
	samples, err := r.memorySample(t.Context(), overloadSystem{"capriccio-fifo", start}, point{metric: "hold" + retrySuffix, x: 8})
	testenv.Must(t, err)
	for _, metric := range []string{"goodput", "p99", "rss-mb", "gc-share", "killed", "p99-to-mean", "longest", "refused"} {
		if _, err := value(samples, metric+retrySuffix); err != nil {
			t.Error(err)
		}
	}
}

func TestGroupSample(t *testing.T) {
	needTwoCores(t)
	r := testRun(t, true)
	group, err := proc.NewMemoryGroup(groupLimit)
	if err != nil {
		t.Skip(err)
	}
	testenv.Must(t, group.Close())
	start, err := r.overloadStarter("net-http")
	testenv.Must(t, err)
	samples, err := r.groupSample(t.Context(), overloadSystem{"net-http", start}, point{metric: "hold", x: 8})
	testenv.Must(t, err)
	goodput, none := value(samples, "goodput")
	most, unknown := value(samples, "group-mb")
	killed, missing := value(samples, "killed")
	if none != nil || unknown != nil || missing != nil || goodput <= 0 || most <= 8 || killed != 0 {
		t.Errorf("got %+v", samples)
	}
}

// A process that has ended before anybody could look at it was not killed.
func TestWatchOfWhatHasEnded(t *testing.T) {
	child, err := proc.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", "exit 1"}, Core: proc.AnyCore})
	testenv.Must(t, err)
	defer child.Close()
	<-child.Ended()
	w, err := watchMemory(child, 1)
	testenv.Must(t, err)
	w.end()
	if w.killed.Load() {
		t.Error("said to be killed")
	}
}

func TestKilledServersAreKnown(t *testing.T) {
	for command, want := range map[string]bool{"kill -KILL $$": true, "kill -TERM $$": false, "exit 9": false} {
		child, err := proc.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", command}, Core: proc.AnyCore})
		testenv.Must(t, err)
		<-child.Ended()
		s := &overloaded{server: &server{child: child}}
		if got := s.killed(); got != want {
			t.Errorf("%s: killed is %v, want %v", command, got, want)
		}
		child.Close()
	}
}

func TestFairnessNeedsTimeForSeveralWaits(t *testing.T) {
	samples := []sample{{"goodput", "req/s", 100, 1000}, {"p99", "ms", 100, 150}}
	if got := fairness(samples, 100, 250*time.Millisecond); len(got) != 1 || got[0].value != 1.5 {
		t.Errorf("got %v, want 1.5 times the mean wait of 100 ms", got)
	}
	if got := fairness(samples, 100, 249*time.Millisecond); got != nil {
		t.Errorf("after too short a time: %v", got)
	}
	if got := fairness(samples[:1], 100, time.Hour); got != nil {
		t.Errorf("with nobody served: %v", got)
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "statm")
	for content, want := range map[string]int64{"100 3 2 1 0 4 0\n": int64(3 * os.Getpagesize()), "": -1, "100": -1, "1 x": -1} {
		testenv.Must(t, os.WriteFile(path, []byte(content), 0o666))
		f, err := os.Open(path)
		testenv.Must(t, err)
		got, err := residentBytes(f)
		f.Close()
		if want < 0 && err == nil || want >= 0 && (got != want || err != nil) {
			t.Errorf("%q: got %d, %v", content, got, err)
		}
	}
}

// A build that lacks the scheduler says so, and the others are measured.
func TestUnknownSchedulerIsSkippedWithTheReason(t *testing.T) {
	needTwoCores(t)
	r := testRun(t, true)
	start := r.serverStarter("capriccio", r.self, []string{capriccio.EnvSched + "=none"}, workerCommand, "overload", "serve")
	if _, err := start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), capriccio.EnvSched) {
		t.Errorf("got %v, want an error that names %s", err, capriccio.EnvSched)
	}
	if _, err := r.overloadSystems("nobody"); err == nil || r.env.Skipped["nobody"] == "" {
		t.Errorf("got %v, skipped %v", err, r.env.Skipped)
	}
}

func TestCapacityIsTheMedianOfTheLatest(t *testing.T) {
	r := testRun(t, true)
	s := serverOf(t, r, "capriccio-fifo", nil, "burn", 1000)
	known := capacities{"capriccio-fifo": {1e9, 2e9, 3e9, 4e9, 5e9}}
	got, err := known.measure(t.Context(), r, s, 10*time.Millisecond)
	if err != nil || got != 3e9 || len(known["capriccio-fifo"]) != capacityMemory {
		t.Errorf("got %v of %v, %v", got, known, err)
	}
}

func TestSeedsFollowTheRound(t *testing.T) {
	n := rotation{}
	p, q := point{metric: "load", x: 1}, point{metric: "load", x: 2}
	got := fmt.Sprint(n.next("a", p), n.next("b", p), n.next("a", p), n.next("a", q))
	if got != "1 1 2 1" {
		t.Errorf("got %s", got)
	}
}

func TestOverloadWorkersRefuseNonsense(t *testing.T) {
	for _, line := range []string{
		"", "fly", "serve -kind apache", "serve -burn x", "load -addr nowhere -pids 1", "load -addr 127.0.0.1:1 -pids x",
		"closed -clients 0 -addr 127.0.0.1:1 -pids 1", "crowd -jam 0s -addr 127.0.0.1:1 -pids 1", "step -count x", "priority -urgent x",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		self, err := os.Executable()
		testenv.Must(t, err)
		_, err = proc.Output(ctx, proc.Command{Path: self, Core: proc.AnyCore,
			Args: slices.Concat([]string{workerCommand, "overload"}, strings.Fields(line))})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "status 1") {
			t.Errorf("%q: got %v, want an end with status 1", line, err)
		}
	}
}
