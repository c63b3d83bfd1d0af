//go:build linux

package netpoll_test

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// An echo server and a client of it, each in tasks.
func Example() {
	err := capriccio.Run(context.Background(), func(ctx context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		task.Go(func() {
			netpoll.Serve(ln, func(c *netpoll.Conn) {
				defer c.Close()
				io.Copy(c, c)
			})
		})
		c, err := netpoll.DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		fmt.Fprintln(c, "hello")
		line, err := bufio.NewReader(c).ReadString('\n')
		fmt.Print(line)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: hello
}

// A server that holds no task, stack or buffer for a connection that is idle.
func ExampleConn_OnReadable() {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		r, w := make(chan string, 1), "request"
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
		done := task.NewChan[bool](0)
		if err := s.OnReadable(func() {
			buf := make([]byte, 100)
			n, _ := s.Read(buf)
			r <- string(buf[:n])
			done.Send(true)
		}); err != nil {
			return err
		}
		io.WriteString(c, w)
		done.Recv()
		fmt.Println(<-r)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: request
}
