package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// byTask has a task for each connection.
func byTask(addr string, m *movie) error {
	return capriccio.Run(context.Background(), func(ctx context.Context) error {
		file, err := openDirect(m.name)
		if err != nil {
			return err
		}
		defer file.Close()
		ln, err := netpoll.ListenConfig{DrainLimit: time.Second}.Listen(ctx, "tcp", addr) // a film has no end
		if err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		return netpoll.Serve(ln, func(c *netpoll.Conn) {
			defer c.Close()
			play(c, file, m, getBuffer(), task.Sleep)
		})
	})
}
