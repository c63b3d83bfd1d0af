//go:build cgo

package fromc_test

import (
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/fromc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Where a loop can't be taken from a task that waits natively, the watchdog names the place and tells what to
// do, though other tasks wait where it can.
func TestNativeWaitsThatHoldALoopAreNamed(t *testing.T) {
	for what, call := range map[string]func(func()){
		"iter.Pull": func(f func()) {
			next, stop := iter.Pull(func(func(int) bool) { f() })
			defer stop()
			next()
		},
		"C has called": fromc.Call,
	} {
		log := make(testenv.Records, 100)
		rt := newRuntime(t, 1, func(c *engine.Config) {
			c.HoldLimit = time.Millisecond
			c.Log = slog.New(slog.NewTextHandler(log, nil))
		})
		end := make(chan bool)
		var tasks []*engine.Task
		if rt.Detaches() {
			for range 3 {
				tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { <-end }))
			}
			testenv.Until(t, "they are away", func() bool { return rt.Detached() == 3 })
		}
		tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { call(func() { holdsHere(end) }) }))
		found, _, _ := strings.Cut(log.Next(t, "still does", "natively"), " stack=")
		for _, want := range []string{what, "task.Offload", "fromc_test.holdsHere ", `doing="chan receive"`} {
			testenv.Contains(t, found, want)
		}
		close(end)
		for _, k := range tasks {
			testenv.Check(t, k.Join())
		}
	}
}

func holdsHere(end chan bool) { <-end }
