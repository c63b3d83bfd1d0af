package plan

import (
	"iter"
	"slices"

	"github.com/capriccio-go/capriccio/internal/scc"
)

// A cutting says which edges of a graph are not followed: checkpoints, and edges given up
// because they are on a cycle without a call that can be a checkpoint.
type cutting struct {
	g      *graph
	reach  []bool          // nodes that can be reached from the roots
	site   []bool          // checkpoints, by the id of their site
	broken map[[2]int]bool // nodes of edges given up
	back   map[*site]bool  // checkpoints that break a cycle
	full   bool            // rare paths count
}

func (g *graph) newCutting(roots []int) *cutting {
	return &cutting{g: g, reach: g.reachable(roots), site: make([]bool, len(g.sites)),
		broken: make(map[[2]int]bool), back: make(map[*site]bool)}
}

// calls yields what node v calls, but for what does not count, see skips.
func (g *graph) calls(v int) iter.Seq2[int, *edge] {
	return func(yield func(int, *edge) bool) {
		if g.nodes[v].leaf {
			return
		}
		for i := range g.nodes[v].out {
			if e := &g.nodes[v].out[i]; !g.skips(v, e) && !yield(i, e) {
				return
			}
		}
	}
}

// reachable marks what a set of nodes leads to.
func (g *graph) reachable(from []int) []bool {
	reach := make([]bool, len(g.nodes))
	for v := range closure(slices.Values(from), func(v int, add func(int)) {
		for _, e := range g.calls(v) {
			add(e.to)
		}
	}) {
		reach[v] = true
	}
	return reach
}

// isCut reports whether the call that an edge stems from is a checkpoint.
func (c *cutting) isCut(e *edge) bool {
	return e.site != nil && c.site[e.site.id]
}

// closed reports whether what a node calls does not count.
func (c *cutting) closed(n int) bool {
	return c.g.nodes[n].leaf || c.g.nodes[n].open && !c.full
}

// follows reports whether an edge of node n counts when cycles are looked for.
func (c *cutting) follows(n int, e *edge) bool {
	return !c.closed(n) && !c.g.skips(n, e) && !c.isCut(e) && !c.broken[[2]int{n, e.to}]
}

// breakCycles cuts edges until no cycle is left. Each round searches every strongly
// connected component depth-first. A back edge that may be a checkpoint becomes one;
// for one that may not, the last edge before it on the path of the search that may;
// if there is none, or none is wanted, the back edge is given up.
func (c *cutting) breakCycles(checkpoints bool) {
	for component := c.components(); component != nil; component = c.components() {
		c.breakOnce(component, checkpoints)
	}
}

// components returns the number of each node's strongly connected component, -1 for
// those in no cycle; nil if there is no cycle.
func (c *cutting) components() []int {
	comp, found := make([]int, len(c.g.nodes)), 0
	for _, part := range scc.Of(len(c.g.nodes), c.leadsTo) {
		number := -1
		if len(part) > 1 || c.selfEdge(part[0]) {
			number = found
			found++
		}
		for _, v := range part {
			comp[v] = number
		}
	}
	if found == 0 {
		return nil
	}
	return comp
}

// leadsTo yields what a node calls, as far as that counts.
func (c *cutting) leadsTo(v int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if !c.reach[v] {
			return
		}
		for i := range c.g.nodes[v].out {
			if e := &c.g.nodes[v].out[i]; c.follows(v, e) && !yield(e.to) {
				return
			}
		}
	}
}

func (c *cutting) selfEdge(v int) bool {
	return containsFunc(c.leadsTo(v), func(to int) bool { return to == v })
}

// breakOnce searches each component once.
func (c *cutting) breakOnce(component []int, checkpoints bool) {
	const (
		fresh = iota
		open
		done
	)
	state := make([]uint8, len(c.g.nodes))
	type frame struct{ node, edge int }
	search := func(root int) {
		path := []frame{{root, 0}}
		state[root] = open
		for len(path) > 0 {
			top := &path[len(path)-1]
			out := c.g.nodes[top.node].out
			if top.edge >= len(out) {
				state[top.node] = done
				path = path[:len(path)-1]
				continue
			}
			e := &out[top.edge]
			top.edge++
			if component[e.to] != component[top.node] || !c.follows(top.node, e) {
				continue
			}
			switch state[e.to] {
			case fresh:
				state[e.to] = open
				path = append(path, frame{e.to, 0})
			case open:
				at := len(path) - 1
				for ; checkpoints && at >= 0; at-- {
					x := &c.g.nodes[path[at].node].out[path[at].edge-1]
					if x.canCheck() {
						c.site[x.site.id], c.back[x.site] = true, true
						break
					}
					if path[at].node == e.to {
						at = -1
					}
				}
				if !checkpoints || at < 0 {
					c.broken[[2]int{top.node, e.to}] = true
				}
			}
		}
	}
	for _, r := range c.g.roots {
		if component[r] >= 0 && state[r] == fresh && c.reach[r] {
			search(r)
		}
	}
	// Start where a component is entered: that is where the recursion begins.
	for v := range c.g.nodes {
		if !c.reach[v] || component[v] >= 0 && state[v] != fresh {
			continue
		}
		for i := range c.g.nodes[v].out {
			if e := &c.g.nodes[v].out[i]; component[e.to] >= 0 && component[e.to] != component[v] && state[e.to] == fresh && c.follows(v, e) {
				search(e.to)
			}
		}
	}
	for v := range c.g.nodes {
		if component[v] >= 0 && state[v] == fresh {
			search(v)
		}
	}
}
