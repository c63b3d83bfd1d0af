package knot

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/capriccio-go/capriccio/task"
)

// ErrHandedOver is the cause (context.Cause) with which the context of Run ends when another process accepts
// connections on the same sockets from now on, see Sockets. Run then stops without losing a request: it leaves
// connections that wait to be accepted to the other process, and lets each idle connection send one more request, for
// ShutdownTimeout; the answer is the last on that connection.
var ErrHandedOver = errors.New("knot: another process serves on")

// lastAnswers is how long requests may take that have begun when a hand-over has run out of time.
const lastAnswers = time.Second

// Sockets returns duplicates of the sockets that the server listens on, to be handed to another
// process, which makes listeners of them by netpoll.ListenOn. It is an error if one of the listeners
// has none. The caller closes them. The method Fd of one that a listener of package net has makes the socket
// blocking, for all that have it: take its number by SyscallConn. Safe from anywhere.
func (s *Server) Sockets() (files []*os.File, err error) {
	for _, ln := range s.conns.tracked() {
		var some []*os.File
		switch ln := ln.(type) {
		case interface{ Files() ([]*os.File, error) }:
			some, err = ln.Files()
		case interface{ File() (*os.File, error) }: // of package net
			var one *os.File
			one, err = ln.File()
			some = []*os.File{one}
		default:
			err = &net.OpError{Op: "dup", Net: "tcp", Err: errors.New("this listener has no socket to hand over")}
		}
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			return nil, err
		}
		files = append(files, some...)
	}
	return files, nil
}

// handOver stops the server when another process has its sockets. It parks.
func (s *Server) handOver(ctx context.Context) error {
	s.handing.Store(true) // before stopping, so that it is not taken for a shutdown
	s.conns.stopping.Store(true)
	s.sayGoAway()
	task.Offload(func() {
		for _, ln := range s.conns.tracked() {
			if ln, ok := ln.(interface{ SetUnlinkOnClose(bool) }); ok {
				ln.SetUnlinkOnClose(false) // the file is the other process's now
			}
			if own, ok := ln.(requestListener); ok {
				own.Drain(ctx)
			} else {
				ln.Close()
			}
		}
		s.awaitDrained(ctx)
	})
	limit, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	return s.Shutdown(limit)
}
