package engine

import (
	"fmt"
	"sync"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// TaskInfo describes a task at one moment.
type TaskInfo struct {
	ID     uint64
	Name   string
	Loop   int
	State  string // "ready", "running" or "parked"
	Reason Reason // of the present or the last wait
	On     string // what is waited for, if it can say; else empty
	Node   recorder.NodeID
}

// String is what logs say of the task.
func (i TaskInfo) String() string {
	doing := "is " + i.State
	if i.State == stateNames[stateParked] {
		doing = fmt.Sprintf("waits: %v %s", i.Reason, i.On)
	}
	return fmt.Sprintf("task %s #%d on loop %d %s", i.Name, i.ID, i.Loop, doing)
}

// Tasks describes the tasks that have started, loop by loop. It must be called on a
// plain goroutine, and returns nil elsewhere; it waits until every loop has come to
// the end of its present step, at most Config.Grace.
func (rt *Runtime) Tasks() []TaskInfo {
	if reattach() != nil {
		return nil
	}
	return rt.tasks(nil)
}

// tasks is Tasks that ends when stop is closed; it returns what it knows then.
func (rt *Runtime) tasks(stop <-chan struct{}) []TaskInfo {
	var mu sync.Mutex
	all := []TaskInfo{}
	rt.onLoops(stop, func(l *Loop) {
		var own []TaskInfo
		for t := l.roster.tasks; t != nil; t = t.allNext {
			own = append(own, t.describe())
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, own...)
	})
	mu.Lock()
	defer mu.Unlock()
	return all[:len(all):len(all)] // a loop that was held may still add to it
}

func (t *Task) describe() TaskInfo {
	i := TaskInfo{ID: t.id, Name: t.Name(), Loop: t.loop.index, State: stateNames[t.state], Reason: t.why, Node: t.rec.Node()}
	if d, ok := t.on.(WaitDescriber); ok && t.state == stateParked {
		i.On = d.DescribeWait()
	}
	return i
}
