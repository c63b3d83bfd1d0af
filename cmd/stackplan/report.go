package main

import (
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite"
)

func runReport(set *settings) (int, error) {
	prog, err := plan.LoadContext(set.ctx, set.config(set.patterns, false))
	if err != nil {
		return exitFailed, err
	}
	rw := rewrite.New(rewrite.Config{Packages: prog.Packages()})
	if err := prog.ChunkError(); err != nil && !set.allocate {
		fmt.Fprintf(set.stderr, "stackplan report: it is not looked at whether checkpoints would move variables to the heap: %v\n", err)
		set.allocate = true
	}
	if _, err := set.place(prog, rw, set.patterns, false); err != nil {
		return exitFailed, err
	}
	report, err := prog.Report(set.maxPath, set.minChunk)
	if err != nil {
		return exitFailed, err
	}
	return exitOK, set.write(func(w io.Writer) error {
		if set.json {
			return report.WriteJSON(w)
		}
		return report.WriteText(w, set.verbose)
	})
}
