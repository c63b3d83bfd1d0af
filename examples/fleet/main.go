// Command fleet shows a fleet of servers whose users time out and ask again, after a disturbance of some seconds: with Knot's
// protection from overload, and without. The fleet is simulated, which takes a minute:
//
//	go run ./examples/fleet -o fleet.svg
//
// With -parts it shows which part of Knot's protection helps against which cause.
//
//	go run ./examples/fleet -parts
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/simfleet"
)

func main() {
	out := flag.String("o", "fleet.svg", "write the picture to this `file`")
	servers := flag.Int("servers", 100, "how many servers there are, 10 to 1000")
	seed := flag.Uint64("seed", 1, "the simulation with that `number`: the same one each time")
	parts := flag.Bool("parts", false, "try each part of the protection alone, and all but each, in place of a picture")
	flag.Parse()
	if err := run(os.Stdout, *out, *servers, *seed, *parts); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, out string, servers int, seed uint64, parts bool) error {
	if servers < 10 || servers > 1000 {
		return fmt.Errorf("-servers is %d; want 10 to 1000", servers)
	}
	cfg := simfleet.Config{Seed: seed, Servers: servers, After: 40 * time.Second}
	if parts {
		return compare(w, cfg)
	}
	p := picture{}
	for _, cfg.Cause = range simfleet.Causes() {
		cfg.Parts = simfleet.Parts{}
		without := simfleet.Run(cfg)
		cfg.Parts = simfleet.All
		with := simfleet.Run(cfg)
		fmt.Fprintf(w, "%s: %s\n  without: %v\n  with:    %v\n", cfg.Cause.Name, cfg.Cause.What, without, with)
		p.add(cfg.Cause, with, without)
	}
	return os.WriteFile(out, []byte(p.svg()), 0o644)
}

// compare prints how soon a fleet with some of the parts is back, for each cause.
func compare(w io.Writer, cfg simfleet.Config) error {
	columns := []struct {
		name  string
		parts simfleet.Parts
	}{
		{"none", simfleet.Parts{}},
		{"admission", simfleet.Parts{Admission: true}},
		{"budgets", simfleet.Parts{Budgets: true}},
		{"deadlines", simfleet.Parts{Deadlines: true}},
		{"no admission", simfleet.Parts{Budgets: true, Deadlines: true}},
		{"no budgets", simfleet.Parts{Admission: true, Deadlines: true}},
		{"no deadlines", simfleet.Parts{Admission: true, Budgets: true}},
		{"all", simfleet.All},
	}
	var head strings.Builder
	for _, c := range columns {
		fmt.Fprintf(&head, " %13s", c.name)
	}
	fmt.Fprintf(w, "%-16s%s\n", "", head.String())
	for _, cfg.Cause = range simfleet.Causes() {
		fmt.Fprintf(w, "%-16s", cfg.Cause.Name)
		for _, c := range columns {
			cfg.Parts = c.parts
			r := simfleet.Run(cfg)
			said := fmt.Sprintf("%d s", r.Recovered)
			if r.Recovered < 0 {
				said = fmt.Sprintf("stays at %.0f %%", 100*r.Last)
			}
			fmt.Fprintf(w, " %13s", said)
		}
		fmt.Fprintln(w)
	}
	return nil
}
