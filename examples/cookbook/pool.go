//go:build linux

package cookbook

import "github.com/capriccio-go/capriccio/task"

// Map calls fn for each value, with so many tasks, and returns the results in the order of the values.
func Map[In, Out any](workers int, values []In, fn func(In) Out) []Out {
	results := make([]Out, len(values))
	next := task.NewChan[int](workers)
	var all task.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range next.All() {
				results[i] = fn(values[i])
			}
		})
	}
	for i := range values {
		next.Send(i)
	}
	next.Close()
	all.Wait()
	return results
}
