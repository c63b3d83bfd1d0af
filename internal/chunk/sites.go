package chunk

// SiteStats are the counts of one stackchunk.Site.
type SiteStats struct {
	Name string `json:"name"` // that of the Site
	Need uint64 `json:"need"` // stack that a call at the Site is given, in bytes

	Direct  uint64 `json:"direct"`  // calls that had room
	Links   uint64 `json:"links"`   // calls that a chunk was linked for
	InPlace uint64 `json:"inPlace"` // calls of tasks without room that ran on their own stack
	Outside uint64 `json:"outside"` // calls without room on goroutines that are no tasks

	InternalWaste uint64 `json:"internalWaste"` // room left below the chunks, over all links, in bytes
	ExternalWaste uint64 `json:"externalWaste"` // room of the chunks beyond what was needed, in bytes

	// Nested counts the links that were made on a chunk, NestedRoom is the sum of the room
	// that was left there: a larger MinChunk would have spared some of them.
	Nested     uint64 `json:"nested"`
	NestedRoom uint64 `json:"nestedRoom"`
}

// Sites returns the counts of all sites of the process that were ever passed, by name. Package stackchunk sets it, which has the
// sites; nil in programs without it.
var Sites func() []SiteStats
