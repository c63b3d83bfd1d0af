package engine

import (
	"runtime"
	"strings"
)

// ofTask reports whether a goroutine with this stack runs tasks, or what one has called on a stack chunk.
func ofTask(stack string) bool {
	return strings.Contains(stack, "internal/engine.(*worker).runTasks(") || strings.Contains(stack, chunkRoot+"(")
}

// pulled reports whether a goroutine with this stack runs an iterator of iter.Pull; those of tasks
// are made by that as well.
func pulled(stack string) bool {
	return !ofTask(stack) && strings.Contains(stack, "\ncreated by iter.Pull")
}

// stackText is more bytes than the text of a parked task's stack has, for the most part.
const stackText = 2 << 10

// runningStacks returns the stacks of the goroutines that are not parked and run tasks, or
// iterators of iter.Pull, which may run for a task. Stacks of goroutines that can hold a loop come first. A
// goroutine that waits natively where its task can be detached mostly is detached already, so it comes last.
func runningStacks() string {
	buf := make([]byte, 1<<20+runtime.NumGoroutine()*stackText)
	buf = buf[:runtime.Stack(buf, true)]
	var hold, others []string
	for _, g := range strings.Split(string(buf), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		switch {
		case strings.Contains(head, "[coroutine") || !ofTask(g) && !pulled(g):
		case waitsNatively(g) && tiedTo(g) == "":
			others = append(others, g)
		default:
			hold = append(hold, g)
		}
	}
	return strings.Join(append(hold, others...), "\n\n")
}

// holdAdvice is what to do about the first of stacks, which holds a loop.
func holdAdvice(stacks string) string {
	first, _, _ := strings.Cut(stacks, "\n\n")
	if why := tiedTo(first); why != "" && waitsNatively(first) {
		return why
	}
	return "blocking calls belong in task.Offload, long computations need task.Yield"
}

// tiedTo tells why a loop can't be taken from the goroutine with this stack if it waits natively,
// and what to do; empty if that does not show.
func tiedTo(stack string) string {
	switch {
	case pulled(stack):
		return "it waits natively in an iterator of iter.Pull, where no loop can be taken from it: use what package task has to wait there, or pull in task.Offload"
	case strings.Contains(stack, "._Cfunc_") && goroutineState(stack) != "syscall":
		return "it waits natively in a function that C has called, where no loop can be taken from it: call C in task.Offload"
	}
	return ""
}

// waitsNatively reports whether the goroutine with this stack waits, in the Go runtime or the system.
func waitsNatively(stack string) bool {
	switch state := goroutineState(stack); state {
	case "", "running", "runnable", "preempted", "copystack":
		return false
	default:
		return !strings.HasPrefix(state, "GC ")
	}
}
