package recorder

import "math"

// A NodeID names a place where tasks wait, a node of the blocking graph. Node 0 is
// where tasks start.
type NodeID uint32

// The nodes that are not places.
const (
	NodeStart    NodeID = 0              // of tasks that have not started yet
	NodeEnd      NodeID = 1              // of tasks that have finished
	nodeOverflow NodeID = 2              // stands for all nodes beyond the limit
	NodeNone     NodeID = math.MaxUint32 // no node
)

// A Reason says what kind of thing a task waits for.
type Reason uint8

// The reasons for which a task waits.
const (
	ReasonNone Reason = iota
	ReasonStart
	ReasonYield
	ReasonSleep
	ReasonMutex
	ReasonRWMutexRead
	ReasonRWMutexWrite
	ReasonCond
	ReasonWaitGroup
	ReasonSemaphore
	ReasonOnce
	ReasonChanSend
	ReasonChanRecv
	ReasonSelect
	ReasonJoin
	ReasonContext
	ReasonOffload
	ReasonLoop // for another loop to give up the guard of a lock
	ReasonRead
	ReasonWrite
	ReasonAccept
	ReasonConnect
	ReasonDisk
	ReasonEntrance
	ReasonDescriptor // for another operation of the same direction
	ReasonClose      // for the last user of what is closed
	ReasonNative     // in Go or in the system, outside of this runtime
	ReasonMark       // not at all: the task only passes a place that has a name
	reasonCount
)

var reasonNames = [reasonCount]string{
	"none", "start", "yield", "sleep", "mutex", "rwmutex read", "rwmutex write", "cond",
	"waitgroup", "semaphore", "once", "channel send", "channel receive", "select", "join",
	"context", "offload", "loop", "read", "write", "accept", "connect", "disk", "entrance",
	"descriptor", "close", "native", "mark",
}

// Waits reports whether a task that waits for r does not go on by itself.
func (r Reason) Waits() bool { return r != ReasonYield && r != ReasonMark }

func (r Reason) String() string {
	if r < reasonCount {
		return reasonNames[r]
	}
	return "unknown"
}
