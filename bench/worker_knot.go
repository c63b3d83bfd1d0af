package main

import (
	"bytes"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// runKnot is our server in hello and idle-conns: Knot's HTTP layer with a fixed
// response, on one loop. It ends with its standard input.
func runKnot(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("knot", flag.ExitOnError)
	graph := flags.Bool("graph", false, "learn the blocking graph, as a program does unless told otherwise")
	bare := flags.Bool("bare", false, "no blocking graph, first in, first out")
	patient := flags.Bool("patient", false, "let requests wait that would be refused; graph and scheduler as the environment says")
	adapted := flags.Bool("http", false, "answer with the handler of net/http that the peer net-http has, in tasks")
	backend := flags.String("proxy", "", "pass all requests on to this `address`")
	upgrade := flags.Bool("upgraded", false, "take each connection over, and answer without the server")
	flags.Parse(args)
	start := oneLoop
	if *bare {
		start = bareLoop
	}
	if *patient {
		start = func() (*task.Runtime, error) { return oneLoopWith(capriccio.WithoutRefusals()) }
	}
	if *graph {
		learned := recorder.New(bgraph.Config{})
		start = func() (*task.Runtime, error) { return loopObservedBy(learned) }
		reportStep(learned, out)
	}
	rt, err := start()
	if err != nil {
		return err
	}
	server := &knot.Server{H2C: true, Handler: func(x *knot.Ctx) error {
		return x.SendString(200, "text/plain", "Hello, World!")
	}}
	if *adapted {
		server.Handler = knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "Hello, World!")
		}))
	}
	if *upgrade {
		server.Handler = serveUpgraded
	}
	if *backend != "" {
		p, err := proxy.New(proxy.Config{Backends: []string{"http://" + *backend}})
		if err != nil {
			return err
		}
		server.Handler = p.Serve
	}
	return serveKnot(rt, server, out)
}

// reportStep prints, whenever the process gets SIGUSR1, the mean time between two waits.
func reportStep(g *recorder.Graph, out io.Writer) {
	onSignal(func(os.Signal) {
		var steps uint64
		var total bgraph.Nanos
		for s, i := g.Snapshot(), 0; i < len(s.Edges); i++ {
			steps += s.Edges[i].Count
			total += s.Edges[i].TotalCPU()
		}
		emitAt(out, 1)("step", "ns", float64(total)/float64(max(steps, 1)))
	}, syscall.SIGUSR1)
}

// onSignal calls answer for each of the signals that the process gets.
func onSignal(answer func(os.Signal), signals ...os.Signal) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, signals...)
	go func() {
		for s := range asked {
			answer(s)
		}
	}()
}

// runTaskServer is the system capriccio-task of idle-conns: a task for each connection, which
// waits for the next request in Read, with its stack and its buffer. It ends with its
// standard input.
func runTaskServer(_ []string, out io.Writer) error {
	rt, err := oneLoop()
	if err != nil {
		return err
	}
	return serveInTask(rt, out, func(ln *netpoll.Listener) error {
		return acceptAll(ln, func(c net.Conn) { task.Go(func() { answerRequests(c) }) })
	})
}

const taskResponse = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"

// answerRequests answers whatever ends with a blank line.
func answerRequests(c net.Conn) {
	defer c.Close()
	buffer := make([]byte, 256)
	for have := 0; have < len(buffer); {
		n, err := c.Read(buffer[have:])
		if err != nil {
			return
		}
		have += n
		if bytes.HasSuffix(buffer[:have], []byte("\r\n\r\n")) {
			if _, err := io.WriteString(c, taskResponse); err != nil {
				return
			}
			have = 0
		}
	}
}
