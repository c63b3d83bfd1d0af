package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/flow/flownet"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

// byFlow is a graph of modules:
//
//	in ──▶ direct ──▶ read ──▶ out
//	▲────────┘  ▲───────────────┘
func byFlow(addr string, m *movie) error {
	return capriccio.Run(context.Background(), func(context.Context) error {
		file, err := openDirect(m.name)
		if err != nil {
			return err
		}
		defer file.Close()
		ln, err := netpoll.Listen("tcp", addr)
		if err != nil {
			return err
		}
		g, d, r := flow.New("vod"), &direct{movie: m}, &read{file: file}
		in, more := flownet.AddInput(g, "in", ln, flownet.InputOptions{})
		directing := flow.Add(g, "direct", flow.ByFlow, d)
		reading := flow.Add(g, "read", flow.ByElement, r)
		out, write := flownet.AddOutput(g, "out", flownet.OutputOptions{})
		flow.ConnectAs(&in.Out, directing, func(d flownet.Data) event { return event{data: d.Bytes, end: d.Err != nil} })
		flow.Connect(&d.Read, reading)
		flow.Connect(&d.Write, write)
		flow.Back(&d.More, more)
		flow.Connect(&r.Out, write)
		flow.BackAs(&out.Feed, directing, func(s flownet.Sent) event { return event{sent: true, end: s.Err != nil} })
		if err := g.Start(); err != nil {
			return err
		}
		fmt.Println("listening", ln.Addr())
		err = in.Serve()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		g.Shutdown(ctx)
		return err
	})
}

// event is what direct hears of a connection.
type event struct {
	data []byte // has come in
	sent bool   // something has gone out
	end  bool   // nothing more comes, or can go
}

// direct decides what is sent to whom, and when.
type direct struct {
	Read  flow.Out[int64] // a piece at that place of the film
	Write flow.Out[flownet.Chunk]
	More  flow.Out[flownet.More]
	State flow.Vars[viewer]
	movie *movie
}

type viewer struct {
	request    []byte
	watches    bool
	began      time.Time
	from, sent int64
}

func (d *direct) Run(c *flow.Call[event]) {
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		f, v := c.Flow(), d.State.Of(c.Flow())
		switch {
		case e.end: // nothing is sent any more, so the connection is closed
		case !v.watches && e.data != nil:
			d.ask(f, v, e.data)
		case v.watches && e.sent:
			d.next(f, v)
		}
	}
}

// ask takes data of the request.
func (d *direct) ask(f *flow.Flow, v *viewer, data []byte) {
	v.request = append(v.request, data...)
	from, complete, err := parse(v.request)
	switch {
	case err != nil:
		d.Write.Send(f, flownet.Chunk{Bytes: refusal(err)})
	case !complete:
		d.More.Send(f, flownet.More{})
	default:
		v.request, v.watches, v.from, v.began = nil, true, from, time.Now()
		d.Write.Send(f, flownet.Chunk{Bytes: []byte(responseHead)})
	}
}

// next sends the next piece, when it is due.
func (d *direct) next(f *flow.Flow, v *viewer) {
	at, wait := d.movie.at(v.from, v.sent), d.movie.due(v.sent)-time.Since(v.began)
	v.sent += pieceSize
	if wait <= 0 {
		d.Read.Send(f, at)
		return
	}
	f.Hold() // for the time
	task.AfterFunc(wait, func() {
		d.Read.Send(f, at)
		f.Release()
	})
}

// read reads pieces of the film.
type read struct {
	Out  flow.Out[flownet.Chunk]
	file *aio.File
}

func (r *read) Run(c *flow.Call[int64]) {
	at, _ := c.Next()
	buf := getBuffer()
	if _, err := r.file.ReadAt(*buf, at); err != nil {
		buffers.Put(buf)
		return
	}
	if r.Out.Send(c.Flow(), flownet.Chunk{Bytes: *buf, Done: func() { buffers.Put(buf) }}) != nil {
		buffers.Put(buf)
	}
}
