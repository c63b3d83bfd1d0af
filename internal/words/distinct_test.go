package words

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Nodes that differ in their callers only do not look the same: they are told apart by as many callers as it takes.
func TestDistinctNames(t *testing.T) {
	read := func(k bgraph.Key, calls ...string) bgraph.Node {
		n := bgraph.Node{Key: k, Reason: "read"}
		for _, c := range append([]string{"x.org/a.read"}, calls...) {
			n.Stack = append(n.Stack, bgraph.Frame{Function: c, Line: int(k)})
		}
		n.Stack[0].Line = 7
		return n
	}
	oneLine := func(n bgraph.Node) bgraph.Node {
		for i := range n.Stack {
			n.Stack[i].Line = 1
		}
		return n
	}
	for _, c := range []struct {
		nodes []bgraph.Node
		want  []string
	}{
		{[]bgraph.Node{read(20, "x.org/a.serve")}, []string{"read a.read"}},
		{[]bgraph.Node{read(20, "x.org/a.get"), read(21, "x.org/a.put")}, []string{"read a.read via a.get", "read a.read via a.put"}},
		{[]bgraph.Node{read(20, "x.org/a.get"), read(21, "x.org/a.get")}, []string{"read a.read via a.get:20", "read a.read via a.get:21"}},
		{
			[]bgraph.Node{
				oneLine(read(20, "x.org/a.get", "x.org/a.x")), oneLine(read(21, "x.org/a.get", "x.org/a.y")),
				oneLine(read(22, "x.org/a.put", "x.org/a.x")), oneLine(read(23, "x.org/a.list")), oneLine(read(24)),
			},
			[]string{"read a.read via a.get via a.x", "read a.read via a.get via a.y", "read a.read via a.put", "read a.read via a.list", "read a.read"},
		},
		{[]bgraph.Node{read(20), read(21)}, []string{"read a.read #0000000000000014", "read a.read #0000000000000015"}},
		{[]bgraph.Node{{Key: 20}, {Key: 21}}, []string{"0000000000000014", "0000000000000015"}},
	} {
		s := &bgraph.Snapshot{Nodes: c.nodes}
		names := Names(s)
		for i, n := range c.nodes {
			testenv.Equal(t, names[n.Key], c.want[i], "node %d of %d", i, len(c.nodes))
		}
	}
	s := graphcases.Hostile()
	seen := map[string]bool{}
	for _, name := range Names(s) {
		graphcases.CheckPlain(t, name)
		if seen[name] {
			t.Errorf("%q twice", name)
		}
		seen[name] = true
	}
}
