package feed

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sched"
)

// With as many connections as a server takes by default nothing is held back, whatever the
// limit, and neither just after more were there; when the spare descriptors are used up, it is.
func TestDescriptorsAgreeWithTheConnectionsOfAServer(t *testing.T) {
	for _, limit := range []int64{4, 64, 256, 1024, 4096, 10_240, 20_000, 65_536, 200_000, 1 << 20, 1 << 30} {
		l := sched.NewLedger()
		spec := sched.Spec{Name: "descriptors", Limit: float64(limit)}
		spec.Target, spec.Margin = descriptorsTarget(limit)
		id, err := l.Add(spec)
		if err != nil {
			t.Fatalf("limit %d: %v", limit, err)
		}
		now := time.Duration(0)
		state := func(used int64) sched.State {
			for range 50 { // until there is no trend
				now += time.Second
				l.Observe(now, id, float64(used))
				l.Tick(now)
			}
			var r sched.Report
			l.Report(&r)
			return r.Resources[id].State
		}
		conns := limit - engine.SpareDescriptors(limit)
		if s := state(conns); s == sched.AtLimit {
			t.Errorf("with %d of %d descriptors new connections are held back, and a server would take them", conns, limit)
		}
		if s := state(limit); s != sched.AtLimit {
			t.Errorf("with all %d descriptors in use the state is %v", limit, s)
		}
		if s := state(conns); s == sched.AtLimit {
			t.Errorf("after all %d descriptors were used %d hold new connections back", limit, conns)
		}
	}
}
