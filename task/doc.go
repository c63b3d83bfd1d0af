// Package task runs light cooperative tasks on a few event loops.
//
// A task is a function written as plain blocking code. It runs on one loop for life;
// while it waits, for a lock, a channel, a timer or, through package netpoll, a
// socket, the loop runs other tasks. A switch goes straight from the task that parks
// to the next one that is ready; the loop's own goroutine runs only when nothing is
// ready or when it is time to ask the poller for events (docs/scheduler.md).
//
// Scheduling is cooperative: a task keeps its loop until it parks or yields. Code that blocks natively (a Go channel, a
// blocking system call, cgo) stops its loop for a millisecond; then the loop goes on without the task
// (docs/native-waits.md). Where that happens often, Offload is cheaper.
//
// Functions take no handle: they find the calling task by the identity of the
// running goroutine. The synchronisation types and the timers also work on plain
// goroutines, which then block as goroutines do. Every exported function and method
// may be called from any goroutine unless its comment says otherwise.
//
// To wait for other tasks use a Group, which returns their first error and, made by NewGroup, cancels the others; a
// WaitGroup if they have no error; Join for one task that is at hand.
//
// A runtime is made by package capriccio in the root of the module. Connections are in package netpoll, files in
// package aio, and resources, stages and priorities for the scheduler in package ressched.
//
// Sources: Capriccio (SOSP 2003) section 2; design differences are in docs/adr.
package task
