// Package aio gives tasks files: Open, Create, File, ReadFile, WriteFile and the rest
// look like their namesakes in package os, and a file that is not in memory makes the calling task wait, never its loop.
//
// A read of data in the page cache is one system call (preadv2(2) with RWF_NOWAIT) and does not park. A read that has
// to wait for the disk is submitted to the io_uring of the loop, once an iteration for all tasks; reads of neighbouring
// blocks of one file that wait in the same iteration become one. Where there is no io_uring, a bounded pool of threads
// does the waiting (SetPoolLimits). One file system can't take all of its threads. The waits have the reason "disk".
//
// Every function may be called by a task of any loop and by a plain goroutine, which
// then blocks alone. Several may use one File at the same time. If the context of a
// task ends while it waits, the request is cancelled, and the call returns, with the
// context's error, when the kernel has let go of the buffer. A task that reads without
// ever having to wait yields now and then.
//
// Opening never waits for the other end of a FIFO; package netpoll is for those.
//
// The package starts a goroutine only for the pool, while there is something to do,
// and reads no environment variable. It needs Linux. Errors are *fs.PathError, or
// *os.LinkError from Rename and Symlink; they satisfy fs.ErrNotExist, fs.ErrClosed and so on.
package aio
