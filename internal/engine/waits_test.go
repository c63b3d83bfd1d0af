package engine

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A task knows how long it has waited at the entrance, before it started or after, and only once.
func TestWaitsAtAnEntranceAreKnown(t *testing.T) {
	noteWaits(t)
	const tick = 1 << 20 // what timers of a loop count in, in nanoseconds
	for _, started := range []bool{true, false} {
		waits := make([]EntryWaits, 3)
		atEntrance(t, &room{size: 1}, func(l *Loop, e *Entrance) {
			task := func(i int) {
				testenv.Check(t, e.Enter())
				defer e.Leave()
				waits[i] = TakeWaits()
				testenv.Equal(t, TakeWaits(), EntryWaits{}, "waits since they were taken")
				Sleep(tick)
			}
			if started {
				var wg WaitGroup
				for i := range waits {
					wg.Go(func() { task(i) })
				}
				wg.Wait()
				return
			}
			startAt(l, e, len(waits), task)()
		})
		for i, w := range waits {
			testenv.Equal(t, w.Entrance, time.Duration(i)*tick, "task %d has waited", i)
			testenv.Equal(t, w.Bottleneck, 0, "and before a bottleneck")
			testenv.Equal(t, w.PlaceOf(), "", "which is none")
		}
	}
	testenv.Equal(t, TakeWaits(), EntryWaits{}, "waits of a plain goroutine")
}

// A task that was kept from a node that limits knows which node, and for how long.
func TestWaitsBeforeABottleneckAreKnown(t *testing.T) {
	noteWaits(t)
	a := &limiter{}
	withCrowd(t, a, func(c *crowd) {
		var lock Mutex
		var waits []EntryWaits
		var places []string
		take := func(work) {
			w := TakeWaits()
			waits, places = append(waits, w), append(places, w.PlaceOf())
			lock.Lock()
			lock.Unlock()
		}
		lock.Lock()
		c.come(20, take, work{7, 1})
		c.watch(ReasonMutex)
		c.come(20, take, work{7, 1})
		a.limit = 1
		c.look()
		c.come(2, take, work{7, 1}) // there is always room for one
		testenv.Equal(t, len(waits), 41, "tasks have come to the lock")
		lock.Unlock()
		c.wg.Wait()
		for i, w := range waits {
			testenv.Equal(t, w.Entrance, 0, "wait at the entrance of task %d", i)
			testenv.Equal(t, w.Bottleneck > 0, i == 41, "task %d has waited before the lock", i)
			testenv.Equal(t, places[i] != "", i == 41, "a place, for task %d", i)
		}
		testenv.AtLeast(t, waits[41].Bottleneck, 2*lookEvery, "the last has waited for")
		testenv.Equal(t, places[41], "mutex engine.(*Mutex).Lock", "where")
		Sleep(1)
		testenv.Equal(t, LastPlace(ReasonSleep), "sleep engine.Sleep", "the last wait")
		testenv.Equal(t, LastPlace(ReasonMutex), "", "the last wait, for a mutex")
	})
	testenv.Equal(t, LastPlace(ReasonSleep), "", "the last wait of a plain goroutine")
}

// noteWaits has waits be noted during a test.
func noteWaits(t *testing.T) {
	NoteWaits()
	t.Cleanup(func() { notesWaits.Store(false) })
}

// Tasks whose waits nobody takes need no room for them.
func TestWaitsAreNotNotedAtFirst(t *testing.T) {
	atEntrance(t, &room{size: 1}, func(l *Loop, e *Entrance) {
		startAt(l, e, 3, func(int) {
			testenv.Check(t, e.Enter())
			defer e.Leave()
			testenv.Equal(t, l.cur.ext.Load() == nil, true, "the task has no extension")
			Sleep(1 << 20)
		})()
	})
}
