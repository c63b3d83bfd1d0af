//go:build linux

package netpoll_test

import (
	"context"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// A server that holds no task, stack or buffer for a connection that is idle.
func ExampleConn_OnReadable() {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("unix", "@netpoll-example")
		if err != nil {
			return err
		}
		defer ln.Close()
		c, err := netpoll.Dial("unix", "@netpoll-example")
		if err != nil {
			return err
		}
		defer c.Close()
		s, err := ln.AcceptConn()
		if err != nil {
			return err
		}
		defer s.Close()
		got := task.NewChan[string](1)
		if err := s.OnReadable(func() {
			buf := make([]byte, 100)
			n, _ := s.Read(buf)
			got.Send(string(buf[:n]))
		}); err != nil {
			return err
		}
		io.WriteString(c, "request")
		request, err := got.Recv()
		fmt.Println(request)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: request
}
