//go:build linux

package cookbook

import (
	"context"
	"errors"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// ErrFull means that the queue has no room: answer 503, and let the client come again.
var ErrFull = errors.New("the queue is full")

// A Job is tried until it returns nil.
type Job func() error

// A JobQueue runs jobs in the background, a few at a time. Its length is bounded: a queue without a limit only hides that
// work comes in faster than it is done.
type JobQueue struct {
	jobs    *task.Chan[Job]
	workers task.WaitGroup
	pause   time.Duration
	tries   int
}

// NewJobQueue starts the workers. A job that fails is tried again after a pause, which doubles, tries times in all. The
// end of the caller's context ends neither the workers nor the waits of the jobs: Close must be called.
func NewJobQueue(workers, length, tries int, pause time.Duration) *JobQueue {
	q := &JobQueue{jobs: task.NewChan[Job](length), tries: tries, pause: pause}
	for range workers {
		q.workers.Go(func() {
			task.Shield(context.Background(), func() error { // the jobs that Add has let in are done in any case
				for job := range q.jobs.All() {
					q.run(job)
				}
				return nil
			})
		})
	}
	return q
}

// Add does not wait.
func (q *JobQueue) Add(job Job) error {
	if ok, err := q.jobs.TrySend(job); ok || err != nil {
		return err
	}
	return ErrFull
}

// Close lets no more jobs in, and returns when all that are there are done.
func (q *JobQueue) Close() {
	q.jobs.Close()
	q.workers.Wait()
}

func (q *JobQueue) run(job Job) {
	pause := q.pause
	for range q.tries {
		if job() == nil {
			return
		}
		task.Sleep(pause)
		pause *= 2
	}
}
