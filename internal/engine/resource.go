package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Resource is something that tasks take and give back, and that there is not enough of for
// any number of tasks: descriptors, bytes of buffers, database connections.
type Resource struct {
	name, unit string
	index      int // in accounts
	limit      atomic.Int64
	usual      func() int64 // the limit while none is set; constant, may be nil

	// What plain goroutines have taken and given, and the loops that have ended.
	taken, given atomic.Uint64
}

// MaxResources is how many resources a process may have.
const MaxResources = 16

// Resources that the runtime itself counts.
var (
	// Descriptors are the open sockets, files and pipes of package netpoll.
	Descriptors = mustResource("descriptors", "")
	// Tasks are those that were spawned and have not finished. They are taken by the spawner, given by
	// the task at its end; which step does so is learnt if there is a limit.
	Tasks = mustResource("tasks", "")
	// StackSpace is what tasks hold of linked stack chunks.
	StackSpace = mustResource("stack chunks", "bytes")
	// Progress counts what the program itself calls progress: requests answered, rows
	// written. It is only ever taken. A scheduler that looks for the load at which the
	// program gets most done goes by it.
	progress = mustResource("progress", "")
)

// SpareDescriptors is how many of limit descriptors a server leaves for files, listeners and
// the rest when it counts how many connections it may have: 512, or a quarter if that is
// less. A scheduler that holds what takes descriptors back begins when half of them are used,
// so that a connection too many is answered by the server and not left waiting.
func SpareDescriptors(limit int64) int64 { return min(512, max(limit, 0)/4) }

// Progress records that the calling task has done n more of what the program is for:
// answered n requests, say. It never parks.
func Progress(n int) { progress.Acquire(int64(n)) }

// Done is the sum of what Progress was told.
func Done() uint64 {
	sum, _ := progress.Totals()
	return sum
}

// accounts is what one loop counts of the resources. Loop-private; others read it with
// coro.Peek.
type accounts struct {
	taken, given [MaxResources]uint64
	moves        uint64 // see Loop.Moves
}

// resources are of the process, as what they stand for is (memory, descriptors), and plain
// goroutines take of them too. Each loop has accounts of its own.
var resources struct {
	mu    sync.Mutex
	all   []*Resource    // guarded by mu; replaced, not changed
	loops map[*Loop]bool // guarded by mu: those that count
}

// Indexes of those that are counted without a call.
var tasksIndex, chunksIndex = uint(Tasks.index), uint(StackSpace.index)

// countTask counts a task that has been spawned on l (1), or finishes there (-1). Without a limit
// on tasks that is no move: what steps do with them is not learnt then, as each start would cost half
// as much again.
func (l *Loop) countTask(by int) {
	a := &l.accounts
	if by > 0 {
		a.taken[tasksIndex%MaxResources]++
	} else {
		a.given[tasksIndex%MaxResources]++
	}
	if Tasks.limit.Load() != 0 {
		a.moves++
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

func mustResource(name, unit string) *Resource {
	r, err := NewResource(name, unit)
	if err != nil {
		panic(err)
	}
	return r
}

// Resources returns those declared so far. The position of a resource, here and in
// Loop.Balance, does not change.
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
		l.accounts.taken[r.index] += uint64(n)
		l.accounts.moves++
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
		l.accounts.given[r.index] += uint64(n)
		l.accounts.moves++
		return
	}
	r.given.Add(uint64(n))
}

func (r *Resource) negative(method string, n int64) {
	panic(fmt.Sprintf("task: %s(%d) of the resource %q; want 0 or more", method, n, r.name))
}

// Totals returns how much has been taken and given back since the process started, by
// all loops and goroutines. What is in use is the difference.
func (r *Resource) Totals() (acquired, released uint64) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	acquired, released = r.taken.Load(), r.given.Load()
	for l := range resources.loops {
		acquired += coro.Peek(uintptr(unsafe.Pointer(&l.accounts.taken[r.index])))
		released += coro.Peek(uintptr(unsafe.Pointer(&l.accounts.given[r.index])))
	}
	return acquired, released
}

// InUse is what has been taken and not given back.
func (r *Resource) InUse() int64 {
	acquired, released := r.Totals()
	return int64(acquired - released)
}

// Moves is a number that changes when the loop's accounts do. Loop-private: for observers.
func (l *Loop) Moves() uint64 { return l.accounts.moves }

// Balance is what tasks of the loop have taken of the resource at position i of
// Resources, less what they have given back. Loop-private: for observers.
func (l *Loop) Balance(i int) int64 {
	return int64(l.accounts.taken[i] - l.accounts.given[i])
}

// openAccounts lets Totals count l.
func (l *Loop) openAccounts() {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	if resources.loops == nil {
		resources.loops = make(map[*Loop]bool)
	}
	resources.loops[l] = true
}

// closeAccounts hands over to the resources what l, which ends, has counted.
func (l *Loop) closeAccounts() {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	delete(resources.loops, l)
	for _, r := range resources.all {
		r.taken.Add(l.accounts.taken[r.index])
		r.given.Add(l.accounts.given[r.index])
	}
}
