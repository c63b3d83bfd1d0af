package bgraph_test

import (
	"bytes"
	"fmt"
	"log"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A dump, as bgdump and CAPRICCIO_DUMP write it, says where tasks wait and for how long.
func Example() {
	var dump bytes.Buffer
	lock := bgraph.Node{Key: 10, Reason: "mutex", Stack: []bgraph.Frame{{Function: "main.save", File: "main.go", Line: 16}}, Arrivals: 1, Departures: 1}
	lock.Wait.Add(bgraph.Nanos(59 * time.Millisecond))
	graph := bgraph.Snapshot{Taken: time.Unix(0, 0), Span: bgraph.Nanos(time.Second), Nodes: []bgraph.Node{{Key: bgraph.KeyStart, Reason: "start"}, {Key: bgraph.KeyEnd, Reason: "end"}, lock}}
	if err := graph.Encode(&dump); err != nil {
		log.Fatal(err)
	}

	s, err := bgraph.Decode(&dump)
	if err != nil {
		log.Fatal(err)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Departures > 0 {
			fmt.Printf("%s: %v each\n", n.Name(), n.MeanWait())
		}
	}
	// Output: mutex main.save: 59ms each
}
