//go:build linux

package simserver

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

var (
	seeds   = flag.Int("sim.seeds", 200, "number of random scenarios")
	first   = flag.Uint64("sim.first", 1, "the first of them")
	oneSeed = flag.Uint64("sim.seed", 0, "run this seed only, and say more")
)

func runSeed(t *testing.T, seed uint64, folder string) {
	sc := NewScenario(seed)
	if *oneSeed != 0 {
		sc.Log = os.Stderr
		t.Log(sc)
	}
	var mix *Mix
	sc.Handler = func(w *World) knot.Handler {
		var err error
		if mix, err = newMix(w, folder, sc.workers); err != nil {
			t.Fatal(err)
		}
		return mix.Serve
	}
	sc.Done = func() { mix.close() }
	if admissionSettled && seed%4 == 0 {
		sc.Memory = 16 << 20
	}
	sc.MayRefuse = !admissionSettled
	r := Run(t, sc.Config, func(s *Server) time.Duration {
		mix.gauges(s)
		return sc.play(s)
	})
	if mix.inside != 0 {
		r.Broken = append(r.Broken, "requests are inside the handler after the end")
	}
	if *oneSeed != 0 {
		t.Logf("%v, %v; %d events in %v, busy %.2f, %d bytes held at most", r.Clients.Statuses, r.Clients.Failures, r.Events, r.Took, r.Busy, r.Most)
	}
	if len(r.Broken) > 0 {
		t.Errorf("replay with -sim.seed=%d", seed)
		r.check(t, seed)
		t.Log(sc)
	}
}

// TestSeeds runs random scenarios, which have nothing to show for but that no invariant
// is broken.
func TestSeeds(t *testing.T) {
	folder := t.TempDir()
	if raceEnabled || testing.Short() {
		*seeds = min(*seeds, 20)
	}
	if *oneSeed != 0 {
		runSeed(t, *oneSeed, folder)
		return
	}
	for seed := range uint64(*seeds) {
		runSeed(t, *first+seed, folder)
		if t.Failed() {
			return
		}
	}
}
