// Package netpoll gives tasks sockets and pipes: Listen, Dial, Conn, Listener,
// PacketConn and File, which look like the types of package net and wait by parking
// the calling task instead of a thread.
//
// Each descriptor is registered once, edge triggered, with the Poller of one loop, and
// stays there until it is closed. In the steady state a Read or a Write is one system
// call: the descriptor remembers per direction whether it is worth trying, so no call
// is made just to be told EAGAIN, and none to change what is polled for.
//
// With the poller uring, TCP connections and listeners work by completion instead: the kernel
// receives into buffers that belong to the loop, and accepts, before a task asks, and a
// Read or an Accept takes what is there without a system call. A connection that waits
// owns no buffer. One that is not read from gets up to 32 KiB ahead, then the kernel's own
// buffer fills, and the peer is held up as always. Two things differ: RawConn.Read on a
// connection with unread bytes fails until Read has taken them, and a connection that was
// reset before it was accepted has an unspecified remote address.
//
// Every method may be called by a task of any loop and by a plain goroutine, which
// then blocks alone, without stopping a loop. It is cheapest on the descriptor's own
// loop: the loop of the task that accepted or dialled it. One reader and one writer
// run side by side; further ones queue up, first in, first out.
//
// After 256 KiB (512 KiB of a file), 64 operations or 200 µs in a row without a wait, a call lets other tasks run. So a
// peer that is always ready, or a flood of datagrams or connections, does not keep a loop from its other tasks, and any
// call that may park may also yield.
//
// The package never starts a thread, never blocks a loop, and reads no environment
// variable. It needs Linux, and a runtime (capriccio.Run, capriccio.New), whose loops do the
// polling: on epoll or io_uring, as capriccio.WithPoller says.
//
// Code that holds a sync.Mutex while it reads or writes stops the loop if a second task of the same loop wants that
// mutex: for a millisecond, where tasks can be detached (docs/native-waits.md). With crypto/tls this means: finish
// Handshake before sharing a connection between a reading and a writing task, and let at most one task read and one
// write.
//
// Errors are *net.OpError (Conn, Listener, PacketConn) or *fs.PathError (File) around
// the errno; they satisfy net.ErrClosed, os.ErrDeadlineExceeded and, for a task whose
// context ended while it was waiting, that context's error. ErrDraining, of a server that stops, is an
// os.ErrDeadlineExceeded too.
package netpoll
