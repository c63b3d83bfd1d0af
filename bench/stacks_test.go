package main

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// grown is the size of the stack of a new goroutine that has called f.
func grown(f func()) int {
	size := make(chan int)
	go func() {
		f()
		size <- int(coro.Headroom() + coro.Depth())
	}()
	return <-size
}

func TestFunctionsNeedTheStackTheySay(t *testing.T) {
	if !coro.Exact {
		t.Skip("the portable stubs don't know the size of a stack")
	}
	if got := grown(bigFrame); got < bigFrameBytes || got > 3*bigFrameBytes {
		t.Errorf("after bigFrame a stack has %d KiB", got>>10)
	}
	// A goroutine's stack is a power of two, of which the runtime keeps some for itself.
	for _, need := range []int{16 << 10, 32 << 10} {
		if got := grown(func() { useStack(need) }); got < need*7/8 || got > 4*need {
			t.Errorf("after useStack(%d) a stack has %d KiB", need, got>>10)
		}
	}
}

func TestPageIsRendered(t *testing.T) {
	got, err := renderPage()
	if err != nil || !strings.Contains(string(got), "Basket of Ada &lt;b&gt;") || !strings.Contains(string(got), `"tags":["blue"]`) {
		t.Errorf("got %s, %v", got, err)
	}
}
