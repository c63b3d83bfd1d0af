package flownet_test

import (
	"context"
	"log"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/flow/flownet"
	"github.com/capriccio-go/capriccio/netpoll"
)

// echo sends back what comes, and then asks for more.
type echo struct {
	Out  flow.Out[flownet.Chunk]
	More flow.Out[flownet.More]
}

func (e *echo) Run(c *flow.Call[flownet.Data]) {
	for d, ok := c.Next(); ok; d, ok = c.Next() {
		if d.Err == nil {
			e.Out.Send(c.Flow(), flownet.Chunk{Bytes: d.Bytes})
			e.More.Send(c.Flow(), flownet.More{})
		}
	}
}

// A server that sends back what it gets.
func Example() {
	log.Fatal(capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:7000")
		if err != nil {
			return err
		}
		g, e := flow.New("echo"), &echo{}
		in, more := flownet.AddInput(g, "in", ln, flownet.InputOptions{})
		out, write := flownet.AddOutput(g, "out", flownet.OutputOptions{})
		flow.Connect(&in.Out, flow.Add(g, "echo", flow.ByFlow, e))
		flow.Connect(&e.Out, write)
		flow.Back(&e.More, more)
		flow.Discard(&out.Feed)
		if err := g.Start(); err != nil {
			return err
		}
		return in.Serve()
	}))
}
