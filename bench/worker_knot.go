package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

// runKnot is our server in hello and idle-conns: Knot's HTTP layer with a fixed
// response, on one loop. It ends with its standard input.
func runKnot(args []string, out io.Writer) error {
	if err := flag.NewFlagSet("knot", flag.ContinueOnError).Parse(args); err != nil {
		return err
	}
	rt, err := oneLoop()
	if err != nil {
		return err
	}
	server := &knot.Server{Handler: func(x *knot.Ctx) error {
		return x.SendString(200, "text/plain", "Hello, World!")
	}}
	failed := make(chan error, 2)
	rt.Go(func() {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			failed <- err
			return
		}
		fmt.Fprintln(out, "listening", ln.Addr())
		failed <- netpoll.Serve(ln, func(c *netpoll.Conn) { server.ServeConn(c) })
	})
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	return <-failed
}
