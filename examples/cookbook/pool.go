//go:build linux

package cookbook

import (
	"cmp"

	"github.com/capriccio-go/capriccio/task"
)

// Map calls fn for each value, in the given number of tasks, and returns the results in the order of the values. It returns an
// error if its context has ended: then results may be missing.
func Map[In, Out any](workers int, values []In, fn func(In) Out) ([]Out, error) {
	results := make([]Out, len(values))
	next := task.NewChan[int](workers)
	var all task.Group
	for range workers {
		all.Go(func() error {
			for i := range next.All() {
				results[i] = fn(values[i])
			}
			return task.Err()
		})
	}
	for i := range values {
		next.Send(i) // fails once the context has ended, see Err
	}
	next.Close()
	return results, cmp.Or(all.Wait(), task.Err())
}
