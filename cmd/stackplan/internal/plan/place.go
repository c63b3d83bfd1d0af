package plan

import (
	"fmt"
	"iter"

	"github.com/capriccio-go/capriccio/internal/scc"
)

// order returns the nodes that are reached, callees before callers. There must be no
// cycle left.
func (c *cutting) order() (order []int) {
	for _, part := range scc.Of(len(c.g.nodes), c.leadsTo) {
		if c.reach[part[0]] {
			order = append(order, part[0])
		}
	}
	return order
}

// linkCost is what a checkpoint itself takes of the caller's stack when it links a chunk.
const linkCost = 256

// Paths say how long the longest path from each node is.
type paths struct {
	length []Bytes
	next   []int  // edge of the node that it takes, -1: none
	before *paths // goes on behind edges that were given up; nil: it ends there
}

// measure computes the longest path from each node to the next checkpoints or the
// end. Nodes come callees first.
//
// An edge that was given up counts as if the recursion went round once more: what was
// measured without it, before, is taken for what it leads to.
func (c *cutting) measure(order []int, maxPath Bytes) *paths {
	if len(c.broken) == 0 {
		return c.measureOnce(order, maxPath, nil)
	}
	return c.measureOnce(order, maxPath, c.measureOnce(order, maxPath, nil))
}

func (c *cutting) measureOnce(order []int, maxPath Bytes, before *paths) *paths {
	p := &paths{length: make([]Bytes, len(c.g.nodes)), next: make([]int, len(c.g.nodes)), before: before}
	for _, v := range order {
		n := &c.g.nodes[v]
		p.next[v] = -1
		if c.closed(v) {
			if n.why != "rare" || c.full {
				p.length[v] = n.bound
			}
			continue
		}
		p.length[v] = Bytes(n.frame)
		for i := range n.out {
			e := &n.out[i]
			if c.g.skips(v, e) {
				continue
			}
			below := p.length[e.to]
			if c.broken[[2]int{v, e.to}] {
				below = 0
				if before != nil {
					below = before.length[e.to]
				}
			}
			length := Bytes(e.depth) + below
			if maxPath > 0 && length > maxPath && e.canCheck() {
				c.site[e.site.id] = true
			}
			if c.isCut(e) {
				length = Bytes(e.depth-e.mid) + linkCost
			}
			if length > p.length[v] {
				p.length[v], p.next[v] = length, i
			}
		}
	}
	return p
}

// Place chooses the checkpoints as in section 3.2 of the paper: first as many as it takes that no
// recursion is left, then, from the leaves upwards, one on each call from which the path
// to the next checkpoints would be longer than maxPath. Need is the length of that path.
// minChunk is noted in the Plan; it is for the run time.
func (p *Program) Place(maxPath, minChunk Bytes) (*Plan, error) {
	if maxPath <= 0 {
		return nil, fmt.Errorf("stackplan: MaxPath is %v; want more than 0", maxPath)
	}
	if minChunk < 0 {
		return nil, fmt.Errorf("stackplan: MinChunk is %v; want 0 or more", minChunk)
	}
	g := p.graph
	c, longest := p.place(maxPath)
	plan := &Plan{Package: p.Package, MaxPath: maxPath, MinChunk: minChunk}
	need := make(map[*site]Bytes)
	callees, refused, all := make(nameSets), make(nameSets), make(map[*site]bool)
	for v, e := range c.calls() {
		switch s := e.site; {
		case c.isCut(e):
			need[s] = max(need[s], Bytes(e.mid)+longest.length[e.to])
			callees.add(s, g.nodes[e.to].name)
			all[s] = true
		case e.canCheck():
			all[s] = true
		case s != nil:
			refused.add(s, g.nodes[e.to].name)
		}
		plan.Longest = max(plan.Longest, longest.length[v])
	}
	plan.CallSites = len(all)
	for _, s := range callees.inOrder() {
		plan.Checkpoints = append(plan.Checkpoints, Checkpoint{File: s.file, Offset: s.offset, End: s.end, Line: s.line, Col: s.col,
			Caller: s.caller, Callee: names(callees[s]), Need: need[s], Site: s.name, PackagePath: s.pkg, BackEdge: c.back[s]})
	}
	for _, s := range refused.inOrder() {
		plan.Refused = append(plan.Refused, Refused{s.name, s.caller, names(refused[s]), s.refused})
	}
	for _, r := range g.roots {
		plan.Entries = append(plan.Entries, EntryPlan{g.nodes[r].name, longest.length[r]})
	}
	return plan, nil
}

// calls yields the calls that are reached, with the caller.
func (c *cutting) calls() iter.Seq2[int, *edge] {
	return func(yield func(int, *edge) bool) {
		for v := range c.g.nodes {
			if !c.reach[v] || c.g.nodes[v].leaf {
				continue
			}
			for i := range c.g.nodes[v].out {
				if !yield(v, &c.g.nodes[v].out[i]) {
					return
				}
			}
		}
	}
}

func (p *Program) place(maxPath Bytes) (*cutting, *paths) {
	c := p.graph.newCutting(p.graph.roots)
	c.breakCycles(true)
	c.measure(c.order(), maxPath)
	// Checkpoints chosen later shorten paths that were measured before.
	return c, c.measure(c.order(), 0)
}
