// Command flowweb is a web server for static files, written as a graph of package
// internal/flow: the web server of Aspen (PPoPP 2007), Figure 1.
//
//	go run ./examples/flowweb -root ./knot/testdata/site
//
//	in ──▶ parse ──▶ serve ──▶ out
//	▲───────┘  ▲────────────────┘
//
// It answers GET and HEAD, keeps connections alive, and knows index.html. SIGUSR2 writes its
// blocking graph, -dot prints its flow graph at the end. For comparison, -by task serves each connection by
// a task, and -by goroutine by a goroutine.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"os"
	"runtime/pprof"

	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/flow/flownet"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	root := flag.String("root", ".", "folder of the files")
	by := flag.String("by", "flow", "flow, task or goroutine; all flags below are for flow")
	delay := flag.Duration("delay", 0, "let each request wait for so long, as for a database")
	fixed := flag.Int("servlets", 0, "always this many servlets in serve; 0: as many as the load needs")
	high := flag.Float64("high", 20, "HIGH of the paper")
	stats := flag.Duration("stats", 0, "print the number of servlets and of responses so often")
	cpu := flag.String("cpuprofile", "", "file for a profile of the processor's time")
	dot := flag.Bool("dot", false, "print the graph at the end, for Graphviz")
	flag.Parse()
	if *cpu != "" {
		f, err := os.Create(*cpu)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
	}
	var err error
	switch *by {
	case "flow":
		err = byFlow(*addr, &serve{root: *root, delay: *delay}, flow.Options{Min: *fixed, Max: *fixed, High: *high}, *stats, *dot)
	case "task":
		err = byTask(*addr, *root)
	case "goroutine":
		err = byGoroutine(*addr, *root)
	default:
		log.Fatalf("flowweb: -by %s; want flow, task or goroutine", *by)
	}
	pprof.StopCPUProfile()
	if err != nil && !flownet.Ended(err) && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
