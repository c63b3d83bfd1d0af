package bgraph_test

import (
	"context"
	"fmt"
	"log"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/ressched"
)

// A program counts the waits of a part of its work.
func ExampleDiff() {
	work := func(context.Context) error {
		ressched.YieldAt("look something up")
		before := capriccio.Snapshot(nil)
		for range 3 {
			ressched.YieldAt("look something up")
		}
		between, err := bgraph.Diff(before, capriccio.Snapshot(nil))
		if err != nil {
			return err
		}
		for _, n := range between.Nodes {
			if n.Name == "look something up" && n.Departures > 0 { // and not the first of its places, nor where the task waits for its graph
				fmt.Printf("%s: %d\n", n.Name, n.Departures)
			}
		}
		return nil
	}
	if err := capriccio.Run(context.Background(), work, capriccio.WithLoops(1)); err != nil {
		log.Fatal(err)
	}
	// Output: look something up: 3
}
