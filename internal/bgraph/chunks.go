package bgraph

import "cmp"

// Chunks are the counts of stack chunks in a process, those of section 3.6 of the Capriccio paper: how often
// one was linked, and what the most of them took. All zero if none was ever used.
type Chunks struct {
	Links   uint64 `json:"links"`    // how often a chunk was linked
	Direct  uint64 `json:"direct"`   // calls at a checkpoint that had room; counted in builds of stackplan with -profile only
	InPlace uint64 `json:"in_place"` // calls without room that grew the task's own stack
	InUse   int64  `json:"in_use"`   // bytes of those linked now
	Peak    int64  `json:"peak"`     // the most that they ever were
	Most    int64  `json:"most"`     // chunks linked at a time: the sum of what each loop had of each size, so an upper bound
}

func (c *Chunks) check() error {
	return cmp.Or(
		checkCount("chunks.links", c.Links), checkCount("chunks.direct", c.Direct), checkCount("chunks.in_place", c.InPlace),
		checkNumber("chunks.in_use", c.InUse), checkNumber("chunks.peak", c.Peak), checkNumber("chunks.most", c.Most),
	)
}

func (d *difference) chunks(c, b *Chunks) {
	d.count("chunks.links", &c.Links, b.Links)
	d.count("chunks.direct", &c.Direct, b.Direct)
	d.count("chunks.in_place", &c.InPlace, b.InPlace)
}

func (c *Chunks) merge(b *Chunks) {
	addCount(&c.Links, b.Links)
	addCount(&c.Direct, b.Direct)
	addCount(&c.InPlace, b.InPlace)
	addNumber(&c.InUse, b.InUse)
	addNumber(&c.Peak, b.Peak)
	addNumber(&c.Most, b.Most)
}
