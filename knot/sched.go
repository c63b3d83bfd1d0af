package knot

import (
	"context"
	"errors"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// The things that Knot asks of the runtime besides connections. On a plain
// goroutine they are what a goroutine would do.

// offload runs blocking fn away from the loop while the task waits.
func offload(fn func()) { task.Offload(fn) }

// await waits until ctx ends, or the context of the calling task.
func await(ctx context.Context) { task.Await(ctx) }

// yield lets other tasks of the loop run.
func yield() { task.Yield() }

// spawn starts fn beside the caller, on the same kind of thread of control.
func spawn(fn func()) {
	if task.Current() == nil {
		go fn()
		return
	}
	task.Go(fn)
}

// sleep waits for d, or until the task is cancelled.
func sleep(d time.Duration) error { return task.Sleep(d) }

// spawnApart is spawn without the context of the calling task.
func spawnApart(fn func()) {
	if task.Current() == nil {
		go fn()
		return
	}
	// There is a runtime, or there would be no current task; if it is being
	// shut down, fn would fail at once anyway.
	task.Spawn(task.Options{Context: context.Background()}, fn)
}

// answered says that one more request has got its response: what the server is for.
func answered() { task.Progress(1) }

// bufferBytes are the buffers of the connections that are being served, as
// the blocking graph shows them.
var bufferBytes = countBuffers()

func countBuffers() *task.Resource {
	r, err := task.NewResource("connection buffers", "bytes")
	if err != nil {
		panic(err) // the table of resources is empty when packages are set up
	}
	return r
}

// requests is where requests enter.
var requests = makeEntrance()

func makeEntrance() *task.Entrance {
	e, err := task.NewEntrance("request")
	if err != nil {
		panic(err) // the table of entrances is empty when packages are set up
	}
	return e
}

// enter lets c in, which may park; or sets c.refused. The context of the task may end
// meanwhile, then c is served as far as that goes.
func (c *conn) enter() {
	err := requests.Enter()
	c.inside, c.refused = err == nil, errors.Is(err, task.ErrRefused)
}

// leave is for whoever was let in, and harmless otherwise.
func (c *conn) leave() {
	if c.inside {
		c.inside = false
		requests.Leave()
	}
}

func setPriority(p int) { task.SetPriority(p) }
