//go:build linux

package netpoll

import (
	"testing"
	"unsafe"
)

// Most connections of a server are idle. These are size classes of the allocator, or with what it adds.
func TestConnectionsAreSmall(t *testing.T) {
	if s := unsafe.Sizeof(Conn{}); s > 208 {
		t.Errorf("a Conn has %d bytes, want at most 208", s)
	}
	if s := unsafe.Sizeof(deadlines{}); s > 128 {
		t.Errorf("deadlines have %d bytes, want at most 128", s)
	}
	if s := unsafe.Sizeof(tableChunk{}); s > 3200-8 {
		t.Errorf("a chunk of the table has %d bytes, want at most 3192", s)
	}
}
