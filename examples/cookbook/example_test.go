//go:build linux

package cookbook_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/examples/cookbook"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// run runs main as a task, and prints its error.
func run(main func(ctx context.Context) error) {
	if err := capriccio.Run(context.Background(), main, capriccio.WithoutSignals()); err != nil {
		fmt.Println(err)
	}
}

// serve starts a server of handler, and returns its address.
func serve(handler func(*netpoll.Conn)) string {
	ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	task.Go(func() { netpoll.Serve(ln, handler) })
	return ln.Addr().String()
}

func dial(addr string) net.Conn {
	c, err := netpoll.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	return c
}

func ExampleRoom() {
	run(func(context.Context) error {
		var room cookbook.Room
		addr := serve(room.Serve)
		alice, bob := dial(addr), dial(addr)
		fromAlice, fromBob := bufio.NewReader(alice), bufio.NewReader(bob)
		fmt.Fprintln(alice, "I am here")
		fromAlice.ReadString('\n') // so Alice has joined
		fmt.Fprintln(bob, "so am I")
		line, err := fromAlice.ReadString('\n')
		fmt.Print(line)
		fromBob.ReadString('\n')
		return errors.Join(err, alice.Close(), bob.Close())
	})
	// Output: so am I
}

func ExampleRelay() {
	run(func(context.Context) error {
		echo := serve(func(c *netpoll.Conn) {
			defer c.Close()
			io.Copy(c, c)
		})
		relay := cookbook.Relay{Backend: echo, Idle: 50 * time.Millisecond}
		c := dial(serve(relay.Serve))
		fmt.Fprintln(c, "hello")
		all, err := io.ReadAll(c) // until the relay closes the idle connection
		fmt.Print(string(all))
		return errors.Join(err, c.Close())
	})
	// Output: hello
}

func ExampleCrawl() {
	links := map[string][]string{"/": {"/a", "/b"}, "/a": {"/b", "/c"}, "/c": {"/"}}
	var fetched atomic.Int64
	run(func(ctx context.Context) error {
		return cookbook.Crawl(ctx, "/", 2, func(_ context.Context, page string) ([]string, error) {
			fetched.Add(1)
			return links[page], nil
		})
	})
	fmt.Println(fetched.Load(), "pages")
	// Output: 4 pages
}

func ExampleMap() {
	run(func(context.Context) error {
		squares, err := cookbook.Map(3, []int{1, 2, 3, 4, 5}, func(n int) int { return n * n })
		fmt.Println(squares)
		return err
	})
	// Output: [1 4 9 16 25]
}

func ExampleJobQueue() {
	run(func(context.Context) error {
		queue := cookbook.NewJobQueue(1, 2, 3, time.Millisecond)
		tries := 0
		queue.Add(func() error {
			if tries++; tries < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		queue.Close()
		fmt.Println("tried", tries, "times")
		return nil
	})
	// Output: tried 3 times
}

func ExampleServe() {
	run(func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		server := &knot.Server{
			Addr: "127.0.0.1:0",
			Handler: func(x *knot.Ctx) error {
				stop() // as a signal does in the middle of a request
				return x.SendString(http.StatusOK, "text/plain", "answered\n")
			},
		}
		server.Listening = func(addr net.Addr) {
			go func() {
				response, err := http.Get("http://" + addr.String())
				if err != nil {
					fmt.Println(err)
					return
				}
				defer response.Body.Close()
				text, _ := io.ReadAll(response.Body)
				fmt.Print(string(text))
			}()
		}
		return task.Under(ctx, func() error {
			return cookbook.Serve(ctx, server, func(context.Context) error {
				task.Sleep(time.Millisecond)
				fmt.Println("saved")
				return nil
			})
		})
	})
	// Output:
	// answered
	// saved
}
