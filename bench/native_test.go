package main

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
