package feed

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// With as many connections as a server takes by default nothing is held back, whatever the
// limit, and neither just after more were there; when the spare descriptors are used up, it is.
func TestDescriptorsAgreeWithTheConnectionsOfAServer(t *testing.T) {
	for _, limit := range []int64{4, 64, 256, 1024, 4096, 10_240, 20_000, 65_536, 200_000, 1 << 20, 1 << 30} {
		l := admit.NewLedger()
		spec := admit.Spec{Name: "descriptors", Limit: float64(limit)}
		spec.Target, spec.Margin = descriptorsTarget(limit)
		id, err := l.Add(spec)
		testenv.Must(t, err, "limit %d", limit)
		now := time.Duration(0)
		state := func(used int64) admit.State {
			for range 50 { // until there is no trend
				now += time.Second
				l.Observe(now, id, float64(used))
				l.Tick(now)
			}
			var r admit.Report
			l.Report(&r)
			return r.Resources[id].State
		}
		conns := limit - engine.SpareDescriptors(limit)
		if s := state(conns); s == admit.AtLimit {
			t.Errorf("with %d of %d descriptors new connections are held back, and a server would take them", conns, limit)
		}
		testenv.Equal(t, state(limit), admit.AtLimit, "with all %d descriptors in use the state", limit)
		if s := state(conns); s == admit.AtLimit {
			t.Errorf("after all %d descriptors were used %d hold new connections back", limit, conns)
		}
	}
}

// When the limit of the process is changed from outside all runtimes go by the new one, unless the program has set its own.
func TestDescriptorsFollowTheProcess(t *testing.T) {
	defer engine.Descriptors.SetLimit(engine.Descriptors.Limit())
	engine.Descriptors.SetLimit(1000) // as it was at the start
	process := int64(1000)
	var all [2]Feed
	for i := range all {
		all[i].cfg.Descriptors = func() int64 { return process }
	}
	const nothing = -2
	for i, c := range []struct{ process, program, want int64 }{
		{1000, nothing, 1000}, {4000, nothing, 4000}, {2000, nothing, 2000}, {0, nothing, 2000},
		{2000, 500, 500}, {3000, nothing, 500}, {3000, -1, -1}, {3000, 0, 3000}, {5000, nothing, 5000},
	} {
		process = c.process
		if c.program != nothing {
			engine.Descriptors.SetLimit(c.program)
		}
		for k := range all {
			all[k].followDescriptors()
			testenv.Equal(t, engine.Descriptors.Limit(), c.want, "step %d, runtime %d: the limit", i, k)
		}
	}
}

// How many descriptors may be used follows from the limit also after that has changed.
func TestTheTargetFollowsTheLimit(t *testing.T) {
	defer engine.Descriptors.SetLimit(engine.Descriptors.Limit())
	engine.Descriptors.SetLimit(1 << 20)
	rt, s := fed(t, 1, 1, Config{Policy: Resource})
	defer rt.Close()
	for i, c := range []struct {
		limit int64
		used  float64
		want  admit.State
	}{
		{1 << 20, 0.97 * (1 << 20), admit.Rising}, {1000, 970, admit.AtLimit}, {1 << 20, 0.97 * (1 << 20), admit.Rising},
	} {
		engine.Descriptors.SetLimit(c.limit)
		now := rt.Now() + time.Duration(i+1)*learnEvery
		s.tick(now, uint64(i+1), heap(rt))
		id := watched(t, s, engine.Descriptors)
		s.ledger.Observe(now, admit.ResourceID(id), c.used)
		var r admit.Report
		s.ledger.Report(&r)
		testenv.Equal(t, r.Resources[id].State, c.want, "with %v of %d descriptors in use the state", c.used, c.limit)
	}
}
