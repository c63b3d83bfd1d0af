package feed

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// BenchmarkOrderInACohort has tasks pass three stages again and again. In each a task
// touches what belongs to it, which is still in a cache if little has been touched since.
func BenchmarkOrderInACohort(b *testing.B) {
	for _, tasks := range []int{300, 1000, 4000, 10_000} {
		for _, bytes := range []int{4 << 10, 16 << 10} {
			for _, oldest := range []bool{false, true} {
				for _, size := range []int{0, 20} {
					order := map[bool]string{false: "newest", true: "oldest"}[oldest]
					b.Run(fmt.Sprintf("tasks=%d/bytes=%d/cohort=%d/%s", tasks, bytes, size, order), func(b *testing.B) {
						benchmarkOrder(b, tasks, bytes, Config{
							Policy: Cohort, CohortSize: size, OldestFirst: oldest, Graph: recorder.New(bgraph.Config{}),
						})
					})
				}
			}
		}
	}
}

func benchmarkOrder(b *testing.B, tasks, bytes int, cfg Config) {
	rt, _ := fed(b, 1, 0, cfg)
	defer rt.Close()
	own := make([]byte, tasks*bytes)
	left, ready := b.N, tasks
	all := make([]*engine.Task, tasks)
	for at, i := range rand.New(rand.NewPCG(1, 2)).Perm(tasks) { // not as if they had all been made in one go
		mine := own[i*bytes : (i+1)*bytes]
		all[at] = rt.Go(func() {
			for warm := 0; left > 0; warm++ {
				for _, stage := range []string{"first", "second", "third"} {
					engine.YieldAt(stage)
					for j := 0; j < len(mine); j += 64 {
						mine[j]++
					}
					if ready > 0 {
						continue
					}
					left--
				}
				if warm == 2 {
					if ready--; ready == 0 {
						b.ResetTimer()
					}
				}
			}
		})
	}
	for _, k := range all {
		k.Join()
	}
	b.StopTimer()
}
