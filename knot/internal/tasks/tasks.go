// Package tasks is what Knot's packages ask of the task runtime besides connections. On a plain goroutine it is what a
// goroutine would do.
package tasks

import (
	"context"

	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// Spawn starts fn beside the caller, on the same kind of thread of control.
func Spawn(fn func()) {
	if task.Current() == nil {
		go fn()
		return
	}
	task.Go(fn)
}

// Entrance makes an entrance of that name, when packages are set up: then the table of entrances has room.
func Entrance(name string) *ressched.Entrance {
	e, err := ressched.NewEntrance(name)
	if err != nil {
		panic(err)
	}
	return e
}

// SpawnApart starts fn beside the caller, on the same kind of thread of control, without the context of the calling task.
func SpawnApart(fn func()) {
	if task.Current() == nil {
		go fn()
		return
	}
	// There is a runtime, or there would be no current task; if it is being
	// shut down, fn would fail at once anyway.
	task.Spawn(task.Options{Context: context.Background()}, fn)
}

// Resource makes a resource of that name, when packages are set up: then the table of resources has room.
func Resource(name, unit string) *ressched.Resource {
	r, err := ressched.NewResource(name, unit)
	if err != nil {
		panic(err)
	}
	return r
}

// Buffers counts the bytes of the buffers of the connections that are being served, as
// the blocking graph shows them.
var Buffers = Resource("connection buffers", "bytes")
