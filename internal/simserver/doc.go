//go:build linux

// Package simserver simulates everything around a whole server: the kernel's sockets and
// epoll sets, the disk, the memory, and the clients with the network between. Knot, netpoll,
// aio and the scheduler run in it unchanged, so that an overload of ten seconds is a test of
// milliseconds, and comes again from its seed.
//
// A World lives in a bubble of testing/synctest, whose time stands still while anything
// runs. Its conductor is a discrete-event simulation: events in the order of their time,
// ties by the seed. What clients and the kernel do is an event that the conductor carries
// out itself. The run of a loop is an event too: exactly one loop's goroutine runs at a
// time, from one call of EpollWait or Work to the next. Its code takes no simulated time;
// the loop is charged for system calls, and for the work that handlers declare, and is
// resumed that much later.
//
// Goroutines that are not loops (the scheduler's own, timers, offloaded functions, threads
// of aio) run when the bubble's time has come for them, before the conductor goes on.
//
// It is for tests only. One World at a time may exist in a process.
package simserver
