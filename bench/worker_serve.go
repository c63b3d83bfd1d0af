package main

import (
	"fmt"
	"io"
	"net"
	"os"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// What the workers that are servers share. Each prints where it listens once it does, and ends with its
// standard input, or with an error.

// serveOnGoroutines serves on goroutines.
func serveOnGoroutines(out io.Writer, serve func(net.Listener) error) error {
	return serveOnGoroutinesAt("tcp", "127.0.0.1:0", out, serve)
}

func serveOnGoroutinesAt(network, addr string, out io.Writer, serve func(net.Listener) error) error {
	ln, err := net.Listen(network, addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening", ln.Addr())
	failed := make(chan error, 2)
	go func() { failed <- serve(ln) }()
	return untilInputEnds(failed)
}

// serveInTask serves in a task of rt.
func serveInTask(rt *task.Runtime, out io.Writer, serve func(*netpoll.Listener) error) error {
	return serveInTaskAt("tcp", "127.0.0.1:0", rt, out, serve)
}

func serveInTaskAt(network, addr string, rt *task.Runtime, out io.Writer, serve func(*netpoll.Listener) error) error {
	failed := make(chan error, 2)
	rt.Go(func() {
		ln, err := netpoll.Listen(network, addr)
		if err != nil {
			failed <- err
			return
		}
		fmt.Fprintln(out, "listening", ln.Addr())
		failed <- serve(ln)
	})
	return untilInputEnds(failed)
}

// serveKnot serves by Knot, in tasks of rt.
func serveKnot(rt *task.Runtime, server *knot.Server, out io.Writer) error {
	return serveInTask(rt, out, func(ln *netpoll.Listener) error { return server.Serve(ln) })
}

// untilInputEnds waits for the end of standard input, or for what fails before.
func untilInputEnds(failed chan error) error {
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
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
