// Package stackchunk lets a task call a function that needs much stack on a stack that
// is large already and is shared by all tasks of the loop, instead of growing its own.
// It is the run-time half of Capriccio's linked stacks (section 3 of the paper).
//
// A checkpoint is a call through Call. If the stack of the caller has room for what is
// needed until the next checkpoint, it is a plain call. Else the function runs on a
// stack chunk, taken from a pool of the loop, and the chunk goes back when the function
// has returned. Parking on a chunk keeps it linked to the task.
//
// Outside of tasks every Call is a plain call. See docs/stack-chunks.md.
package stackchunk
