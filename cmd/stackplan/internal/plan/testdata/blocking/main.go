// Command blocking waits in all kinds of ways and writes the blocking graph of its run
// to the file that it is given.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

func main() {
	err := capriccio.Run(context.Background(), func(context.Context) error { return run(os.Args[1]) }, capriccio.WithLoops(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dump string) error {
	var group task.WaitGroup
	jobs := task.NewChan[int](2)
	var mu task.Mutex
	for range 3 {
		group.Add(1)
		task.Go(func() {
			defer group.Done()
			work(jobs, &mu)
		})
	}
	for i := range 40 {
		if err := jobs.Send(i); err != nil {
			return err
		}
	}
	jobs.Close()
	group.Wait()
	if err := talk(); err != nil {
		return err
	}
	f, err := os.Create(dump)
	if err != nil {
		return err
	}
	defer f.Close()
	return capriccio.Snapshot(nil).Encode(f)
}

func work(jobs *task.Chan[int], mu *task.Mutex) {
	for {
		n, err := jobs.Recv()
		if err != nil {
			return
		}
		handle(n, mu)
	}
}

func handle(n int, mu sync.Locker) {
	mu.Lock()
	defer mu.Unlock()
	switch n % 4 {
	case 0:
		task.Sleep(time.Millisecond)
	case 1:
		deep(n % 7)
	case 2:
		task.Offload(func() {})
	default:
		defer task.Yield()
		ressched.YieldAt("stage")
	}
}

func deep(n int) {
	if n > 0 {
		deep(n - 1)
		return
	}
	task.Yield()
}

// talk echoes a few lines over TCP.
func talk() error {
	ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := task.Go(func() {
		netpoll.Serve(ln, func(c *netpoll.Conn) {
			defer c.Close()
			io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
		})
	})
	c, err := netpoll.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	for range 5 {
		if err := echo(c); err != nil {
			return err
		}
	}
	c.Close()
	ln.Close()
	return server.Join()
}

func echo(c net.Conn) error {
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}
