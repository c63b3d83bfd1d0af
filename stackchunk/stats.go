package stackchunk

import "github.com/capriccio-go/capriccio/internal/chunk"

// Stats are counts since the start of the process. Numbers that belong together may be
// one call apart.
type Stats struct {
	// Links is how often a chunk was linked.
	Links uint64 `json:"links"`
	// Direct counts the calls that had room. Only those of a Site are counted.
	Direct uint64 `json:"direct"`
	// InPlace counts the calls of tasks that had no room and ran where they were all the
	// same, growing the stack: a limit was reached, the need is larger than any chunk, or
	// the task is locked to its thread.
	InPlace uint64 `json:"inPlace"`
	// Outside counts the calls without room on goroutines that are no tasks.
	Outside uint64 `json:"outside"`
	// InUse is the size of the chunks that are linked, Peak the most that ever was, Idle
	// the size of those in the pools.
	InUse Bytes `json:"inUse"`
	Peak  Bytes `json:"peak"`
	Idle  Bytes `json:"idle"`
	// InternalWaste is the sum, over all links, of the room that was left on the stack
	// below the chunk; ExternalWaste, of the room of the chunk beyond what was needed.
	InternalWaste Bytes `json:"internalWaste"`
	ExternalWaste Bytes `json:"externalWaste"`
}

// Limits bound the memory of chunks. A call that would need more runs in place.
type Limits struct {
	Process Bytes `json:"process"` // all chunks of all loops
	Loop    Bytes `json:"loop"`    // all chunks of one loop
	Idle    Bytes `json:"idle"`    // chunks that a loop keeps in its pool
}

// DefaultLimits hold until SetLimits is called.
var DefaultLimits = Limits{Process: 1 << 30, Loop: 1 << 30, Idle: 16 << 20}

func init() { SetLimits(DefaultLimits) }

// SetLimits replaces the limits. Chunks that exceed them already stay until their calls end.
func SetLimits(l Limits) {
	chunk.Settings.Process.Store(uint64(min(l.Process, maxLimit)))
	chunk.Settings.Loop.Store(uint64(min(l.Loop, maxLimit)))
	chunk.Settings.Idle.Store(uint64(min(l.Idle, maxLimit)))
}

// maxLimit keeps sums of limits in range.
const maxLimit = 1 << 50

// SetMinChunk makes every chunk that is linked from now on have at least this much room, whatever is needed (MinChunk
// in section 3.4 of the paper): larger chunks waste more memory, but a function called on one links another less often.
// The default is 0. A value above the room of the largest chunk counts as that.
func SetMinChunk(room Bytes) {
	chunk.Settings.MinChunk.Store(uint64(min(uintptr(room), chunk.RoomOf(chunk.Classes-1))))
}

// ReadStats returns the counts. It may be called from any goroutine, and stops no loop.
func ReadStats() Stats {
	c := chunk.ReadCounts()
	s := Stats{
		InPlace: c.InPlace, Outside: chunk.Outside.Load(),
		InUse: Bytes(c.InUse), Peak: Bytes(c.Peak),
	}
	for _, n := range c.Classes() {
		s.Links += n.Links
		s.Idle += Bytes(n.Size) * Bytes(n.Idle)
		s.InternalWaste += Bytes(n.InternalWaste)
		s.ExternalWaste += Bytes(n.ExternalWaste)
	}
	for _, site := range allSites() {
		s.Direct += site.direct.Load()
	}
	return s
}
