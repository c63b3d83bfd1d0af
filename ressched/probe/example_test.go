package probe_test

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/ressched/probe"
)

func Example() {
	p := probe.New(probe.Config{Report: func(source string, err error) { fmt.Println("left out:", source, err) }})
	defer p.Close()
	began := time.Now()
	for _, r := range p.Read(time.Since(began)) {
		if !r.Sign && r.Value > 0.9*r.Limit {
			fmt.Printf("%s: %.0f of %.0f\n", r.Name, r.Value, r.Limit)
		}
	}
}
