//go:build linux && !giouring

package uring

// Implementation names the package that Ring comes from.
const Implementation = "internal"

func newParams(flags, completions uint32) *Params {
	return &Params{flags: flags, cqEntries: completions}
}

func paramsGot(p *Params) (features, completions uint32) { return p.features, p.cqEntries }

// freeBufRing gives up a ring of provided buffers and its memory.
func freeBufRing(ring *Ring, _ *BufAndRing, group int, _ uint32) { ring.FreeBufRing(group) }
