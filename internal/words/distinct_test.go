package words

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Places with one name are told apart by as many callers as it takes.
func TestNamesAreToldApart(t *testing.T) {
	node := func(key bgraph.Key, outer ...string) bgraph.Node {
		n := bgraph.Node{Key: key, Reason: "system call"}
		for _, f := range append([]string{"main.open"}, outer...) {
			n.Stack = append(n.Stack, bgraph.Frame{Function: f})
		}
		return n
	}
	s := &bgraph.Snapshot{Nodes: []bgraph.Node{node(10, "main.a", "main.x"), node(11, "main.a", "main.y"), node(12, "main.b", "main.x"), node(13, "main.c"), node(14)}}
	names := Names(s)
	for k, want := range map[bgraph.Key]string{10: "via main.x", 11: "via main.y", 12: "via main.b", 13: "via main.c", 14: "system call main.open"} {
		if !strings.HasSuffix(names[k], want) || strings.Contains(names[k], "#") {
			t.Errorf("%v is %q; want … %s", k, names[k], want)
		}
	}
}

// Nodes that differ in their callers only must not look the same.
func TestDistinctNames(t *testing.T) {
	read := func(k bgraph.Key, calls ...string) bgraph.Node {
		n := bgraph.Node{Key: k, Reason: "read"}
		for _, c := range append([]string{"x.org/a.read"}, calls...) {
			n.Stack = append(n.Stack, bgraph.Frame{Function: c, Line: int(k)})
		}
		n.Stack[0].Line = 7
		return n
	}
	for _, c := range []struct {
		nodes []bgraph.Node
		want  []string
	}{
		{[]bgraph.Node{read(20, "x.org/a.serve")}, []string{"read a.read"}},
		{[]bgraph.Node{read(20, "x.org/a.get"), read(21, "x.org/a.put")}, []string{"read a.read via a.get", "read a.read via a.put"}},
		{[]bgraph.Node{read(20, "x.org/a.get"), read(21, "x.org/a.get")}, []string{"read a.read via a.get:20", "read a.read via a.get:21"}},
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
