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

// A fifo is a queue of tasks as a slice.
type fifo []*Task

func (f *fifo) push() *Task {
	x := new(Task)
	*f = append(*f, x)
	return x
}

// took checks that got is the oldest task, nil if there is none.
func (f *fifo) took(t *testing.T, got *Task) {
	t.Helper()
	var want *Task
	if len(*f) > 0 {
		want, *f = (*f)[0], (*f)[1:]
	}
	testenv.MustEqual(t, got, want, "the oldest task")
	if got != nil {
		testenv.MustEqual(t, got.next, nil, "still linked")
	}
}

func TestStartQueueAgainstASlice(t *testing.T) {
	rnd := newRand(t)
	for _, shared := range []bool{false, true} {
		q := startQueue{shared: shared}
		var model fifo
		var beside taskQueue
		for range 5000 {
			switch rnd.IntN(5) {
			case 0, 1, 2:
				beside.push(new(Task))
				testenv.MustEqual(t, q.push(model.push(), &beside), len(model), "push says")
			case 3:
				model.took(t, q.pop())
			case 4:
				if !shared {
					continue
				}
				limit := 1 + rnd.IntN(8)
				want := min((len(model)+1)/2, limit)
				taken := q.steal(limit)
				testenv.MustEqual(t, taken.n, want, "stole N of %d", len(model))
				for x := taken.pop(); x != nil; x = taken.pop() {
					model.took(t, x)
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
	var model fifo
	for range 2000 {
		if rnd.IntN(2) == 0 {
			q.push(model.push())
		} else {
			model.took(t, q.pop())
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
		var model fifo
		for range 500 {
			switch rnd.IntN(5) {
			case 0, 1:
				l.enqueueStart(model.push())
			case 2:
				l.enqueue(model.push())
			default:
				model.took(t, l.pick())
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
