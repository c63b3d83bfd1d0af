package bgraph_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestNodesAreNamedAfterTheProgram(t *testing.T) {
	const module = "github.com/capriccio-go/capriccio/"
	for want, stack := range map[string][]string{
		"read knot.(*Ctx).fillHead":    {module + "netpoll.(*desc).wait", module + "netpoll.(*Conn).Read", module + "knot.(*Ctx).fillHead", "main.main"},
		"read main.copy":               {module + "netpoll.(*Conn).Read", "bufio.(*Reader).fill", "io.Copy", "main.copy"},
		"read bufio.(*Reader).fill":    {module + "netpoll.(*Conn).Read", "bufio.(*Reader).fill", "io.Copy"},
		"read netpoll.Serve.func1":     {module + "netpoll.(*desc).wait", module + "netpoll.(*Listener).accept", module + "netpoll.Serve.func1"},
		"read netpoll.(*Listener).Try": {module + "netpoll.(*desc).wait", module + "netpoll.(*Listener).Try", module + "netpoll.Serve"},
		"read netpoll.(*desc).wait":    {module + "netpoll.(*desc).wait"},
		"read netpoll.serve":           {module + "netpoll.(*desc).Wait", module + "netpoll.serve"},
		"read shop.of[...]":            {"example.org/deep/shop.of[...]", "example.org/deep/shop.run"},
		"read":                         {},
	} {
		n := bgraph.Node{Reason: "read"}
		for _, f := range stack {
			n.Stack = append(n.Stack, bgraph.Frame{Function: f})
		}
		testenv.Equal(t, n.Name(), want, "stack %q: named", stack)
	}
	s := bgraph.Snapshot{Nodes: []bgraph.Node{{Key: 7, Reason: "read", Label: "a label"}}}
	testenv.Equal(t, s.NameOf(7), "a label")
	testenv.Equal(t, s.NameOf(8), "0000000000000008", "no node")
}
