package chunk

// A ClassStats has the counts of the chunks of one size since the start of the process, of all loops together. Sizes are in
// bytes.
type ClassStats struct {
	Size uint64 `json:"size"` // of the stack
	Room uint64 `json:"room"` // that a function finds on it

	Links   uint64 `json:"links"`
	Unlinks uint64 `json:"unlinks"`
	Made    uint64 `json:"made"`    // chunks made
	Ended   uint64 `json:"ended"`   // chunks given up
	Regrown uint64 `json:"regrown"` // links of chunks that were new, or that a collection had halved
	Grown   uint64 `json:"grown"`   // calls that needed more than the chunk had

	InUse int64 `json:"inUse"` // chunks linked
	Peak  int64 `json:"peak"`  // the most at a time; the sum of the peaks of all loops
	Idle  int64 `json:"idle"`  // chunks in the pools

	InternalWaste uint64 `json:"internalWaste"` // room that was left on the stack below, over all links
	ExternalWaste uint64 `json:"externalWaste"` // room of the chunk beyond what was needed, over all links
}

// Classes are the counts by size of those sizes that were ever used, ascending.
func (c *poolCounts) Classes() []ClassStats {
	all := []ClassStats{}
	for i := range c.Class {
		n := &c.Class[i]
		if n.Made == 0 {
			continue
		}
		inUse := n.Links - n.Unlinks
		all = append(all, ClassStats{
			Size: uint64(SizeOf(i)), Room: uint64(RoomOf(i)),
			Links: n.Links, Unlinks: n.Unlinks, Made: n.Made, Ended: n.Ended, Regrown: n.Regrown, Grown: n.Grown,
			InUse: int64(inUse), Peak: int64(n.Peak), Idle: int64(n.Made - n.Ended - inUse),
			InternalWaste: n.Internal, ExternalWaste: n.External,
		})
	}
	return all
}
