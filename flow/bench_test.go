package flow_test

import (
	"context"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/flow"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// An element through two modules, beside the rival that has no graph: a task for each
// element that calls two functions.
func BenchmarkTwoModules(b *testing.B) {
	run := func(b *testing.B, main func()) {
		testenv.Must(b, capriccio.Run(context.Background(), func(context.Context) error { main(); return nil }, capriccio.WithLoops(1)))
	}
	for name, by := range map[string]flow.Parallelism{"flow": flow.ByFlow, "element": flow.ByElement, "task": flow.ByTask} {
		b.Run(name, func(b *testing.B) {
			run(b, func() {
				g := flow.New("bench")
				a := &each{do: func(f *flow.Flow, v int, out *flow.Out[int]) { out.Send(f, v) }}
				in := flow.Add(g, "a", by, a)
				flow.Connect(&a.Out, flow.Add(g, "b", by, &sink{func(*flow.Flow, int) {}}))
				testenv.Must(b, g.Start())
				flows := make([]*flow.Flow, 1000)
				for i := range flows {
					flows[i] = g.NewFlow(nil, nil)
				}
				b.ResetTimer()
				for i := range b.N {
					in.Put(flows[i%len(flows)], i)
				}
				g.Shutdown(context.Background())
			})
		})
	}
	b.Run("tasks", func(b *testing.B) {
		run(b, func() {
			sum := 0
			for i := range b.N {
				task.Spawn(task.Options{NoHandle: true}, func() { sum += i })
				if i%64 == 0 {
					task.Yield()
				}
			}
			task.Yield()
		})
	})
}
