package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// What the workers that are servers share. Each says where it listens once it does, and ends with its
// standard input.

// untilInputEnds waits for the end of standard input, or for what fails before.
func untilInputEnds(failed chan error) error {
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}

// serveOnGoroutines listens, and serves on goroutines of its own.
func serveOnGoroutines(out io.Writer, failed chan<- error, serve func(net.Listener) error) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening", ln.Addr())
	go func() { failed <- serve(ln) }()
	return nil
}

// serveInTask has a task of rt listen, and then serve.
func serveInTask(rt *task.Runtime, out io.Writer, failed chan<- error, serve func(*netpoll.Listener) error) {
	rt.Go(func() {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			failed <- err
			return
		}
		fmt.Fprintln(out, "listening", ln.Addr())
		failed <- serve(ln)
	})
}

// acceptAll hands every connection over, until accepting fails.
func acceptAll(ln net.Listener, handle func(net.Conn)) error {
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		handle(c)
	}
}
