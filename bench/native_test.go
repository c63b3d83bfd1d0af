package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Each mode on tasks, on goroutines and with loops that wait too, and the lock that many share. As in the experiment, of
// loops that wait nothing else is asked: they have yet to serve what clients that have gone had asked for.
func TestNativeWaitsAreMeasured(t *testing.T) {
	r := measuringRun(t)
	for _, flag := range []string{"", "-holding", "-http"} {
		s := testenv.Need(r.own("native"+flag, nil, append([]string{"native"}, strings.Fields(flag)...)...).start(t.Context()))(t)
		holding := flag == "-holding"
		modes := nativeModes[:len(nativeModes):len(nativeModes)]
		if !holding {
			modes = append(modes, manyMetric)
		}
		for _, mode := range modes {
			samples, err := r.nativeSample(t.Context(), s, point{metric: mode, x: 50}, 20*time.Millisecond)
			if err != nil && !strings.Contains(err.Error(), noneAnswered) { // a loop that waits may answer none in that time
				t.Errorf("%s %s: %v", s.system, mode, err)
			} else if err == nil && (len(samples) != 3 || samples[1].metric != "p99-"+mode || samples[1].value <= 0) {
				t.Errorf("%s %s: %+v", s.system, mode, samples)
			}
		}
		for _, system := range []string{"capriccio", "goroutine"} {
			if holding || testenv.Race && system == "capriccio" {
				continue // its loop is never taken from the task that waits natively
			}
			samples, err := r.lockedReader(system, s.addr).sample(t.Context(), point{metric: lockedMetric, x: 5}, 0)
			if err != nil || len(samples) != 1 || samples[0].value <= 0 {
				t.Errorf("%s on %s: %+v, %v", lockedMetric, system, samples, err)
			}
		}
		s.child.Close()
	}
}

// However slow the machine, what goes on is not taken for something that hangs; what does not, is.
func TestOnlyWhatStandsStillHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled atomic.Bool
		progress, end := untilStalled(time.Minute, func() { stalled.Store(true) })
		for range 100 {
			time.Sleep(59 * time.Second)
			progress()
		}
		if synctest.Wait(); stalled.Load() {
			t.Error("what goes on is taken for something that hangs")
		}
		time.Sleep(61 * time.Second)
		if synctest.Wait(); !stalled.Load() {
			t.Error("what stands still is not found")
		}
		end()
	})
}
