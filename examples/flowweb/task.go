package main

import (
	"context"
	"fmt"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/netpoll"
)

// byTask has a task for each connection.
func byTask(addr, root string) error {
	return capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", addr)
		if err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		return serveByTask(ln, root)
	})
}

func serveByTask(ln *netpoll.Listener, root string) error {
	return netpoll.Serve(ln, func(c *netpoll.Conn) { converse(c, root, aio.Open) })
}
