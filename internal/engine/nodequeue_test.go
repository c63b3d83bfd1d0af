package engine

import (
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A naiveNodeQueue is a nodeQueue of slices.
type naiveNodeQueue struct {
	round, local, other []*Task
	yielded             *Task
}

func (q *naiveNodeQueue) size() int { return len(q.round) + len(q.local) + len(q.other) }

func (q *naiveNodeQueue) take() *Task {
	if len(q.round) == 0 {
		slices.Reverse(q.local)
		q.round = append(q.local, q.other...)
		q.local, q.other = nil, nil
		if len(q.round) > 1 && q.round[0] == q.yielded {
			q.round[0], q.round[1] = q.round[1], q.round[0]
		}
		q.yielded = nil
	}
	if len(q.round) == 0 {
		return nil
	}
	t := q.round[0]
	q.round = q.round[1:]
	return t
}

// takeOne takes the first task of a round, and puts the others back.
func takeOne(q *nodeQueue) *Task {
	round := q.takeRound()
	t := round.pop()
	q.putBack(round)
	return t
}

func TestNodeQueueAgainstSlices(t *testing.T) {
	rnd := newRand(t)
	for range 200 {
		var q nodeQueue
		var model naiveNodeQueue
		var last *Task
		var idle []*Task
		for range 1 + rnd.IntN(12) {
			idle = append(idle, new(Task))
		}
		for range 500 {
			switch k := rnd.IntN(5); {
			case k < 2 && len(idle) > 0:
				x := idle[0]
				idle = idle[1:]
				if k == 0 {
					q.pushLocal(x, false)
					model.local = append(model.local, x)
				} else {
					q.pushOther(x)
					model.other = append(model.other, x)
				}
			case k == 2 && last != nil && slices.Contains(idle, last): // it yields
				idle = slices.DeleteFunc(idle, func(x *Task) bool { return x == last })
				q.pushLocal(last, true)
				model.local, model.yielded = append(model.local, last), last
			default:
				got, want := takeOne(&q), model.take()
				testenv.MustEqual(t, got, want, "not the task that the model takes")
				if last = got; got == nil {
					continue
				}
				testenv.MustEqual(t, got.next, nil, "still linked")
				idle = append(idle, got)
			}
			testenv.MustEqual(t, q.total(), model.size(), "tasks")
		}
	}
}

// Nobody is overtaken more than twice by the same task, however those come that do it.
func TestNobodyIsOvertakenThriceInANodeQueue(t *testing.T) {
	rnd := newRand(t)
	const tasks = 20
	most := 0
	for range 100 {
		var q nodeQueue
		overtaken := map[[2]*Task]int{} // the first by the second, since it was queued
		queued := map[*Task]bool{}
		push := func(x *Task) {
			queued[x] = true
			if k := rnd.IntN(3); k > 0 {
				q.pushLocal(x, k == 1)
			} else {
				q.pushOther(x)
			}
		}
		for range tasks {
			push(new(Task))
		}
		for range 1000 {
			x := takeOne(&q)
			delete(queued, x)
			for y := range queued {
				overtaken[[2]*Task{y, x}]++
				if n := overtaken[[2]*Task{y, x}]; n > 2 {
					t.Fatalf("a task was overtaken %d times by the same one", n)
				} else {
					most = max(most, n)
				}
			}
			for pair := range overtaken {
				if pair[0] == x {
					delete(overtaken, pair)
				}
			}
			push(x)
		}
	}
	testenv.Equal(t, most, 2, "at most N times; the bound is 2 and should have been met")
}
