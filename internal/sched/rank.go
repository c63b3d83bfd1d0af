package sched

import (
	"math"
	"slices"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// rank gives every node tickets. With, for node n and resource r,
//
//	c(n)    cycles of the next step, on average
//	d(n,r)  change of r on that step, on average (taken: more than 0)
//	g(n,r)  d/c in parts of the largest |d/c| of any node: -1 to 1
//	w(n,r)  d² / (d² + variance): 1 if the change is always the same, 0 if it is noise
//	f(r)    1 at the limit, 0 to 1 while it is rising, 0 to -plentyWeight/resourceWeight
//	        while it is plentiful
//	l(n)    cycles left until completion, in parts of the most of any node
//
// the priority is
//
//	-resourceWeight * sum over r of f g w  +  nearnessWeight * (1 - 2 l)
//
// It takes time in proportion to nodes times resources.
func (p *Resource) rank() {
	p.ranked = p.now
	if p.cfg.Predictions != nil {
		p.learned = p.cfg.Predictions()
	}
	most := 0.0
	p.rate = p.rate[:0]
	for range p.standing {
		p.rate = append(p.rate, 0)
	}
	nodes := min(len(p.nodes), len(p.learned))
	for n := range nodes {
		if !p.nodes[n].known {
			continue
		}
		pred := &p.learned[n]
		most = max(most, finite(pred.Left))
		for r := range min(len(pred.Changes), len(p.rate)) {
			if pred.Changes[r].Mean == 0 {
				continue
			}
			p.rate[r] = max(p.rate[r], math.Abs(perCycle(pred, r)))
		}
	}
	for n := range p.nodes {
		if p.nodes[n].known {
			p.rankNode(Node(n), most)
		}
	}
	p.minds = p.hasToMind()
}

// hasToMind reports whether it matters which node runs next: a resource is not plentiful, or will soon not
// be if a node that keeps it has the processor for itself, or a node is exclusive.
func (p *Resource) hasToMind() bool {
	for r := range p.standing {
		if s := &p.standing[r]; force(s) > 0 && !s.Sign {
			return true
		}
	}
	soon := soonTime.Seconds() * p.cfg.Cycles
	for n := range p.learned { // of other loops too: while any order will do, p is not told what is ready
		pred := &p.learned[n]
		for r := range pred.Changes {
			if p.takes(pred, r) > 0 && keeps(pred, r) && perCycle(pred, r)*soon >= p.standing[r].Room {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.nodes, func(nd resourceNode) bool { return nd.claim != nil })
}

// rankNode sets the priority and the tickets of n, see rank, whether its tasks must ask before they run (gated), and the
// reason shown for the priority. most is the largest Left of any node.
func (p *Resource) rankNode(n Node, most float64) {
	nd, pred := &p.nodes[n], p.prediction(n)
	nd.gated = nd.claim != nil
	if nd.where != held {
		nd.why = reason{}
	}
	priority, worst := 0.0, 0.0
	if most > 0 && pred.Steps > 0 {
		priority = nearnessWeight * (1 - 2*min(finite(pred.Left)/most, 1))
	}
	for r := range min(len(pred.Changes), len(p.rate)) {
		s := &p.standing[r]
		if pred.Changes[r].Mean == 0 || p.rate[r] == 0 || s.Sign {
			continue
		}
		effect := -resourceWeight * force(s) * perCycle(pred, r) / p.rate[r] * certainty(pred.Changes[r])
		priority += effect
		takes := p.takes(pred, r) > 0
		if takes && keeps(pred, r) && !s.Open {
			nd.gated = true
		}
		if takes && s.State == admit.AtLimit && effect < worst && nd.where != held {
			worst = effect
			nd.why = reason{kind: takesAtLimit, resource: admit.ResourceID(r)}
		}
	}
	nd.priority = min(max(priority, -topPriority), topPriority)
	p.stride.SetTickets(n, int(DefaultTickets*math.Exp2(nd.priority)))
}

// force is f(r), see rank.
func force(s *admit.Standing) float64 {
	switch {
	case s.State == admit.AtLimit || s.Util >= s.Target:
		return 1
	case s.Util >= admit.Plenty:
		return (s.Util - admit.Plenty) / (s.Target - admit.Plenty)
	case s.State == admit.Low:
		return (s.Util/admit.Plenty - 1) * plentyWeight / resourceWeight
	}
	return 0
}

// takes is how much of r a task takes on its next step, 0 if it takes none or that is
// noise. Slices of a prediction may be longer than the list of resources.
func (p *Resource) takes(pred *Prediction, r int) float64 {
	d := pred.Changes[r]
	if r >= len(p.standing) || !(d.Mean > 0) || certainty(d) < significant {
		return 0
	}
	return d.Mean
}

// keeps reports whether tasks at the node are held back when r is at its limit. Such tasks release,
// until they finish, less than half of what their next step takes of r, and they were not admitted at
// an entrance, where the resources they take were reserved for them. Other tasks are not held back: a
// task that will release r must not wait for others to do so.
func keeps(pred *Prediction, r int) bool {
	return !pred.Inside && r < len(pred.Net) && pred.Net[r] >= kept*pred.Changes[r].Mean
}

// certainty is w(n,r), see rank.
func certainty(d admit.Moments) float64 {
	square := d.Mean * d.Mean
	if square == 0 {
		return 0
	}
	return finite(square / (square + max(d.Variance, 0)))
}

func perCycle(pred *Prediction, r int) float64 {
	return finite(pred.Changes[r].Mean / max(pred.CPU.Mean, 1))
}

// finite replaces NaN and the infinities by 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
