package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// admissionRows are all rows of the matrix, ordinary life first. The order within a half
// is that of their numbers: append to a half, so that figures of different days compare.
func admissionRows(quick bool) []row {
	d := func(short, long time.Duration) time.Duration { return choose(quick, short, long) }
	rows := slices.Concat(waitingRows(d), burstRows(d), toolRows(d), slowRows(d), disturbedRows(d))
	return append(rows, overloadRows(d)...)
}

type spans func(short, long time.Duration) time.Duration

const (
	lifePatience = 10 * time.Second
	sec          = time.Second
	ms           = time.Millisecond
)

func alone(path string) []class { return []class{{path: path, share: 1}} }

// poisson is an open loop of ordinary life at a rate per second.
func poisson(rate float64, path string, span time.Duration) openLoad {
	return openLoad{classes: alone(path), phases: []phase{{span: span, rate: rate}}, patience: lifePatience}
}

// below is an open loop of ordinary life at a multiple of capacity.
func below(times float64, span time.Duration, classes ...class) openLoad {
	return openLoad{classes: classes, phases: []phase{{span: span, times: times}}, patience: lifePatience}
}

// bursts is a number of requests at once, every so often.
func bursts(n int, every time.Duration, path string, span time.Duration) openLoad {
	return openLoad{
		classes: alone(path), patience: lifePatience,
		phases: []phase{{span: span, rate: float64(n) / every.Seconds(), burst: n}},
	}
}

// once is a number of requests at once, each on a connection of its own.
func once(n int, path string) openLoad { return bursts(n, sec, path, 100*ms) }

// waitingRows are many clients that wait, and new servers that many clients come to.
func waitingRows(d spans) []row {
	pollers := func(n int) people.Config {
		return people.Config{For: d(2500*ms, 10*sec), Drain: 2 * sec, Groups: []people.Group{{
			Count: n, Spread: 100 * ms, Path: "/do?sleep=1s", Repeat: true, Back: sec, Patience: lifePatience,
		}}}
	}
	asleep := poisson(100, "/do?sleep=30s", d(1500*ms, 10*sec))
	asleep.patience, asleep.drain = time.Minute, d(500*ms, 35*sec) // a quick run ends before the handlers do
	return []row{
		{name: "pollers-200", load: pollers(200)},
		{name: "pollers-5000", load: once(5000, "/do?sleep=1s")},
		{name: "cold-5000", load: once(5000, "/do?sleep=50ms")},
		{name: "cold-adapt-5000", load: once(5000, chores.AdaptPrefix+"/hello")},
		{name: "sleep-100ms", load: poisson(1000, "/do?sleep=100ms", d(1500*ms, 6*sec))},
		{name: "sleep-1s", load: poisson(500, "/do?sleep=1s", d(1500*ms, 6*sec))},
		{name: "sleep-30s", load: asleep},
		{name: "pollers-released", load: releasedLoad(300, 0, sec, 1500*ms)},
		{name: "sse-1000", bytes: true, load: people.Config{For: d(2*sec, 6*sec), Drain: 100 * ms, Groups: []people.Group{{
			Count: 1000, Path: "/events?every=1s", Stream: true, Patience: lifePatience,
		}}}},
		{name: "upgraded", bytes: true, load: people.Config{For: d(2*sec, 6*sec), Drain: 100 * ms, Groups: []people.Group{{
			Count: 1000, Spread: 100 * ms, Path: chores.UpgradePath, Upgrade: true, Pause: 100 * ms, Patience: lifePatience,
		}}}},
	}
}

// releasedLoad has n clients whose requests wait until one more client asks for /release.
func releasedLoad(n, alloc int, at, span time.Duration) people.Config {
	return people.Config{For: span, Drain: 2 * sec, Groups: []people.Group{
		{Count: n, Path: fmt.Sprintf("/wait?alloc=%d", alloc), Patience: lifePatience},
		{Count: 1, At: at, Method: "POST", Path: "/release", Patience: lifePatience, Repeat: true, Pause: 200 * ms, Back: 200 * ms},
	}}
}

// burstRows are loads well below capacity that come unevenly, or in uneven sizes.
func burstRows(d spans) []row {
	waves := openLoad{classes: alone("/do?cpu=1ms"), patience: lifePatience}
	for range int(d(1, 4)) {
		waves.phases = append(waves.phases, phase{span: d(sec, 2*sec), times: 1.2}, phase{span: d(sec, 2*sec), times: 0.4})
	}
	return []row{
		{name: "burst-10-cpu", load: bursts(10, 625*ms, "/do?cpu=5ms", d(2400*ms, 8*sec))},
		{name: "burst-20-cpu", load: bursts(20, 1250*ms, "/do?cpu=5ms", d(2400*ms, 8*sec))},
		{name: "burst-20-sleep", load: bursts(20, sec, "/do?sleep=200ms", d(1900*ms, 8*sec))},
		{name: "burst-50-sleep", load: bursts(50, sec, "/do?sleep=200ms", d(1900*ms, 8*sec))},
		{name: "bimodal-0.5x", load: below(0.5, d(2*sec, 8*sec), bimodal...)},
		{name: "bimodal-0.8x", load: below(0.8, d(2*sec, 8*sec), bimodal...)},
		{name: "waves-0.8x", load: waves},
		{name: "cost-1-100-0.8x", load: below(0.8, d(2*sec, 8*sec),
			class{path: "/do?cpu=50us", share: 0.99}, class{path: "/do?cpu=5ms", share: 0.01})},
		{name: "few-heavy", load: openLoad{classes: alone("/do?cpu=100ms"), patience: lifePatience,
			phases: []phase{{span: d(2*sec, 8*sec), rate: 8, burst: 1}}}},
	}
}

var bimodal = []class{{path: "/do?cpu=50us", share: 0.95}, {path: "/do?cpu=5ms", share: 0.05}}

// toolRows are loads of programs that others measure with. Each server is cold.
func toolRows(d spans) []row {
	span := d(sec, 4*sec)
	tool := func(name, tool, path string, conns int) row {
		l := toolLoad{tool: tool, path: path, conns: conns, span: span}
		if conns >= 5000 { // connecting alone takes a second
			l.span = d(3*sec, 6*sec)
		}
		return row{name: name, load: l, fit: l.installed}
	}
	rows := []row{
		tool("wrk-sleep-500ms", "wrk", "/do?sleep=500ms", 100),
		tool("wrk-cpu-1ms", "wrk", "/do?cpu=1ms", 100),
		tool("ab-sleep-50ms", "ab", "/do?sleep=50ms", 200),
		tool("wrk-file-100k", "wrk", fileOf100KB, 200),
		tool("wrk-adapt-1000", "wrk", chores.AdaptPrefix+"/hello", 1000),
		tool("wrk-adapt-5000", "wrk", chores.AdaptPrefix+"/hello", 5000),
	}
	rows[0].load = toolLoad{tool: "wrk", path: "/do?sleep=500ms", conns: 100, span: d(2*sec, 6*sec)}
	rows[3].systems = fileSystems
	for _, t := range []string{"wrk", "ab", "h2load"} {
		for _, conns := range []int{1, 10, 100, 1000, 10_000} {
			one := tool(fmt.Sprintf("%s-hello-%d", t, conns), t, "/hello", conns)
			one.systems = fileSystems
			rows = append(rows, one)
		}
	}
	return rows
}

// fileSystems are the systems that serve files and the short text: all but the oracle.
var fileSystems = slices.DeleteFunc(slices.Clone(admissionSystems), func(s string) bool { return s == oracleSystem })

// slowRows are clients that read and write slowly, or much.
func slowRows(d spans) []row {
	slow := func(name string, g people.Group) row {
		g.Patience = lifePatience
		return row{name: name, bytes: true, load: people.Config{For: d(2*sec, 8*sec), Drain: 100 * ms, Groups: []people.Group{g}}}
	}
	rows := []row{
		slow("downloads-300", people.Group{Count: 300, Path: fileOf8MB, ReadRate: 500e3}),
		slow("uploads-100", people.Group{Count: 100, Method: "POST", Path: "/upload", Upload: 1 << 20, UploadRate: 1e6}),
		slow("slow-readers-1000", people.Group{Count: 1000, Path: "/bytes?n=262144", ReadRate: 50e3}),
		slow("slow-uploads-1000", people.Group{Count: 1000, Method: "POST", Path: "/upload", Upload: 1 << 20, UploadRate: 50e3}),
		{name: "browser", systems: fileSystems, load: people.Config{For: d(1500*ms, 5*sec), Drain: 2 * sec, Groups: []people.Group{{
			Count: 5, Spread: 500 * ms, Path: pagePath, Files: pageFiles, Repeat: true, Pause: 200 * ms, Back: 200 * ms, Patience: lifePatience,
		}}}},
	}
	rows[0].systems = fileSystems
	return rows
}

// stopped has a server stop for a while, as a machine does that is suspended or swaps.
func stopped(from, until time.Duration) []act {
	send := func(s syscall.Signal) func(*matrix, *server) error {
		return func(_ *matrix, to *server) error { to.child.Signal(s); return nil }
	}
	return []act{{from, send(syscall.SIGSTOP)}, {until, send(syscall.SIGCONT)}}
}

// disturbedRows are servers that do not get all of their core, or are replaced.
func disturbedRows(d spans) []row {
	working := func(times float64, span time.Duration) openLoad { return below(times, span, alone("/do?cpu=1ms")...) }
	pause := func(name string, times float64, pause time.Duration) row {
		return row{name: name, load: working(times, 500*ms+pause+sec), acts: stopped(500*ms, 500*ms+pause)}
	}
	spinner := func(_ *matrix, s *server) error {
		child, err := proc.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", "while :; do :; done"}, Core: serverCore})
		if err == nil {
			s.beside = append(s.beside, child)
		}
		return err
	}
	return []row{
		pause("sigstop-100ms-0.4x", 0.4, 100*ms),
		pause("sigstop-500ms-0.24x", 0.24, 500*ms),
		pause("sigstop-1s-0.4x", 0.4, sec),
		pause("sigstop-5s-0.24x", 0.24, 5*sec),
		{name: "cpu-quota-20", needs: needs{quota: 0.2}, load: poisson(500, "/do?cpu=300us", d(2*sec, 8*sec)), fit: func() error { return proc.CanHave(proc.NewCPUGroup(0.5)) }},
		{name: "steal-0.3x", load: working(0.3, d(2*sec, 8*sec)), acts: []act{{300 * ms, spinner}}},
		{name: "deploy", load: people.Config{For: d(2*sec, 5*sec), Drain: 2 * sec, Groups: []people.Group{
			{Count: 50, Path: "/do?sleep=5ms&cpu=200us", Repeat: true, Pause: 50 * ms, Back: 50 * ms, Patience: lifePatience},
			{Count: 50, Spread: 50 * ms, Path: "/do?sleep=5ms&cpu=200us", Repeat: true, Fresh: true, Pause: 50 * ms, Back: 50 * ms, Patience: lifePatience},
		}}, acts: []act{{700 * ms, replace}}},
	}
}

// replace starts a second server on the same port and then tells the first to stop.
func replace(m *matrix, s *server) error {
	system, err := m.system(s.system)
	if err != nil {
		return err
	}
	next, err := system.start(m.ctx, needs{addr: s.addr})
	if err != nil {
		return err
	}
	s.beside = append(s.beside, next.child)
	s.child.Signal(syscall.SIGTERM)
	return nil
}
