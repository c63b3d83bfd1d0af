package engine

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestStartQueueAgainstASlice(t *testing.T) {
	rnd := newRand(t)
	for _, shared := range []bool{false, true} {
		q := startQueue{shared: shared}
		var model []*Task
		var beside taskQueue
		check := func(got *Task) {
			t.Helper()
			if len(model) == 0 {
				testenv.Equal(t, got, nil, "a task out of nothing")
				return
			}
			testenv.Equal(t, got, model[0], "not the oldest")
			model = model[1:]
		}
		for range 5000 {
			switch rnd.IntN(5) {
			case 0, 1, 2:
				beside.push(new(Task))
				x := new(Task)
				model = append(model, x)
				testenv.MustEqual(t, q.push(x, &beside), len(model), "push says")
			case 3:
				check(q.pop())
			case 4:
				if !shared {
					continue
				}
				limit := 1 + rnd.IntN(8)
				want := min((len(model)+1)/2, limit)
				taken := q.steal(limit)
				testenv.MustEqual(t, taken.n, want, "stole N of %d", len(model))
				for x := taken.pop(); x != nil; x = taken.pop() {
					check(x)
				}
			}
			want := int64(0)
			if len(model) > 0 {
				want = model[0].wait.Tag
			}
			testenv.MustEqual(t, q.oldest(), want, "oldest")
		}
	}
}

func TestTaskQueueAgainstASlice(t *testing.T) {
	rnd := newRand(t)
	var q taskQueue
	var model []*Task
	for range 2000 {
		if rnd.IntN(2) == 0 {
			x := new(Task)
			q.push(x)
			model = append(model, x)
		} else if x := q.pop(); len(model) > 0 {
			if x != model[0] || x.next != nil {
				t.Fatal("not the oldest, or still linked")
			}
			model = model[1:]
		} else if x != nil {
			t.Fatal("a task out of nothing")
		}
		testenv.MustEqual(t, q.n, len(model), "n")
	}
}

func TestWaiterListAgainstASlice(t *testing.T) {
	rnd := newRand(t)
	var q WaiterList
	var model, out []*Waiter
	for range 5000 {
		switch k := rnd.IntN(9); {
		case k < 4:
			w := new(Waiter)
			q.Push(w)
			model = append(model, w)
		case k < 6:
			w := q.Pop()
			if len(model) == 0 {
				testenv.MustEqual(t, w, nil, "a waiter out of nothing")
				continue
			}
			testenv.MustEqual(t, w, model[0], "not the oldest")
			out, model = append(out, w), model[1:]
		case k < 8 && len(model) > 0:
			i := rnd.IntN(len(model))
			if !q.Remove(model[i]) || q.Remove(model[i]) {
				t.Fatal("remove does not know what is in the list")
			}
			model = append(model[:i:i], model[i+1:]...)
		case k == 8 && rnd.IntN(20) == 0:
			c := q.TakeAll()
			for i, w := 0, c.first; w != nil; i, w = i+1, w.next {
				testenv.MustEqual(t, w, model[i], "takeAll changed the order")
				testenv.MustEqual(t, q.Remove(w), false, "removed one that was taken")
			}
			model = nil
		}
		if len(out) > 0 && q.Remove(out[rnd.IntN(len(out))]) {
			t.Fatal("removed one that had been popped")
		}
	}
}

// What is being entered into the registry at this moment is not taken for oneself.
func TestRegistryEntryHalfWritten(t *testing.T) {
	var r registry
	r.table.Store(newIdentTable[Loop](6))
	const g = 0x1234500
	l := new(Loop)
	r.table.Load().slot(g).value.Store(l) // as if an entry were half written
	testenv.Equal(t, r.find(g), nil, "took another's entry for its own")
}

func TestRegistryAgainstAMap(t *testing.T) {
	rnd := newRand(t)
	var r registry
	model := map[uintptr]*Loop{}
	loops := []*Loop{new(Loop), new(Loop)}
	for range 20000 {
		g := uintptr(1+rnd.IntN(600)) * 64
		if l := model[g]; r.find(g) != l {
			t.Fatalf("find says %p, want %p", r.find(g), l)
		} else if l == nil && rnd.IntN(3) > 0 {
			model[g] = loops[rnd.IntN(2)]
			r.enter(g, model[g])
		} else if l != nil {
			delete(model, g)
			r.remove(g)
		}
	}
}

// Plain goroutines are not taken for tasks while loops make and end workers.
func TestIdentityUnderLoad(t *testing.T) {
	newRuntime(t, 4, panicsPass)
	var stop atomic.Bool
	var plain sync.WaitGroup
	for range 4 {
		plain.Go(func() {
			for !stop.Load() {
				if Current() != nil || CurrentLoop() != nil {
					t.Error("a plain goroutine is taken for a task")
					return
				}
				done := make(chan bool)
				go func() { done <- Current() == nil }()
				if !<-done {
					t.Error("a new goroutine is taken for a task")
				}
			}
		})
	}
	for range testenv.Rounds(10, 40) {
		var wg WaitGroup
		for range 30 {
			wg.Go(func() {
				me := Current()
				Yield()
				testenv.Equal(t, Current(), me, "a task is taken for another")
				runtime.Goexit()
			})
		}
		wg.Wait()
	}
	stop.Store(true)
	plain.Wait()
}

// Tasks that have not started and tasks that have run in the order in which they came,
// although they are in two queues.
func TestTwoQueuesAreOneFIFO(t *testing.T) {
	rnd := newRand(t)
	for range 200 {
		l := new(Loop)
		l.setPolicy(nil)
		l.stats.turnLimit = math.MaxInt64
		l.turn.begin(1<<30, 0)
		var model []*Task
		for range 500 {
			x := new(Task)
			switch rnd.IntN(5) {
			case 0, 1:
				l.enqueueStart(x)
				model = append(model, x)
			case 2:
				l.enqueue(x)
				model = append(model, x)
			default:
				got := l.pick()
				if len(model) == 0 {
					testenv.MustEqual(t, got, nil, "a task out of nothing")
					continue
				}
				testenv.MustEqual(t, got, model[0], "not the oldest")
				model = model[1:]
			}
		}
	}
}

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
	for range testenv.Rounds(10, 100) {
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
				most = max(most, overtaken[[2]*Task{y, x}])
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
