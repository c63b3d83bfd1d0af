package flow_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/flow"
)

// words cuts lines into words.
type words struct {
	Out flow.Out[string]
}

func (w *words) Run(c *flow.Call[string]) {
	for line, ok := c.Next(); ok; line, ok = c.Next() {
		for word := range strings.FieldsSeq(line) {
			w.Out.Send(c.Flow(), word)
		}
	}
}

// number numbers the words of each flow.
type number struct {
	Out   flow.Out[string]
	Count flow.Vars[int]
}

func (n *number) Run(c *flow.Call[string]) {
	for word, ok := c.Next(); ok; word, ok = c.Next() {
		count := n.Count.Of(c.Flow())
		*count++
		n.Out.Send(c.Flow(), fmt.Sprint(*count, " ", word))
	}
}

type show struct{}

func (show) Run(c *flow.Call[string]) {
	for text, ok := c.Next(); ok; text, ok = c.Next() {
		fmt.Println(text)
	}
}

func Example() {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		g, w, n := flow.New("count"), &words{}, &number{}
		lines := flow.Add(g, "words", flow.ByElement, w)
		flow.Connect(&w.Out, flow.Add(g, "number", flow.ByFlow, n))
		flow.Connect(&n.Out, flow.Add(g, "show", flow.ByTask, show{}))
		if err := g.Start(); err != nil {
			return err
		}
		f := g.NewFlow(nil, func() { fmt.Println("the end") })
		if err := lines.Put(f, "to be or"); err != nil {
			return err
		}
		f.Release()
		return g.Shutdown(context.Background())
	}, capriccio.WithoutSignals())
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 to
	// 2 be
	// 3 or
	// the end
}
