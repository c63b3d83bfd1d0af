// Package tune proposes MaxPath and MinChunk from what a profiling run has counted, as
// section 7 of the Capriccio paper asks for. It works on numbers only.
//
// MinChunk: a larger chunk saves the links that were made on a chunk with nearly enough
// room. MaxPath: with larger values some checkpoints go away, and how often they were
// passed is known from the run. For both, the smallest value is proposed from which
// doubling saves less than a tenth: the bend that the authors looked for in section 3.6.
package tune

import (
	"cmp"
	"errors"
	"slices"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// worthwhile is the share that doubling a value must save.
const worthwhile = 0.1

// Costs of a checkpoint, nanoseconds on the machine where docs/adr has its figures from.
const (
	directNs = 2.5
	linkNs   = 85
)

const (
	smallest = plan.Bytes(512)
	largest  = plan.Bytes(64 << 10)
)

// Paths are the values of MaxPath that are looked at.
func Paths() []plan.Bytes { return doubling(smallest, largest) }

func doubling(from, to plan.Bytes) (all []plan.Bytes) {
	for b := from; b <= to; b *= 2 {
		all = append(all, b)
	}
	return all
}

// An Advice is what is proposed and why.
type Advice struct {
	MinChunk plan.Bytes `json:"minChunk"`
	MaxPath  plan.Bytes `json:"maxPath,omitempty"` // 0: not known

	Run    Run     `json:"run"`
	Chunks []Chunk `json:"chunks"`
	Paths  []Path  `json:"paths,omitempty"`
	Sites  []Site  `json:"sites"` // that link most
}

// A Run is what was counted in all.
type Run struct {
	Sites    int        `json:"sites"`
	Passed   uint64     `json:"passed"` // checkpoints, by tasks
	Direct   uint64     `json:"direct"`
	Links    uint64     `json:"links"`
	Nested   uint64     `json:"nested"` // links made on a chunk
	InPlace  uint64     `json:"inPlace"`
	Outside  uint64     `json:"outside"`
	MinChunk plan.Bytes `json:"minChunk"`
	Peak     plan.Bytes `json:"peak"`
	// Means over all links.
	Internal plan.Bytes `json:"internalWaste"`
	External plan.Bytes `json:"externalWaste"`
	// Cost of all checkpoints, nanoseconds.
	CostNs float64 `json:"costNs"`
}

// A Chunk is what a value of MinChunk would have meant, estimated.
type Chunk struct {
	MinChunk plan.Bytes `json:"minChunk"`
	Links    uint64     `json:"links"`
	Mean     plan.Bytes `json:"mean"` // size of a chunk
	CostNs   float64    `json:"costNs"`
}

// A Path is what a value of MaxPath would have meant.
type Path struct {
	MaxPath plan.Bytes `json:"maxPath"`
	Sites   int        `json:"sites"`   // checkpoints in the program
	Counted int        `json:"counted"` // those of them that the run has counted
	Known   bool       `json:"known"`   // the run was built with no larger value
	Passed  uint64     `json:"passed"`  // checkpoints in the run
	Longest plan.Bytes `json:"longest"` // path between two
}

// A Site is a checkpoint that has linked chunks.
type Site struct {
	Name     string     `json:"name"`
	Need     plan.Bytes `json:"need"`
	Links    uint64     `json:"links"`
	Direct   uint64     `json:"direct"`
	Internal plan.Bytes `json:"internalWaste"` // mean
}

// Chunks looks at the counts alone.
func Chunks(stats *Stats) (*Advice, error) {
	if len(stats.Sites) == 0 {
		return nil, errors.New("no checkpoint has counted anything; build with stackplan build -profile, and let the program do its usual work")
	}
	a := &Advice{Run: total(stats)}
	if a.Run.Passed == 0 {
		return nil, errors.New("no task has passed a checkpoint; let the program do its usual work")
	}
	from := max(smallest, a.Run.MinChunk)
	for size := from; size <= max(largest, from); size *= 2 {
		a.Chunks = append(a.Chunks, chunk(stats, a.Run, size))
	}
	a.MinChunk = a.Chunks[0].MinChunk
	for i := 1; i < len(a.Chunks); i++ {
		// What counts is all that may still be saved, as a step of the table can be
		// too small for any link while the next one is not.
		best := a.Chunks[len(a.Chunks)-1].Links
		here := a.Chunks[i-1].Links
		if float64(here-best) < worthwhile*float64(here) {
			break
		}
		a.MinChunk = a.Chunks[i].MinChunk
	}
	a.Sites = topSites(stats)
	return a, nil
}

func total(stats *Stats) Run {
	r := Run{MinChunk: stats.MinChunk, Peak: stats.Peak, Sites: len(stats.Sites)}
	var internal, external plan.Bytes
	for _, s := range stats.Sites {
		r.Direct += s.Direct
		r.Links += s.Links
		r.Nested += s.Nested
		r.InPlace += s.InPlace
		r.Outside += s.Outside
		internal += plan.Bytes(s.InternalWaste)
		external += plan.Bytes(s.ExternalWaste)
	}
	r.Passed = r.Direct + r.Links + r.InPlace
	if r.Links > 0 {
		r.Internal, r.External = internal/plan.Bytes(r.Links), external/plan.Bytes(r.Links)
	}
	r.CostNs = directNs*float64(r.Direct) + linkNs*float64(r.Links)
	return r
}

// chunk estimates what chunks of at least size would have meant. A link on a chunk is
// saved if the chunk below would have had the room that was missing, on average.
func chunk(stats *Stats, r Run, size plan.Bytes) Chunk {
	c := Chunk{MinChunk: size, Links: r.Links}
	var sum plan.Bytes
	for _, s := range stats.Sites {
		left := s.Links
		if s.Nested > 0 {
			missing := s.Need - plan.Bytes(s.NestedRoom/s.Nested)
			if missing <= size-r.MinChunk {
				left -= min(left, s.Nested)
			}
		}
		c.Links -= s.Links - left
		sum += plan.Bytes(left) * max(size, s.Need)
	}
	if c.Links > 0 {
		c.Mean = sum / plan.Bytes(c.Links)
	}
	c.CostNs = directNs*float64(r.Passed-r.InPlace-c.Links) + linkNs*float64(c.Links)
	return c
}

func topSites(stats *Stats) []Site {
	sites := []Site{} // as JSON, [] and not null
	for _, s := range stats.Sites {
		if s.Links > 0 {
			sites = append(sites, Site{s.Name, s.Need, s.Links, s.Direct, plan.Bytes(s.InternalWaste / s.Links)})
		}
	}
	slices.SortFunc(sites, func(x, y Site) int {
		return cmp.Or(cmp.Compare(y.Links, x.Links), cmp.Compare(x.Name, y.Name))
	})
	return sites[:min(len(sites), 10)]
}

// AddPaths looks at plans for rising values of MaxPath of the program that has run.
func (a *Advice) AddPaths(stats *Stats, plans []*plan.Plan) error {
	passed := map[string]uint64{}
	for _, s := range stats.Sites {
		passed[s.Name] += s.Direct + s.Links + s.InPlace
	}
	anywhere := 0
	for _, p := range plans {
		row := Path{MaxPath: p.MaxPath, Sites: len(p.Checkpoints), Longest: p.Longest}
		for _, c := range p.Checkpoints {
			if n, counted := passed[c.Site]; counted {
				row.Counted++
				row.Passed += n
			}
		}
		anywhere += row.Counted
		a.Paths = append(a.Paths, row)
	}
	if anywhere == 0 {
		return errors.New("no checkpoint of the package is among those counted; were they counted in a program built from it?")
	}
	a.markKnown()
	for i := range a.Paths {
		here := &a.Paths[i]
		if !here.Known {
			continue
		}
		a.MaxPath = here.MaxPath
		last := i+1 == len(a.Paths)
		if last || float64(here.Passed)-float64(a.Paths[i+1].Passed) < worthwhile*float64(here.Passed) {
			break
		}
	}
	return nil
}

// markKnown finds out with which value the program was built: with a smaller one it
// would have had checkpoints that have not counted. Those never passed do not count
// either, so what shows is the value with most of the counted ones.
func (a *Advice) markKnown() {
	built, most := 0, -1
	for i, row := range a.Paths {
		if row.Counted > most {
			built, most = i, row.Counted
		}
	}
	for i := range a.Paths {
		a.Paths[i].Known = i >= built
	}
}
