package main

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/loadreport"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// addLoadReport has responses of a site say how loaded the server is.
func (b *built) addLoadReport(s *site.Site, c *config.Site, wrong *mistakes) {
	report, err := loadreport.New(c.LoadReport)
	wrong.add("load-report", err)
	if report == nil {
		return
	}
	b.reports = append(b.reports, report)
	s.Prepare = append(s.Prepare, report.Prepare)
	s.Steps = append(s.Steps, report.Handle)
	s.Around = report.Around
}

// newReporter is what knows how loaded the process is.
func newReporter(ctx context.Context, stats func() knot.Stats) *loadreport.Reporter {
	began := time.Now()
	return loadreport.NewReporter(ctx, loadreport.Source{
		Stats: stats, Resources: utilisations, Queued: queued, CPU: processorTime,
		Procs: func() int { return runtime.GOMAXPROCS(0) },
		Now:   func() time.Duration { return time.Since(began) },
	})
}

// utilisations are the figures that admission goes by.
func utilisations() (all []orca.Value) {
	if rt := task.Default(); rt != nil {
		for _, r := range (*engine.Runtime)(rt).Resources() {
			all = append(all, orca.Value{Name: r.Name, Value: r.Utilisation})
		}
	}
	return all
}

// queued is how many requests wait to be admitted.
func queued() (n int) {
	if rt := task.Default(); rt != nil {
		for i := range rt.Loops() {
			n += (*engine.Runtime)(rt).Loop(i).Unstarted()
		}
	}
	return n
}

// processorTime is how long processors have worked for the process.
func processorTime() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
