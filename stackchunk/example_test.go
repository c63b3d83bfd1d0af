package stackchunk_test

import (
	"context"
	"fmt"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/stackchunk"
)

func Example() {
	capriccio.Run(context.Background(), func(context.Context) error {
		page := ""
		stackchunk.Call(64<<10, func() { // render needs up to 64 KB of stack
			page = render("stacks")
		})
		fmt.Println(page)
		return nil
	}, capriccio.WithLoops(1))
	// Output: about stacks
}

func render(subject string) string {
	var large [60 << 10]byte
	n := copy(large[:], "about "+subject)
	engine.Yield() // the chunk stays linked
	return string(large[:n])
}

// So nothing is allocated as long as there is room.
func ExampleRoom() {
	double := func(n int) int { return 2 * n }
	onChunk := func(n int) (result int) {
		stackchunk.Call(1<<10, func() { result = double(n) })
		return result
	}
	result := 0
	if stackchunk.Room(1 << 10) {
		result = double(21)
	} else {
		result = onChunk(21)
	}
	fmt.Println(result)
	// Output: 42
}

func ExampleReadStats() {
	site := stackchunk.NewSite("main.go:1", 16)
	before := stackchunk.ReadStats()
	site.Call(func() {})
	after := stackchunk.ReadStats()
	fmt.Println(after.Direct + after.Links + after.Outside - before.Direct - before.Links - before.Outside)
	// Output: 1
}
