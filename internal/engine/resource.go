package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A Resource is something that tasks take and give back, and that there is not enough of for
// any number of tasks: descriptors, bytes of buffers, database connections.
type Resource struct {
	name, unit string
	index      int // in recorder.Account
	limit      atomic.Int64
	usual      func() int64 // the limit while none is set; constant, may be nil
	process    bool         // what one runtime takes, another can't have; constant

	// What plain goroutines have taken and given, and what runtimes that have ended had not given back.
	taken, given atomic.Uint64
	done         atomic.Uint64 // taken by such runtimes, and given back
}

// MaxResources is how many resources a process may have.
const MaxResources = recorder.MaxResources

// Resources that the runtime itself counts.
var (
	// Descriptors are the open sockets, files and pipes of package netpoll.
	Descriptors = mustResource("descriptors", "").ofProcess()
	// Tasks are those that were spawned and have not finished. They are taken by the spawner, given by
	// the task at its end; which step does so is learnt if there is a limit.
	Tasks = mustResource("tasks", "")
	// StackSpace is what tasks hold of linked stack chunks.
	StackSpace = mustResource("stack chunks", "bytes").ofProcess()
	// Progress counts what the program itself calls progress: requests answered, rows
	// written. It is only ever taken. A scheduler that looks for the load at which the
	// program gets most done goes by it.
	progress = mustResource("progress", "")
)

// The first resources are those that the runtime itself counts.
const ownResources = 4

// SpareDescriptors is how many of limit descriptors a server leaves for files, listeners and
// the rest when it counts how many connections it may have: 512, or a quarter if that is
// less. A scheduler that holds what takes descriptors back begins when half of them are used,
// so that a connection too many is answered by the server and not left waiting.
func SpareDescriptors(limit int64) int64 { return min(512, max(limit, 0)/4) }

// Progress records that the calling task has done n more of what the program is for:
// answered n requests, say. It never parks.
func Progress(n int) { progress.Acquire(int64(n)) }

// Done is the sum of what Progress was told on rt.
func (rt *Runtime) Done() uint64 {
	sum, _ := rt.Totals(progress)
	return sum
}

// move counts a change of the resource with that index.
func (l *Loop) move(index uint) {
	l.account.Moves++
	l.account.Moved |= 1 << (index % MaxResources)
}

// resources are the declarations, which stand in package variables and are there before any runtime. What
// is taken is counted by the loops, each runtime for itself; only plain goroutines, which have none, count in
// the resource.
var resources struct {
	mu       sync.Mutex
	all      []*Resource       // guarded by mu; replaced, not changed
	runtimes map[*Runtime]bool // guarded by mu: those that count
}

// books are how a runtime counts resources. Guarded by resources.mu but for the atomic fields.
type books struct {
	started, dropped atomic.Uint64 // tasks that no loop has counted: spawned from outside, never to start

	open   int                      // loops that have not ended
	before [MaxResources][2]uint64  // of Totals, what was over before it was made; not changed after that
	end    *[MaxResources][2]uint64 // Totals when the last loop ended; nil: it has not
}

// Indexes of those that are counted without a call.
var tasksIndex, chunksIndex = uint(Tasks.index), uint(StackSpace.index)

// countTask counts a task that has been spawned on l (1), or finishes there (-1). Without a limit
// on tasks that is no move: what steps do with them is not learnt then, as each start would cost half
// as much again.
func (l *Loop) countTask(by int) {
	if by > 0 {
		l.account.Taken[tasksIndex%MaxResources]++
	} else {
		l.account.Given[tasksIndex%MaxResources]++
	}
	if Tasks.limit.Load() != 0 {
		l.move(tasksIndex)
	}
}

// NewResource declares a resource.
func NewResource(name, unit string) (*Resource, error) {
	s := &resources
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return nil, fmt.Errorf("task: a resource needs a name")
	}
	for _, r := range s.all {
		if r.name == name {
			if r.unit != unit {
				return nil, fmt.Errorf("task: the resource %q is counted in %q, not in %q", name, r.unit, unit)
			}
			return r, nil
		}
	}
	if len(s.all) == MaxResources {
		return nil, fmt.Errorf("task: resource %q: there are %d resources, more are not possible", name, MaxResources)
	}
	r := &Resource{name: name, unit: unit, index: len(s.all)}
	s.all = append(s.all[:len(s.all):len(s.all)], r)
	return r, nil
}

// ofProcess is for what there is only once in a process.
func (r *Resource) ofProcess() *Resource {
	r.process = true
	return r
}

func mustResource(name, unit string) *Resource {
	r, err := NewResource(name, unit)
	if err != nil {
		panic(err)
	}
	return r
}

// Resources returns those declared so far. The position of a resource does not change.
func Resources() []*Resource {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	return resources.all
}

// Name is what the resource was declared with.
func (r *Resource) Name() string { return r.name }

// Unit is what the numbers count; empty for things.
func (r *Resource) Unit() string { return r.unit }

// SetLimit says how much there is of the resource; 0: unknown, the default; below 0:
// unknown too, and a scheduler that can is to find out how much is good to use.
func (r *Resource) SetLimit(n int64) { r.limit.Store(n) }

// Limit is what SetLimit was called with; of StackSpace, without that, the limit of package stackchunk.
func (r *Resource) Limit() int64 {
	n := r.limit.Load()
	if n == 0 && r.usual != nil {
		return r.usual()
	}
	return n
}

// Acquire records that the caller has taken n more of the resource. It panics if n is negative.
func (r *Resource) Acquire(n int64) {
	if n < 0 {
		r.negative("Acquire", n)
	}
	if l := here(); l != nil {
		l.account.Taken[r.index] += uint64(n)
		l.move(uint(r.index))
		return
	}
	r.taken.Add(uint64(n))
}

// Release records that the caller has given n of the resource back. It need not be the one
// that took them. It panics if n is negative.
func (r *Resource) Release(n int64) {
	if n < 0 {
		r.negative("Release", n)
	}
	if l := here(); l != nil {
		l.account.Given[r.index] += uint64(n)
		l.move(uint(r.index))
		return
	}
	r.given.Add(uint64(n))
}

func (r *Resource) negative(method string, n int64) {
	panic(fmt.Sprintf("task: %s(%d) of the resource %q; want 0 or more", method, n, r.name))
}

// Totals returns how much has been taken and given back since the process started, by all
// loops and goroutines. What is in use is the difference.
func (r *Resource) Totals() (acquired, released uint64) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	return r.totals()
}

func (r *Resource) totals() (acquired, released uint64) {
	acquired, released = r.taken.Load()+r.done.Load(), r.given.Load()+r.done.Load()
	for rt := range resources.runtimes {
		taken, given := rt.counted(r)
		acquired, released = acquired+taken, released+given
	}
	return acquired, released
}

// counted is what the loops of rt have counted.
func (rt *Runtime) counted(r *Resource) (taken, given uint64) {
	for _, l := range rt.loops {
		taken += coro.Peek(uintptr(unsafe.Pointer(&l.account.Taken[r.index])))
		given += coro.Peek(uintptr(unsafe.Pointer(&l.account.Given[r.index])))
	}
	if r == Tasks {
		taken, given = taken+rt.books.started.Load(), given+rt.books.dropped.Load()
	}
	return taken, given
}

// Totals returns how much of r has been taken and given back while rt was there: by its tasks, and by plain
// goroutines, as they belong to no runtime. What was in use when rt was made counts as taken. Of descriptors
// and stack space, which other runtimes take from the same store, theirs is in it.
func (rt *Runtime) Totals(r *Resource) (acquired, released uint64) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	return rt.totals(r)
}

func (rt *Runtime) totals(r *Resource) (acquired, released uint64) {
	b := &rt.books
	if b.end != nil {
		return b.end[r.index][0], b.end[r.index][1]
	}
	if r.process {
		acquired, released = r.totals()
	} else {
		acquired, released = rt.counted(r)
		acquired, released = acquired+r.taken.Load(), released+r.given.Load()
	}
	return acquired - b.before[r.index][0], released - b.before[r.index][1]
}

// InUse is what has been taken of r and not given back, as Totals counts it.
func (rt *Runtime) InUse(r *Resource) int64 {
	acquired, released := rt.Totals(r)
	return int64(acquired - released)
}

// Counts reports whether r matters to rt: it is one of those that every runtime counts, or something of it has
// been taken or given since rt was made.
func (rt *Runtime) Counts(r *Resource) bool {
	acquired, released := rt.Totals(r)
	return r.index < ownResources || acquired != 0 || released != 0
}

// InUse is what has been taken and not given back.
func (r *Resource) InUse() int64 {
	acquired, released := r.Totals()
	return int64(acquired - released)
}

// openBooks lets Totals count the loops of rt.
func (rt *Runtime) openBooks() {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	rt.books.open = len(rt.loops)
	for _, r := range resources.all {
		acquired, released := rt.totals(r)
		over := min(acquired, released)
		rt.books.before[r.index] = [2]uint64{over, over}
		if r == progress {
			rt.books.before[r.index] = [2]uint64{acquired, released}
		}
	}
	if resources.runtimes == nil {
		resources.runtimes = make(map[*Runtime]bool)
	}
	resources.runtimes[rt] = true
}

// closeAccounts is called when l has ended. What its runtime has not given back when all its loops have is
// left to the plain goroutines.
func (l *Loop) closeAccounts() {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	rt := l.rt
	if rt.books.open--; rt.books.open > 0 {
		return
	}
	end := new([MaxResources][2]uint64)
	for _, r := range resources.all {
		end[r.index][0], end[r.index][1] = rt.totals(r)
	}
	rt.books.end = end
	delete(resources.runtimes, rt)
	for _, r := range resources.all {
		taken, given := rt.counted(r)
		done := min(taken, given)
		if r == progress {
			done = taken // nobody gives it back
		}
		r.done.Add(done)
		r.taken.Add(taken - done)
		r.given.Add(given - min(done, given))
	}
}
