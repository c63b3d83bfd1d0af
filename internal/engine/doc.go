// Package engine runs tasks on event loops. Programs see it through packages task and ressched,
// whose types are those of this package with the methods that programs call; what such a method
// promises is said there. Packages that make tasks wait, or start them, are built on this one:
// Waiter, Loop.Start, Alarm.
//
// It knows no socket, no file and no policy but fifo. It declares the small interfaces
// that it needs of others: Poller, Policy, Admission, Clock. Package recorder records the work of the loops.
//
// Start reading at Loop.run, Waiter.Wait and Loop.handOver; docs/scheduler.md goes through it all.
package engine
