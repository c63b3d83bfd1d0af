package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// runKnot is our server in hello and idle-conns: Knot's HTTP layer with a fixed
// response, on one loop. It ends with its standard input.
func runKnot(args []string, out io.Writer) {
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
		learned := recorder.New(recorder.Config{})
		start = func() (*task.Runtime, error) { return loopObservedBy(learned) }
		reportStep(learned, out)
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
		server.Handler = must(proxy.New(proxy.Config{Backends: []string{"http://" + *backend}})).Handle
	}
	serveKnot(must(start()), server, out)
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
func runTaskServer(_ []string, out io.Writer) {
	serveInTask(must(oneLoop()), out, func(ln *netpoll.Listener) error {
		return acceptAll(ln, func(c net.Conn) { task.Go(func() { answerRequests(c) }) })
	})
}

const taskResponse = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!"

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

// runReverseProxy is the standard library's proxy, to the address that is its argument. It ends with its standard input.
func runReverseProxy(args []string, out io.Writer) {
	backend := &url.URL{Scheme: "http", Host: args[0]}
	handler := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(backend); p.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true},
	}
	serveOnGoroutines(out, func(ln net.Listener) error { return http.Serve(ln, handler) })
}

// serveUpgraded answers as a program does that has been given the connection, and waits without a task.
func serveUpgraded(x *knot.Ctx) error {
	nc, _, err := x.Hijack()
	check(err)
	u := &upgraded{nc, nc.(interface{ OnReadable(fn func()) error })}
	u.answer()
	return nil
}

type upgraded struct {
	nc   net.Conn
	wait interface{ OnReadable(fn func()) error }
}

func (u *upgraded) answer() {
	if _, err := io.WriteString(u.nc, taskResponse); err != nil || u.wait.OnReadable(u.read) != nil {
		u.nc.Close()
	}
}

func (u *upgraded) read() {
	var buf [256]byte
	if _, err := u.nc.Read(buf[:]); err != nil {
		u.nc.Close()
		return
	}
	u.answer()
}

// Parts of all workers that are servers. Each prints where it listens once it does, and ends with its
// standard input, or with an error.

func serveOnGoroutines(out io.Writer, serve func(net.Listener) error) {
	serveOnGoroutinesAt("tcp", "127.0.0.1:0", out, serve)
}

func serveOnGoroutinesAt(network, addr string, out io.Writer, serve func(net.Listener) error) {
	ln := must(net.Listen(network, addr))
	fmt.Fprintln(out, "listening", ln.Addr())
	go func() { check(serve(ln)) }()
	untilInputEnds()
}

func serveInTask(rt *task.Runtime, out io.Writer, serve func(*netpoll.Listener) error) {
	serveInTaskAt("tcp", "127.0.0.1:0", rt, out, serve)
}

func serveInTaskAt(network, addr string, rt *task.Runtime, out io.Writer, serve func(*netpoll.Listener) error) {
	rt.Go(func() {
		ln := must(netpoll.Listen(network, addr))
		fmt.Fprintln(out, "listening", ln.Addr())
		check(serve(ln))
	})
	untilInputEnds()
}

func serveKnot(rt *task.Runtime, server *knot.Server, out io.Writer) {
	serveInTask(rt, out, func(ln *netpoll.Listener) error { return server.Serve(ln) })
}

func untilInputEnds() {
	must(io.Copy(io.Discard, os.Stdin))
}

// acceptAll hands every connection over.
func acceptAll(ln net.Listener, handle func(net.Conn)) error {
	for {
		handle(must(ln.Accept()))
	}
}
