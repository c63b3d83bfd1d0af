// Package ressched tells the scheduler about the program: where work comes in (Entrance), which resources are scarce
// (Resource), which operations share data (Stage), where a stage of the work ends (YieldAt), how important a task is
// (SetPriority, and Options of package task), and how much work has been done (Progress). All of these calls are
// optional, and cost next to nothing with a scheduler that ignores them.
//
// Declarations stand in package variables, which are there before any runtime. Each runtime that uses them has queues
// and counts of its own. Two runtimes in one process share only the counts of descriptors and of space for stacks.
//
// Sources: Capriccio (SOSP 2003), section 4.2; Cohort Scheduling (USENIX 2002). docs/scheduler.md,
// docs/resource-scheduling.md and docs/overload.md describe how the schedulers use it.
package ressched

import (
	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
)

// Limits of a process: how many names there may be.
const (
	MaxEntrances = admit.MaxEntrances
	MaxResources = admit.MaxResources
)

// ErrRefused is returned by Enter when the program has more work than it can do in time. The caller should turn the
// work away as cheaply as possible.
var ErrRefused = engine.ErrRefused

// Descriptors are the open sockets, files and pipes of packages netpoll and aio. Its limit is that
// of the process (RLIMIT_NOFILE), unless the program has set another.
var Descriptors = (*Resource)(engine.Descriptors)

// Tasks is the number of tasks that have not finished. It has no limit unless the program sets one.
var Tasks = (*Resource)(engine.Tasks)

// StackSpace is the stack chunks that tasks hold, in bytes. Its limit is that of package stackchunk for the
// process, unless the program has set another: beyond it functions run on the stacks of their tasks, which grow.
var StackSpace = (*Resource)(engine.StackSpace)

// An Entrance is a place where work comes into the program: a request, a connection, a job from a queue. Admitted work
// will take resources, so an entrance is where a program is protected from more work than it can do (Capriccio, section
// 4.2: admission control). With the scheduler resource, work may have to wait at the entrance, or be refused; the other
// schedulers admit all work at once.
//
// Make one with NewEntrance, once; each runtime has an entry queue of its own there. Its methods
// may be called from any goroutine.
type Entrance engine.Entrance

// Enter admits the calling task, at once or after the task has parked in the entry queue,
// and returns nil; the task must then call Leave when its work is done. Enter
// returns ErrRefused if the work is refused, and the context's error if the
// task is cancelled while it waits. A plain goroutine is admitted at once.
func (e *Entrance) Enter() error { return (*engine.Entrance)(e).Enter() }

// Leave ends the work of a task that Enter has admitted. It is called by that
// task, or by another of its loop. It never parks.
func (e *Entrance) Leave() { (*engine.Entrance)(e).Leave() }

// A Resource is something that tasks take and give back, and that is limited: descriptors, bytes of buffers, database
// connections. The runtime counts what each step takes and gives back, so that the blocking graph can show it, and a
// scheduler can prefer the steps that give back what is scarce (Capriccio, section 4.1). It limits nothing by itself;
// see task.Semaphore for that.
//
// Make one with NewResource, once; each runtime counts for itself what its tasks take. Its methods may be
// called from tasks and from plain goroutines, and never park.
type Resource admit.Resource

// SetLimit says how much there is of the resource; 0: unknown, the default; below 0:
// unknown too, and a scheduler that can is to find out how much is good to use. It holds for each
// runtime by itself, but for Descriptors and StackSpace.
func (r *Resource) SetLimit(n int64) { (*admit.Resource)(r).SetLimit(n) }

// Limit is what SetLimit was called with; without that, of StackSpace, the limit of package stackchunk.
func (r *Resource) Limit() int64 { return (*admit.Resource)(r).Limit() }

// Acquire records that the caller has taken n more of the resource. It panics if n is negative.
func (r *Resource) Acquire(n int64) { engine.Acquire((*admit.Resource)(r), n) }

// Release records that the caller has given n of the resource back. It need not be the one
// that took them. It panics if n is negative.
func (r *Resource) Release(n int64) { engine.Release((*admit.Resource)(r), n) }

// InUse is what has been taken and not given back, in the whole process.
func (r *Resource) InUse() int64 { return (*admit.Resource)(r).InUse() }

// NewEntrance declares an entrance, under the name by which the blocking graph shows it.
// The entrance of that name is returned if there is one. It is an error if the name is
// empty, and when there are MaxEntrances.
func NewEntrance(name string) (*Entrance, error) {
	x, err := engine.NewEntrance(name)
	return (*Entrance)(x), err
}

// NewResource declares a resource. unit is what its numbers count, "bytes" for example;
// it may be empty for things. The resource of that name and unit is returned if there is
// one. It is an error if the name is empty or has another unit already, and when there
// are MaxResources.
func NewResource(name, unit string) (*Resource, error) {
	x, err := admit.NewResource(name, unit)
	return (*Resource)(x), err
}

// Progress records that the calling task has done n more units of the program's work: answered n requests, say. It
// never parks.
func Progress(n int) { engine.Progress(n) }

// SetPriority says how important the calling task is from now on, see task.Options.
// On a plain goroutine it does nothing. It never parks.
func SetPriority(p int) { engine.SetPriority(p) }

// YieldAt is task.Yield at a place that has a name: a stage boundary, which the blocking graph
// shows under that name, apart from other names at the same place. Names are meant to be
// few, constants of the program.
func YieldAt(name string) { engine.YieldAt(name) }

// Mark names the place where the calling task is, without letting others run: in the blocking
// graph it is a node where a step ends and the next begins, so that pieces of work that never
// wait can be told apart. Names are meant to be few, constants of the program; "" marks nothing,
// nor does a goroutine that is no task. It never parks.
func Mark(name string) { engine.Mark(name) }
