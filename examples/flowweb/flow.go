package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/flow/flownet"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// byFlow is the server as a graph.
func byFlow(addr string, s *serve, opt flow.Options, stats time.Duration, dot bool) error {
	return capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", addr)
		if err != nil {
			return err
		}
		g, in := build(ln, s, opt)
		if err := g.Start(); err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		if stats > 0 {
			task.Go(func() { report(g, stats) })
		}
		err = in.Serve()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		g.Shutdown(ctx)
		if dot {
			g.WriteDOT(os.Stdout)
		}
		return err
	})
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
	req, status := request(s.rest[:n+4])
	if status != 0 {
		p.Bad.Send(f, flownet.Chunk{Bytes: header(nil, status, "", 0)})
		return
	}
	s.rest, s.close = s.rest[n+4:], req.Close
	p.Out.Send(f, req)
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
		chunk := flownet.Chunk{}
		head, file, size, found := answer(req, s.root, aio.Open)
		if chunk.Bytes = head; found {
			chunk.File, chunk.Len, chunk.Done = file, size, func() { file.Close() }
		}
		if s.Out.Send(c.Flow(), chunk) != nil && chunk.Done != nil {
			chunk.Done()
		}
	}
}
