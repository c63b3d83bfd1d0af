package admit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Resource is something that tasks take and give back, and that there is not enough of for
// any number of tasks: descriptors, bytes of buffers, database connections.
//
// The loops of a runtime count in their Accounts what their tasks take. Plain goroutines have no loop: they count in
// the Resource. Its methods may be called from any goroutine.
type Resource struct {
	name, unit string
	index      int // in Accounts
	limit      atomic.Int64
	usual      func() int64 // the limit while none is set; constant, may be nil
	process    bool         // what one runtime takes, another can't have; constant
	endless    bool         // it is only ever taken; constant

	// Amounts that plain goroutines have taken and given back, and that ended runtimes had not given back.
	taken, given atomic.Uint64
	done         atomic.Uint64 // taken by such runtimes, and given back
}

// MaxResources is how many resources a process may have.
const MaxResources = 16

// resources are the declarations, which stand in package variables and are there before any runtime.
var resources struct {
	mu    sync.Mutex
	all   []*Resource     // guarded by mu; replaced, not changed
	books map[*Books]bool // guarded by mu: of the runtimes that count
}

// An Account is what one loop counts of the resources, by their indexes. Loop-private; others read it with coro.Peek.
type Account struct {
	Taken, Given [MaxResources]uint64
	Moves        uint64 // changes when Taken or Given do, but for tasks without a limit
	Moved        uint32 // a bit for each resource whose sums may have changed since the recorder last looked
}

// Take counts n that were taken of the resource with that index.
func (a *Account) Take(index int, n uint64) {
	a.Taken[index%MaxResources] += n
	a.Move(index)
}

// Give counts n that were given back.
func (a *Account) Give(index int, n uint64) {
	a.Given[index%MaxResources] += n
	a.Move(index)
}

// Move records a change of the resource with that index.
func (a *Account) Move(index int) {
	a.Moves++
	a.Moved |= 1 << (uint(index) % MaxResources)
}

// Balance is what has been taken, less what has been given back.
func (a *Account) Balance(index int) int64 { return int64(a.Taken[index] - a.Given[index]) }

// Books are how a runtime counts resources: the Accounts of its loops. Guarded by resources.mu but for the atomic fields.
type Books struct {
	Started, Dropped atomic.Uint64 // tasks that no loop has counted: spawned from outside, never to start

	accounts []*Account
	tasks    *Resource                // what Started and Dropped count
	open     int                      // loops that have not ended
	before   [MaxResources][2]uint64  // of Totals, what was over before it was opened; not changed after that
	end      *[MaxResources][2]uint64 // Totals when the last loop ended; nil: it has not
}

// Open has the books count, with the accounts of the loops.
func (b *Books) Open(tasks *Resource, accounts []*Account) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	b.tasks, b.accounts, b.open = tasks, accounts, len(accounts)
	for _, r := range resources.all {
		acquired, released := b.totals(r)
		over := min(acquired, released)
		b.before[r.index] = [2]uint64{over, over}
		if r.endless {
			b.before[r.index] = [2]uint64{acquired, released}
		}
	}
	if resources.books == nil {
		resources.books = make(map[*Books]bool)
	}
	resources.books[b] = true
}

// Close is called when a loop has ended. What the loops have not given back when all have ended is left to the plain
// goroutines.
func (b *Books) Close() {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	if b.open--; b.open > 0 {
		return
	}
	end := new([MaxResources][2]uint64)
	for _, r := range resources.all {
		end[r.index][0], end[r.index][1] = b.totals(r)
	}
	b.end = end
	delete(resources.books, b)
	for _, r := range resources.all {
		taken, given := b.counted(r)
		done := min(taken, given)
		if r.endless {
			done = taken // it is never given back
		}
		r.done.Add(done)
		r.taken.Add(taken - done)
		r.given.Add(given - min(done, given))
	}
}

// counted is what the loops have counted.
func (b *Books) counted(r *Resource) (taken, given uint64) {
	for _, a := range b.accounts {
		taken += coro.Peek(uintptr(unsafe.Pointer(&a.Taken[r.index])))
		given += coro.Peek(uintptr(unsafe.Pointer(&a.Given[r.index])))
	}
	if r == b.tasks {
		taken, given = taken+b.Started.Load(), given+b.Dropped.Load()
	}
	return taken, given
}

// Totals returns how much of r has been taken and given back while the runtime was there: by its tasks, and by plain
// goroutines, as they belong to no runtime. What was in use when it was made counts as taken. Of what there is only once in
// a process, what other runtimes take is in it.
func (b *Books) Totals(r *Resource) (acquired, released uint64) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	return b.totals(r)
}

func (b *Books) totals(r *Resource) (acquired, released uint64) {
	if b.end != nil {
		return b.end[r.index][0], b.end[r.index][1]
	}
	if r.process {
		acquired, released = r.totals()
	} else {
		acquired, released = b.counted(r)
		acquired, released = acquired+r.taken.Load(), released+r.given.Load()
	}
	return acquired - b.before[r.index][0], released - b.before[r.index][1]
}

// InUse is what has been taken of r and not given back, as Totals counts it.
func (b *Books) InUse(r *Resource) int64 {
	acquired, released := b.Totals(r)
	return int64(acquired - released)
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

// OfProcess is for what there is only once in a process.
func (r *Resource) OfProcess() *Resource {
	r.process = true
	return r
}

// Endless is for what is only ever taken.
func (r *Resource) Endless() *Resource {
	r.endless = true
	return r
}

// Usually sets what the limit is while none is set.
func (r *Resource) Usually(limit func() int64) { r.usual = limit }

// LimitSet is what SetLimit was called with, for readers in a hurry.
func (r *Resource) LimitSet() *atomic.Int64 { return &r.limit }

// Index is the position in Resources, and in an Account.
func (r *Resource) Index() int { return r.index }

// Resources returns those declared so far. The position of a resource, here and in
// an Account, does not change.
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

// Limit is what SetLimit was called with; without that, what Usually has set.
func (r *Resource) Limit() int64 {
	n := r.limit.Load()
	if n == 0 && r.usual != nil {
		return r.usual()
	}
	return n
}

// Take counts n that a plain goroutine has taken.
func (r *Resource) Take(n uint64) { r.taken.Add(n) }

// Give counts n that a plain goroutine has given back.
func (r *Resource) Give(n uint64) { r.given.Add(n) }

// Totals returns how much has been taken and given back since the process started, by all
// loops and goroutines. What is in use is the difference.
func (r *Resource) Totals() (acquired, released uint64) {
	resources.mu.Lock()
	defer resources.mu.Unlock()
	return r.totals()
}

func (r *Resource) totals() (acquired, released uint64) {
	acquired, released = r.taken.Load()+r.done.Load(), r.given.Load()+r.done.Load()
	for b := range resources.books {
		taken, given := b.counted(r)
		acquired, released = acquired+taken, released+given
	}
	return acquired, released
}

// InUse is what has been taken and not given back.
func (r *Resource) InUse() int64 {
	acquired, released := r.Totals()
	return int64(acquired - released)
}
