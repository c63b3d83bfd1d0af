// Package load is the client of the HTTP experiments: many connections driven by one
// thread over epoll(7). It spends less on a request than the servers it is to saturate.
//
// Open sends requests when they are due, whatever becomes of those before. Run and Closed
// are closed loops, of clients that ask again when they have their answer: Run measures a
// server that serves every request, and fast, Closed one that may refuse some. Crowd is
// clients that come all at once.
//
// Each occupies its thread; nothing here may be called from a task.
package load
