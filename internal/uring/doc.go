// Package uring is the io_uring(7) of one loop: Ring, the two queues that are shared with the kernel, and Driver, which
// gives each request a token, finds the Completer of each completion, and both hands over requests and waits in one
// io_uring_enter(2).
//
// Ring has the names and signatures of github.com/pawelgaczynski/giouring for the part in
// use. With the build tag giouring it is that package's Ring, which links only with
// -ldflags=-checklinkname=0. Code that is to build both ways keeps to Driver, to the
// methods of Ring and SubmissionQueueEntry, and to the functions of this package.
//
// Everything belongs to one loop and is called on its goroutine, except where it says
// otherwise. Nothing here starts a goroutine or a thread, parks a task, or reads the
// environment. The kernel may start threads of its own for what it can't do without
// blocking.
//
// # Memory
//
// The kernel reads and writes the memory that a request points to until its last completion.
// It must lie on the heap, not on a stack, which moves, and it must be referenced: by the
// Completer, for example, which the Driver keeps until then. A []byte that is stored in a
// Completer fulfils both. An address put into an entry as a number does neither.
//
// It needs Linux 5.11 (IORING_ENTER_EXT_ARG); multishot operations and buffer rings need
// later versions, and what is refused says so by EINVAL in the completion.
package uring
