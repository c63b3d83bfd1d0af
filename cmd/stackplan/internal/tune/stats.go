package tune

import "github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"

// Stats are what stackchunk.ReadStats returns, as far as it is needed here and as it is
// in JSON.
type Stats struct {
	Peak     plan.Bytes  `json:"peak"`
	MinChunk plan.Bytes  `json:"minChunk"`
	Sites    []SiteStats `json:"sites"`
}

// SiteStats are the counts of one checkpoint.
type SiteStats struct {
	Name          string     `json:"name"`
	Need          plan.Bytes `json:"need"`
	Direct        uint64     `json:"direct"`
	Links         uint64     `json:"links"`
	InPlace       uint64     `json:"inPlace"`
	Outside       uint64     `json:"outside"`
	InternalWaste uint64     `json:"internalWaste"`
	ExternalWaste uint64     `json:"externalWaste"`
	Nested        uint64     `json:"nested"`     // links made on a chunk
	NestedRoom    uint64     `json:"nestedRoom"` // sum of the room that was left there
}
