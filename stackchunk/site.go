package stackchunk

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/chunk"
)

// A Site is a checkpoint that counts: one place in a program where Call is used. Sites
// are meant for profiling; Room and Call without one are faster. Make it with NewSite.
type Site struct {
	name string
	need Bytes
	// All are atomic.
	direct, links, inPlace, outside, internal, external, nested, nestedRoom atomic.Uint64
}

type siteKey struct {
	name string
	need Bytes
}

// MaxSites is how many sites of a process are in its Stats. Further sites work, but are not counted.
const MaxSites = 1 << 16

// sites are those of the process.
var sites = struct {
	mu  sync.Mutex
	all map[siteKey]*Site // guarded by mu
}{all: map[siteKey]*Site{}}

// NewSite makes a Site whose calls need that many bytes of stack. name should say where it
// is: "file:line:column". Make it once, in a package variable. If there is one with that
// name and need already, that is returned.
func NewSite(name string, need Bytes) *Site {
	sites.mu.Lock()
	defer sites.mu.Unlock()
	k := siteKey{name, need}
	s := sites.all[k]
	if s == nil {
		s = &Site{name: name, need: need}
		if len(sites.all) < MaxSites {
			sites.all[k] = s
		}
	}
	return s
}

// Room is Room with the need of the site. If the answer is yes, a direct call is counted.
func (s *Site) Room() bool {
	if Room(s.need) {
		s.direct.Add(1)
		return true
	}
	return false
}

// linked counts that c is linked for a caller with that much headroom.
func (s *Site) linked(c *chunk.Chunk, left uintptr) {
	s.links.Add(1)
	s.internal.Add(chunk.InternalWaste(left))
	s.external.Add(uint64(c.Room - uintptr(s.need)))
	if c.Member.Nested() {
		s.nested.Add(1)
		s.nestedRoom.Add(chunk.InternalWaste(left))
	}
}

// notLinked counts a call without room that got no chunk.
func (s *Site) notLinked() {
	if p, _ := chunk.Current(); p == nil {
		s.outside.Add(1)
	} else {
		s.inPlace.Add(1)
	}
}

// allSites returns the sites by name.
func allSites() []*Site {
	sites.mu.Lock()
	defer sites.mu.Unlock()
	return slices.SortedFunc(maps.Values(sites.all), func(a, b *Site) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.need, b.need))
	})
}

func init() { chunk.Sites = readSites }

// readSites returns the counts of all sites that were ever passed, by name.
func readSites() []chunk.SiteStats {
	stats := []chunk.SiteStats{}
	for _, s := range allSites() {
		n := chunk.SiteStats{
			Name: s.name, Need: uint64(s.need),
			Direct: s.direct.Load(), Links: s.links.Load(),
			InPlace: s.inPlace.Load(), Outside: s.outside.Load(),
			InternalWaste: s.internal.Load(), ExternalWaste: s.external.Load(),
			Nested: s.nested.Load(), NestedRoom: s.nestedRoom.Load(),
		}
		if n.Direct+n.Links+n.InPlace+n.Outside > 0 {
			stats = append(stats, n)
		}
	}
	return stats
}
