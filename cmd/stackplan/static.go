package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/bgraph"
)

func runStatic(set *settings) (int, error) {
	var dump *bgraph.Snapshot
	if set.dump != "" {
		var err error
		if dump, err = bgraph.ReadFile(set.dump); err != nil {
			return exitFailed, err
		}
	}
	prog, err := plan.LoadContext(set.ctx, set.config(set.patterns, false))
	if err != nil {
		return exitFailed, err
	}
	graph := prog.Blocking()
	if graph.Atomic, err = prog.Atomics(); err != nil {
		return exitFailed, err
	}
	if dump != nil {
		graph.Compare(set.dump, dump, prog)
	}
	err = set.write(func(w io.Writer) error {
		if set.json {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(graph)
		}
		return writeSteps(w, prog.Package, graph)
	})
	if err != nil {
		return exitFailed, err
	}
	if graph.Unexpected > 0 || slices.ContainsFunc(graph.Atomic, func(a plan.Atomic) bool { return len(a.Waits) > 0 }) {
		return exitFound, nil
	}
	return exitOK, nil
}

// writeSteps lists the steps, the ones that should not exist first.
func writeSteps(w io.Writer, program string, b *plan.Blocking) error {
	var err error
	printf := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	possible := 0
	for _, e := range b.Edges {
		if e.Possible {
			possible++
		}
	}
	printf("%s: %d places where tasks wait, %d possible steps from one to the next\n", program, len(b.Places), possible)
	for _, a := range b.Atomic {
		switch {
		case a.Unused:
			printf("\n%s (%s) claims to be atomic, and is not in the program.\n", shorten(a.Function), a.At)
		case len(a.Waits) == 0:
			printf("\n%s (%s) is atomic: no task waits in it.\n", shorten(a.Function), a.At)
		default:
			printf("\n%s (%s) claims to be atomic, but a task may wait in it:\n", shorten(a.Function), a.At)
			for _, way := range a.Waits {
				printf("  %s\n", strings.ReplaceAll(way, " → ", "\n    → "))
			}
		}
	}
	list := func(title string, seen bool, want func(plan.BlockingEdge) bool) {
		from := -1
		for _, e := range b.Edges {
			if !want(e) {
				continue
			}
			if from < 0 {
				printf("\n%s:\n", title)
			}
			if e.From != from {
				from = e.From
				printf("  %s\n", label(&b.Places[from]))
			}
			if seen {
				printf("      -> %s  (%d times)\n", label(&b.Places[e.To]), e.Seen)
			} else {
				printf("      -> %s\n", label(&b.Places[e.To]))
			}
		}
	}
	if b.Dump == "" {
		list("Possible", false, func(e plan.BlockingEdge) bool { return e.Possible })
		return err
	}
	printf("compared with %s: %d steps seen, %d possible but not seen, %d seen but not predicted\n", b.Dump, b.Seen, b.Unseen, b.Unexpected)
	list("Seen but not predicted; the analysis misses a call", true, func(e plan.BlockingEdge) bool { return e.Seen > 0 && !e.Possible })
	list("Seen", true, func(e plan.BlockingEdge) bool { return e.Seen > 0 && e.Possible })
	list("Possible but not seen", false, func(e plan.BlockingEdge) bool { return e.Seen == 0 })
	return err
}

func label(p *plan.BlockingPlace) string {
	if p.Function == "" {
		return p.Name
	}
	return shorten(p.Function) + " (" + shorten(p.Name) + ")"
}
