//go:build (amd64 || arm64) && !purego

package chunk

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What has Room does not make the stack grow, wherever on a stack it is called.
func TestRoomIsExact(t *testing.T) {
	done := make(chan int)
	go func() {
		grow(2) // to 16 KB
		tried := 0
		for pad := range 256 {
			tried += descend(t, pad)
		}
		done <- tried
	}()
	if n := <-done; n < 1000 {
		t.Errorf("%d calls with room were tried, want more", n)
	}
}

// descend calls itself, by different ways, until there is no room for a frame of 2 KB.
//
//go:noinline
func descend(t *testing.T, pad int) (tried int) {
	const need = 2048 + 16              // frame, return address and frame pointer
	if coro.Headroom() < need+Reserve { // see stackchunk.Room
		return 0
	}
	before := size()
	growers[0]() // has that frame
	testenv.Equal(t, size(), before, "with room the stack has grown from %d to N bytes", before)
	if pad&1 != 0 {
		return 1 + descendWide(t, pad>>1)
	}
	return 1 + descend(t, pad>>1)
}

//go:noinline
func descendWide(t *testing.T, pad int) int {
	var b [200]byte
	b[pad%200] = byte(pad)
	tried := descend(t, pad)
	touched = b[199]
	return tried
}

var touched byte

// size is that of the stack, roughly.
func size() uintptr { return (coro.Depth() + coro.Headroom() + 512) &^ 1023 }
