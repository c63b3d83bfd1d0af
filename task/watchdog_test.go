package task

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestDeadlockIsReported(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := enginetest.NewRuntime(t, 2, enginetest.LogTo(log))
	var a, b Mutex
	c := NewChan[string](0)
	var both WaitGroup
	both.Add(2)
	abba := func(name string, first, second *Mutex, loop int) *engine.Task {
		k, _ := rt.Spawn(engine.Options{Name: name, Loop: rt.Loop(loop)}, func() {
			first.Lock()
			both.Done()
			both.Wait()
			second.Lock()
		})
		return k
	}
	one, two := abba("one", &a, &b, 0), abba("two", &b, &a, 1)
	three := engine.GoWith(engine.Options{Name: "three"}, func() { c.Recv() })
	line := log.Next(t, "deadlock", "task one #", "task two #", "task three #")
	for _, want := range []string{"mutex Mutex", "held by task one #", "held by task two #", "channel receive Chan[string]", "holding 0 of 0", "tasks=3"} {
		enginetest.Contains(t, line, want)
	}
	a.Unlock()
	b.Unlock()
	c.Close()
	for _, k := range []*engine.Task{one, two, three} {
		testenv.Check(t, k.Join())
	}
}
