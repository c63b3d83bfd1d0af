package recorder

import "unsafe"

// What one node and one edge take on a loop, in bytes: the struct, four blocks for each histogram, that is
// eight octaves, and, at worst, four entries of its hash table.
const (
	SizeOfNode = unsafe.Sizeof(node{}) + 8*unsafe.Sizeof(block{}) + 4*unsafe.Sizeof(hashSlot[node]{}) + unsafe.Sizeof(uintptr(0))
	SizeOfEdge = unsafe.Sizeof(edge{}) + 4*unsafe.Sizeof(block{}) + 4*unsafe.Sizeof(hashSlot[edge]{})
)

// SizeOfNote is what one task takes, in bytes.
const SizeOfNote = unsafe.Sizeof(Note{})

// Gauges is how many gauges the loops of g have made, and how many of them are in use.
func (g *Graph) Gauges() (made, used int) {
	for _, s := range g.shards {
		made += int(s.gauges.n.Load())
		for n := s.idle; n != 0; n = s.gauges.at(int64(n - 1)).next {
			used--
		}
	}
	return made, used + made
}
