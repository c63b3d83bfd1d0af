package recorder

import "unsafe"

// What one node and one edge take on a loop, in bytes: the struct, four blocks for each histogram, that is
// eight octaves, and, at worst, four entries of its hash table.
const (
	SizeOfNode = unsafe.Sizeof(node{}) + 8*unsafe.Sizeof(block{}) + 4*unsafe.Sizeof(hashSlot[node]{}) + unsafe.Sizeof(uintptr(0))
	SizeOfEdge = unsafe.Sizeof(edge{}) + 4*unsafe.Sizeof(block{}) + 4*unsafe.Sizeof(hashSlot[edge]{})
)

// SizeOfNote is what one task takes, in bytes.
const SizeOfNote = unsafe.Sizeof(note{})
