package graphcompare

import (
	"cmp"
	"math"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// When a process differs from the others in the share of its tasks' time that it spends at a place.
const (
	leastShare  = 0.05 // of that time is more than the others spend there
	leastFactor = 2    // times the median of the others
	mostPlaces  = 3    // are told of a process
)

// A Fleet remembers of several processes where their tasks are, and says which differ. It need not keep their graphs.
type Fleet struct {
	shares []map[bgraph.Key]float64
}

// Add fills in what the next process did, whose graph s is.
func (f *Fleet) Add(from *bgraph.Source, s *bgraph.Snapshot) {
	f.shares = append(f.shares, sharesOf(s))
	from.Span, from.CPU, from.Places = s.Span, words.Nanos(words.TotalCPU(s)), nil
	from.Tasks, from.Steps = 0, 0
	for at := range s.Edges {
		from.Steps += s.Edges[at].Count
	}
	for at := range s.Nodes {
		from.Tasks += s.Nodes[at].Now
	}
}

// Mark fills in where the tasks of each process are more often than those of the others: by more than twice the range of the
// middle half of the others. The sources that have not failed are in the order in which they were added.
func (f *Fleet) Mark(sources []bgraph.Source) {
	next := 0
	for i := range sources {
		if sources[i].Failed == "" {
			sources[i].Places = standOut(f.shares, next)
			next++
		}
	}
}

// sharesOf returns for each node the share of the time of all tasks that they spend there.
func sharesOf(s *bgraph.Snapshot) map[bgraph.Key]float64 {
	out := map[bgraph.Key]float64{}
	total := words.TotalCPU(s) / math.Max(float64(s.Span), 1)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key > bgraph.KeyOverflow {
			out[n.Key] = occupancy(s, n)
			total += out[n.Key]
		}
	}
	for k := range out {
		out[k] = min(words.Ratio(out[k], total), 1)
	}
	return out
}

// standOut are the places where process i is more often than the others.
func standOut(shares []map[bgraph.Key]float64, i int) []bgraph.SourcePlace {
	if len(shares) < 2 {
		return nil
	}
	var out []bgraph.SourcePlace
	others := make([]float64, 0, len(shares)-1)
	for k, share := range shares[i] {
		if share < leastShare {
			continue
		}
		others = others[:0]
		for j := range shares {
			if j != i {
				others = append(others, shares[j][k])
			}
		}
		slices.Sort(others)
		middle := others[len(others)*3/4] - others[len(others)/4]
		p := bgraph.SourcePlace{Node: k, Share: share, Others: median(others)}
		if more := p.Share - p.Others; more >= leastShare && more > spreads*middle && p.Share >= leastFactor*p.Others {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b bgraph.SourcePlace) int {
		return cmp.Or(cmp.Compare(b.Share-b.Others, a.Share-a.Others), cmp.Compare(a.Node, b.Node))
	})
	return out[:min(len(out), mostPlaces)]
}
