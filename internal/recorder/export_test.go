package recorder

import (
	"unsafe"

	"github.com/capriccio-go/capriccio/bgraph"
)

// What one node and one edge take on a loop, in bytes: the struct, histograms of which what is measured fills
// four octaves, and, at worst, four entries of its hash table.
const (
	SizeOfNode      = unsafe.Sizeof(node{}) + 2*sizeOfHistogram + 4*unsafe.Sizeof(hashSlot[node]{}) + unsafe.Sizeof(uintptr(0))
	SizeOfEdge      = unsafe.Sizeof(edge{}) + sizeOfHistogram + 4*unsafe.Sizeof(hashSlot[edge]{})
	sizeOfHistogram = unsafe.Sizeof(window{}) + 4*bgraph.FineParts*8
)
