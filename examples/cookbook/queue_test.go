//go:build linux

package cookbook

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Pauses double. In a bubble of testing/synctest the three hours take no time.
func TestPausesDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		queue := JobQueue{pause: time.Hour, tries: 3}
		queue.run(func() error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if took := time.Since(began); tries != 3 || took != 3*time.Hour {
			t.Errorf("%d tries in %v", tries, took)
		}
	})
}
