package words

import (
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// Names are the names of the nodes. Where several nodes have the same name, because
// different call paths lead to the same wait, the innermost caller that differs is
// added. The names are clean (see Clean).
func Names(s *bgraph.Snapshot) map[bgraph.Key]string {
	names := make(map[bgraph.Key]string, len(s.Nodes))
	same := make(map[string][]*bgraph.Node, len(s.Nodes))
	for i := range s.Nodes {
		n := &s.Nodes[i]
		name := strings.TrimSpace(Clean(n.Name()))
		if name == "" {
			name = n.Key.String()
		}
		names[n.Key] = name
		same[name] = append(same[name], n)
	}
	for name, nodes := range same {
		if len(nodes) > 1 {
			tellApart(names, name, nodes)
		}
	}
	return names
}

// NameIn is the name of a node that may be missing: its key then.
func NameIn(names map[bgraph.Key]string, k bgraph.Key) string {
	if name, ok := names[k]; ok {
		return name
	}
	return k.String()
}

// tellApart extends the name that nodes have in common by the frame at the depth where
// most of them differ, counted from the innermost, and by further ones as long as some are
// still the same; nodes with the same frames throughout get their key.
func tellApart(names map[bgraph.Key]string, name string, nodes []*bgraph.Node) {
	deepest := 0
	for _, n := range nodes {
		deepest = max(deepest, len(n.Stack))
	}
	best, most := -1, 1
	for depth := 0; depth < deepest && most < len(nodes); depth++ {
		kinds := map[string]bool{}
		for _, n := range nodes {
			kinds[frameAt(n, depth, true)] = true
		}
		if len(kinds) > most {
			best, most = depth, len(kinds)
		}
	}
	times := map[string][]*bgraph.Node{}
	ext := func(n *bgraph.Node) string {
		if best < 0 || best >= len(n.Stack) { // its stack is the shortest
			return name
		}
		return name + " via " + frameAt(n, best, linesDiffer(nodes, best))
	}
	for _, n := range nodes {
		names[n.Key] = ext(n)
		times[ext(n)] = append(times[ext(n)], n)
	}
	for name, same := range times {
		switch {
		case len(same) == len(nodes):
			for _, n := range same {
				names[n.Key] += " #" + n.Key.String()
			}
		case len(same) > 1:
			tellApart(names, name, same)
		}
	}
}

// linesDiffer reports whether a function at a depth is called from several lines.
func linesDiffer(nodes []*bgraph.Node, depth int) bool {
	of := map[string]string{}
	for _, n := range nodes {
		function, line := frameAt(n, depth, false), frameAt(n, depth, true)
		if known, ok := of[function]; ok && known != line {
			return true
		}
		of[function] = line
	}
	return false
}

func frameAt(n *bgraph.Node, depth int, withLine bool) string {
	if depth >= len(n.Stack) {
		return ""
	}
	text := Clean(funcname.Short(n.Stack[depth].Function))
	if withLine {
		text += ":" + strconv.Itoa(n.Stack[depth].Line)
	}
	return text
}
