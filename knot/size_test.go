package knot

import (
	"testing"
	"unsafe"
)

// Most connections are idle, and 128 is a size class of the allocator.
func TestConnectionsAreSmall(t *testing.T) {
	if s := unsafe.Sizeof(conn{}); s > 128 {
		t.Errorf("a connection has %d bytes besides that of netpoll, want at most 128", s)
	}
}
