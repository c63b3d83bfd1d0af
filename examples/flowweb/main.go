// Command flowweb is a web server for static files, written as a graph of package flow: the
// web server of Aspen (PPoPP 2007), Figure 1.
//
//	go run ./examples/flowweb -root ./knot/testdata/site
//
//	in ──▶ parse ──▶ serve ──▶ out
//	▲───────┘  ▲────────────────┘
//
// It answers GET and HEAD, keeps connections alive, and knows index.html. SIGUSR2 writes its
// blocking graph, -dot prints its flow graph at the end.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"mime"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime/pprof"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/flow"
	"github.com/capriccio-go/capriccio/flow/flownet"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	root := flag.String("root", ".", "folder of the files")
	delay := flag.Duration("delay", 0, "let each request wait for so long, as for a database")
	fixed := flag.Int("servlets", 0, "always this many servlets in serve; 0: as many as the load needs")
	high := flag.Float64("high", 20, "HIGH of the paper")
	stats := flag.Duration("stats", 0, "print the number of servlets and of responses so often")
	cpu := flag.String("cpuprofile", "", "file for a profile of the processor's time")
	dot := flag.Bool("dot", false, "print the graph at the end, for Graphviz")
	flag.Parse()
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
	}
	s := &serve{root: *root, delay: *delay}
	opt := flow.Options{Min: *fixed, Max: *fixed, High: *high}
	err := capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", *addr)
		if err != nil {
			return err
		}
		g, in := build(ln, s, opt)
		if err := g.Start(); err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		if *stats > 0 {
			task.Go(func() { report(g, *stats) })
		}
		err = in.Serve()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.Shutdown(ctx)
		if *dot {
			g.WriteDOT(os.Stdout)
		}
		return err
	})
	pprof.StopCPUProfile()
	if !flownet.Ended(err) && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// build puts the graph together.
func build(ln *netpoll.Listener, s *serve, opt flow.Options) (*flow.Graph, *flownet.Input) {
	g, p := flow.New("web"), &parse{}
	in, more := flownet.AddInput(g, "in", ln, flownet.InputOptions{})
	parsing := flow.Add(g, "parse", flow.ByFlow, p)
	serving := flow.AddWith(g, "serve", flow.ByFlow, opt, s)
	out, write := flownet.AddOutput(g, "out", flownet.OutputOptions{})

	flow.ConnectAs(&in.Out, parsing, func(d flownet.Data) event { return event{data: d.Bytes, end: d.Err != nil} })
	flow.Connect(&p.Out, serving)
	flow.Connect(&p.Bad, write)
	flow.Back(&p.More, more)
	flow.Connect(&s.Out, write)
	flow.BackAs(&out.Feed, parsing, func(s flownet.Sent) event { return event{sent: true, end: s.Err != nil} })
	return g, in
}

// report prints time, servlets of serve and responses so far.
func report(g *flow.Graph, pause time.Duration) {
	for began := time.Now(); task.Sleep(pause) == nil; {
		s := g.Stats()[2]
		fmt.Printf("%.2f %d %d\n", time.Since(began).Seconds(), s.Servlets, s.Handled)
	}
}

// maxHead is how long the head of a request may be, in bytes.
const maxHead = 16 << 10

// event is what parse hears of a connection.
type event struct {
	data []byte // has come in
	sent bool   // a response has gone out
	end  bool   // nothing more comes, or can go
}

// parse cuts requests out of what comes in, and lets a connection have one at a time.
type parse struct {
	Out   flow.Out[*http.Request]
	Bad   flow.Out[flownet.Chunk]
	More  flow.Out[flownet.More]
	State flow.Vars[parsing]
}

type parsing struct {
	rest  []byte // has come in and is no request yet
	busy  bool   // with a request
	close bool   // after the response
}

func (p *parse) Run(c *flow.Call[event]) {
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		s := p.State.Of(c.Flow())
		s.rest = append(s.rest, e.data...)
		s.busy = s.busy && !e.sent
		s.close = s.close || e.end
		if !s.busy && !s.close {
			p.next(c.Flow(), s)
		}
	}
}

// next sends the next request on; without one it asks for more.
func (p *parse) next(f *flow.Flow, s *parsing) {
	n := bytes.Index(s.rest, []byte("\r\n\r\n"))
	if n < 0 && len(s.rest) <= maxHead {
		p.More.Send(f, flownet.More{})
		return
	}
	s.busy, s.close = true, true // unless it turns out to be good
	if n < 0 {
		p.Bad.Send(f, flownet.Chunk{Bytes: header(nil, http.StatusRequestHeaderFieldsTooLarge, "", 0)})
		return
	}
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(s.rest[:n+4])))
	switch {
	case err != nil || req.ContentLength > 0:
		p.Bad.Send(f, flownet.Chunk{Bytes: header(nil, http.StatusBadRequest, "", 0)})
	case req.Method != "GET" && req.Method != "HEAD":
		p.Bad.Send(f, flownet.Chunk{Bytes: header(nil, http.StatusMethodNotAllowed, "", 0)})
	default:
		s.rest, s.close = s.rest[n+4:], req.Close
		p.Out.Send(f, req)
	}
}

// serve finds files.
type serve struct {
	Out   flow.Out[flownet.Chunk]
	root  string
	delay time.Duration
}

func (s *serve) Run(c *flow.Call[*http.Request]) {
	for req, ok := c.Next(); ok; req, ok = c.Next() {
		if s.delay > 0 {
			task.Sleep(s.delay)
		}
		chunk := s.answer(req)
		if s.Out.Send(c.Flow(), chunk) != nil && chunk.Done != nil {
			chunk.Done()
		}
	}
}

func (s *serve) answer(req *http.Request) flownet.Chunk {
	name := filepath.Join(s.root, path.Clean("/"+req.URL.Path))
	file, err := aio.Open(name)
	if err != nil {
		return flownet.Chunk{Bytes: header(req, http.StatusNotFound, "", 0)}
	}
	info, err := file.Stat()
	if err == nil && info.IsDir() {
		file.Close()
		name = filepath.Join(name, "index.html")
		if file, err = aio.Open(name); err == nil {
			info, err = file.Stat()
		}
	}
	if err != nil || !info.Mode().IsRegular() {
		if file != nil {
			file.Close()
		}
		return flownet.Chunk{Bytes: header(req, http.StatusNotFound, "", 0)}
	}
	head := header(req, http.StatusOK, mime.TypeByExtension(filepath.Ext(name)), info.Size())
	if req.Method == "HEAD" {
		file.Close()
		return flownet.Chunk{Bytes: head}
	}
	return flownet.Chunk{Bytes: head, File: file, Len: info.Size(), Done: func() { file.Close() }}
}

// header is the head of a response; without a request the connection ends after it.
func header(req *http.Request, status int, kind string, length int64) []byte {
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), length)
	if kind != "" {
		b = fmt.Appendf(b, "Content-Type: %s\r\n", kind)
	}
	if req == nil || req.Close {
		b = append(b, "Connection: close\r\n"...)
	}
	return append(b, "\r\n"...)
}
