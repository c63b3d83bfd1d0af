package capriccio_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// An echo server: every connection is served by a task of its own, in plain blocking
// code. Here main ends after one exchange; a real server would wait for ctx.
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
		fmt.Fprint(c, "hello")
		c.(interface{ CloseWrite() error }).CloseWrite()
		_, err = io.Copy(os.Stdout, c)
		return err
	}, capriccio.WithLoops(1))
	if err != nil {
		fmt.Println(err)
	}
	// Output: hello
}

// A program that is not written around Run can still use the runtime's connections
// from its goroutines.
func ExampleNew() {
	rt, err := capriccio.New(capriccio.WithLoops(1))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()
	var _ net.Listener = ln
	fmt.Println(ln.Addr().Network())
	// Output: tcp
}

// What the blocking graph knows of a place in the program.
func ExampleSnapshot() {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		for range 3 {
			ressched.YieldAt("look something up")
		}
		s := capriccio.Snapshot(nil)
		for _, n := range s.Nodes {
			if n.Name == "look something up" {
				fmt.Println(n.Name, n.Arrivals)
			}
		}
		return nil
	}, capriccio.WithLoops(1))
	if err != nil {
		fmt.Println(err)
	}
	// Output: look something up 3
}
