// Package load is the client of the HTTP experiments: many keep-alive
// connections driven by one thread over epoll(7), each with a number of requests
// under way. It spends less on a request than the servers it is to saturate.
//
// It knows no HTTP beyond the length of a response, which it learns from the
// first one on each connection; all later ones must have the same length.
// One Run occupies its thread; nothing here may be called from a task.
package load
