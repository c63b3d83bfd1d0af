package main

import (
	"fmt"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
)

// times is how a load is named: a multiple of capacity.
func times(name string, x float64) string { return fmt.Sprintf("%s-%gx", name, x) }

// overloadRows are the right half of the matrix.
func overloadRows(d spans) []row {
	span := d(sec, 4*sec)
	at := func(x float64, classes ...class) openLoad {
		warm, most := d(500*ms, 1500*ms), 0.0
		for _, c := range classes {
			most += x * c.share
		}
		switch {
		case most > 1.5: // in the first second the client connects once for each request too many, and the server refuses the queued ones
			warm = 1500 * ms
		case most > 1.01: // a queue that grows as slowly as this is taken for a burst for twice as long
			warm = 3 * sec
		}
		return openLoad{
			classes: classes, phases: []phase{{span: warm + span, times: x}}, from: warm,
			patience: patience, drain: 300 * ms,
		}
	}
	var rows []row
	sweep := func(name string, classes []class, xs ...float64) {
		for _, x := range xs {
			rows = append(rows, row{name: times(name, x), load: at(x, classes...)})
		}
	}
	for _, cost := range []string{"200us", "1ms", "5ms"} {
		sweep("cpu-"+cost, alone("/do?cpu="+cost), 0.8, 1, 2, 5, 10)
	}
	first := len(rows)
	sweep("mix", bimodal, 0.8, 1, 2, 5, 10)
	for i := range rows[first:] {
		rows[first+i].extra = leastClass
	}
	sweep("lock-sleep", alone("/lock?sleep=1ms"), 0.8, 2, 10)
	sweep("lock-cpu", alone("/lock?cpu=1ms"), 0.8, 2, 10)
	rows = append(rows, importantRows(at)...)
	rows = append(rows, timeRows(d)...)
	rows = append(rows, memoryRows(d, at)...)
	// Handlers that wait in the middle, as for a database: what has begun is to be finished.
	sweep("waits", alone("/do?cpu=1ms&sleep=5ms"), 0.8, 1.2, 2, 10)
	sweep("waits-early", alone("/do?cpu=1ms&sleep=5ms&first=10"), 1.2, 2, 10)
	rows = append(rows, row{name: "waits-streams-2x", load: at(2, alone("/do?cpu=1ms&sleep=5ms")...), acts: []act{{0, streams}}})
	for i := range rows {
		rows[i].overload = true
	}
	return rows
}

// streams opens a thousand streams of events, in which there is hardly ever one.
func streams(_ *matrix, s *server) error {
	for range 1000 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			return err
		}
		s.conns = append(s.conns, c)
		if _, err := fmt.Fprintf(c, "GET %s?every=1m HTTP/1.1\r\nHost: test\r\n\r\n", chores.EventsPath); err != nil {
			return err
		}
	}
	return nil
}

type loadAt = func(x float64, classes ...class) openLoad

func importantRows(at loadAt) []row {
	twoLocks := at(1,
		class{path: "/lock?n=0&sleep=1ms", share: 2},
		class{path: "/lock?n=1&sleep=1ms", share: 0.5, aside: true})
	ranked := func(path string) []class {
		return []class{{path: path, urgency: leisurely, share: 1.6}, {path: path, urgency: urgent, share: 0.4}}
	}
	tenants := []class{}
	for i := range 9 {
		tenants = append(tenants, class{path: "/do?cpu=1ms", share: 0.09, source: byte(i + 1)})
	}
	tenants = append(tenants, class{path: "/do?cpu=1ms", share: 1, source: 10})
	return []row{
		{name: "two-locks", load: twoLocks, extra: inTimeOf("bystanders-served", 1)},
		{name: "lock-priority", load: at(1, ranked("/lock?sleep=1ms")...), needs: needs{prioritized: true}, extra: inTimeOf("important-served", 1)},
		{name: "cpu-priority", load: at(1, ranked("/do?cpu=1ms")...), needs: needs{prioritized: true}, extra: inTimeOf("important-served", 1)},
		{name: "ten-tenants", load: at(1, tenants...), extra: inTimeOf("nine-served", 0, 1, 2, 3, 4, 5, 6, 7, 8)},
	}
}

// leastClass is the goodput of the class that gets least of its share of what could be
// served; the classes' shares are of requests.
func leastClass(r *clientResult, e extent) []sample {
	least := 100.0
	could := e.could * r.Span.Seconds()
	for i, c := range r.Classes {
		least = min(least, 100*float64(c.InTime)/(could*bimodal[i].share))
	}
	return []sample{{"least-class-share", "%", e.x, least}}
}

func inTimeOf(metric string, classes ...int) func(*clientResult, extent) []sample {
	return func(r *clientResult, e extent) []sample {
		due, good := 0, 0
		for _, i := range classes {
			due, good = due+r.Classes[i].Due, good+r.Classes[i].InTime
		}
		return []sample{{metric, "%", e.x, share(good, due)}}
	}
}

// stepUsual is twice the 99th percentile of latency at 0.8 × capacity, for requests of 1 ms.
const stepUsual = 20 * ms

func timeRows(d spans) []row {
	step := openLoad{classes: alone("/do?cpu=1ms"), patience: patience, drain: 300 * ms}.stepping(load.Steps{
		Target: latencyTarget, Usual: stepUsual, Lead: d(300*ms, sec), High: 500 * ms, Low: d(500*ms, 1200*ms), Count: int(d(2, 4)),
	}, stepLow, stepHigh)
	minute := openLoad{
		classes: alone("/do?cpu=1ms"), phases: []phase{{span: d(4*sec, time.Minute), times: 2}}, from: sec, patience: patience, drain: 300 * ms,
	}
	lead, slow, after := d(sec, 2*sec), d(2500*ms, 5*sec), d(3500*ms, 6*sec)
	backend := openLoad{
		classes: alone("/backend"), phases: []phase{{span: lead + slow + after, rate: 1200}}, from: lead + slow + 2*sec,
		patience: patience, drain: 300 * ms, retries: 3,
	}
	order := func(text string) func(*matrix, *server) error {
		return func(_ *matrix, s *server) error { return s.child.Tell(text) }
	}
	return []row{
		{name: "step-1.4x", load: step, extra: func(r *clientResult, e extent) []sample {
			return []sample{{"settle-ms", "ms", e.x, milliseconds(r.Steps.Settle)}, {"recover-ms", "ms", e.x, milliseconds(r.Steps.Recover)}, {"step-normal", "%", e.x, 100 * r.Steps.Normal}}
		}},
		{name: "minute-2x", load: minute, extra: drift},
		{name: "backend-step", load: backend,
			acts:  []act{{lead, order("backend 500ms")}, {lead + slow, order("backend 5ms")}},
			extra: recovered(lead + slow)},
	}
}

// drift is the goodput of the last quarter as a share of that of the first, without the
// first second.
func drift(r *clientResult, e extent) []sample {
	windows := r.Windows[int(sec/windowTime):]
	n := len(windows) / 4
	if n == 0 {
		return nil
	}
	first, last := 0, 0
	for i := range n {
		first += windows[i].InTime
		last += windows[len(windows)-2-i].InTime // the last one is not whole
	}
	return []sample{{"last-to-first", "%", e.x, share(last, first)}}
}

// recovered is how long after a time it takes until 95 % are served in time again, to the
// end of the run; the time that is left if they are not. The share served is that from 2 s
// after it on.
func recovered(from time.Duration) func(*clientResult, extent) []sample {
	return func(r *clientResult, e extent) []sample {
		last := int(from / windowTime)
		for i := last; i < len(r.Windows)-1; i++ {
			if w := r.Windows[i]; w.Due == 0 || float64(w.InTime) < 0.95*float64(w.Due) {
				last = i + 1
			}
		}
		return []sample{
			{"goodput-share", "%", e.x, share(r.All.InTime, r.All.Due)},
			{"normal-after", "s", e.x, (time.Duration(last)*windowTime - from).Seconds()},
		}
	}
}

func memoryRows(d spans, at loadAt) []row {
	holds := func(longest time.Duration, classes ...class) openLoad {
		l := at(2, classes...)
		l.target, l.patience, l.drain = latencyTarget+longest, patience+longest, 300*ms+longest
		l.phases[0].span, l.from = l.phases[0].span+longest, l.from+longest
		return l
	}
	var readers []people.Group
	for i, size := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20, 8 << 20} {
		readers = append(readers, people.Group{
			Count: 80, At: time.Duration(i) * 10 * ms, Path: fmt.Sprintf("/bytes?n=%d", size), ReadRate: 200e3,
			Repeat: true, Pause: 10 * ms, Back: 500 * ms, Patience: lifePatience,
		})
	}
	const limited = "GOMEMLIMIT=512MiB"
	return []row{
		// The capacity is measured with the most clients with which fifo is not killed. Most of the time that
		// requests hold memory is spent on large ones.
		{name: "holds-mixed-512m", needs: needs{memory: 512 << 20}, reference: 32, load: holds(sec,
			class{path: "/do?alloc=262144&sleep=20ms", share: 0.95}, class{path: "/do?alloc=8388608&sleep=1s", share: 0.05})},
		{name: "holds-20-200ms", needs: needs{env: []string{limited}, watch: memoryCap}, reference: 1024, load: holds(200*ms,
			class{path: "/do?alloc=262144&sleep=20ms", share: 0.5}, class{path: "/do?alloc=262144&sleep=200ms", share: 0.5})},
		{name: "responses-256m", needs: needs{memory: 256 << 20}, extra: bytesServed,
			load: people.Config{For: d(3*sec, 12*sec), Drain: 100 * ms, Groups: readers}},
		{name: "pollers-hold-256m", needs: needs{env: []string{"GOMEMLIMIT=256MiB"}, watch: memoryCap}, extra: released,
			load: releasedLoad(200, 2<<20, sec, 1500*ms)},
		{name: "clients-16384", needs: needs{env: []string{limited}, watch: memoryCap}, reference: 512, load: load.ClosedConfig{
			Mix: mixed(class{path: "/do?alloc=1048576&sleep=50ms", share: 1}), Clients: 16_384, Warm: d(1500*ms, 5*sec), For: d(1500*ms, 15*sec), Patient: true,
		}},
		{name: "memory-held-64m", needs: needs{env: []string{"GOMEMLIMIT=64MiB"}, watch: memoryCap}, extra: newcomers,
			load: people.Config{For: 2 * sec, Drain: d(sec, 3*sec), Groups: []people.Group{
				{Count: 150, Path: "/wait?alloc=524288", Patience: lifePatience},
				{Count: 20, At: sec, Spread: sec, Path: "/hello", Patience: sec},
			}}},
	}
}

func bytesServed(r *clientResult, e extent) []sample {
	return []sample{{"bytes-served", "MB/s", e.x, float64(r.Bytes) / 1e6 / r.Span.Seconds()}}
}

// newcomers is the share of the requests sent while memory was held that got an answer, served or refused.
func newcomers(r *clientResult, e extent) []sample {
	return []sample{{"newcomers-answered", "%", e.x, share(r.Classes[2].Served+r.Classes[2].Refused, r.Classes[2].Due)}}
}

// released is the share of the waiting requests (/wait) that were answered, and that of the requests that release them (/release).
func released(r *clientResult, e extent) []sample {
	return []sample{
		{"pollers-released", "%", e.x, share(r.Classes[0].Served, r.Classes[0].Due)},
		{"releasers-served", "%", e.x, share(r.Classes[2].Served, r.Classes[2].Due)},
	}
}
