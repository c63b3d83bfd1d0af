package engine

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// Resources that the runtime itself counts.
var (
	// Descriptors are the open sockets, files and pipes of packages netpoll and aio.
	Descriptors = mustResource("descriptors", "").OfProcess()
	// Tasks counts the tasks that have not finished. The spawner takes a unit, the new task gives
	// it back at its end. Which steps do so is learnt if there is a limit.
	Tasks = mustResource("tasks", "")
	// StackSpace is what tasks hold of linked stack chunks.
	StackSpace = mustResource("stack chunks", "bytes").OfProcess()
	// progress counts what the program itself calls progress: requests answered, rows written. It is only ever taken. A
	// scheduler goes by it to find the load at which the program gets most done.
	progress = mustResource("progress", "").Endless()
)

// ownResources is the number of resources that the runtime itself counts. They have the first indexes.
const ownResources = 4

// Indexes of the resources that are counted without a call.
var tasksIndex, chunksIndex = Tasks.Index(), StackSpace.Index()

func mustResource(name, unit string) *admit.Resource {
	r, err := admit.NewResource(name, unit)
	if err != nil {
		panic(err)
	}
	return r
}

// SpareDescriptors is how many of limit descriptors a server leaves for files, listeners and the rest when it counts
// how many connections it may have: 512, or a quarter if that is less. A scheduler begins to hold back tasks that take
// descriptors only when half of the spare ones are used, so that a connection too many is answered by the server and
// not left waiting.
func SpareDescriptors(limit int64) int64 { return min(512, max(limit, 0)/4) }

// Progress records that the calling task has done n more of what the program is for:
// answered n requests, say. It never parks.
func Progress(n int) { Acquire(progress, int64(n)) }

// Acquire records that the caller has taken n more of r. It panics if n is negative.
func Acquire(r *admit.Resource, n int64) {
	if n < 0 {
		negative("Acquire", r, n)
	}
	if l := here(); l != nil {
		l.account.Take(r.Index(), uint64(n))
		return
	}
	r.Take(uint64(n))
}

// Release records that the caller has given n of r back. It need not be the one
// that took them. It panics if n is negative.
func Release(r *admit.Resource, n int64) {
	if n < 0 {
		negative("Release", r, n)
	}
	if l := here(); l != nil {
		l.account.Give(r.Index(), uint64(n))
		return
	}
	r.Give(uint64(n))
}

func negative(method string, r *admit.Resource, n int64) {
	panic(fmt.Sprintf("task: %s(%d) of the resource %q; want 0 or more", method, n, r.Name()))
}

// countTask counts a task that has been spawned on l (1), or finishes there (-1). Without a limit
// on tasks that is no move: what steps do with them is not learnt then, as each start would cost half
// as much again.
func (l *Loop) countTask(by int) {
	a := &l.account
	if by > 0 {
		a.Taken[tasksIndex%admit.MaxResources]++
	} else {
		a.Given[tasksIndex%admit.MaxResources]++
	}
	if Tasks.Limit() != 0 {
		a.Move(tasksIndex)
	}
}

// Books are what the loops of rt count.
func (rt *Runtime) Books() *admit.Books { return &rt.books }

// Done is the sum of what Progress was told on rt.
func (rt *Runtime) Done() uint64 {
	sum, _ := rt.books.Totals(progress)
	return sum
}

// Counts reports whether r matters to rt: every runtime counts it, or some of it has
// been taken or given since rt was made.
func (rt *Runtime) Counts(r *admit.Resource) bool {
	acquired, released := rt.books.Totals(r)
	return r.Index() < ownResources || acquired != 0 || released != 0
}
