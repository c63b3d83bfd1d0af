package gotrace

import (
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Goroutines are told apart by the function that they began with.

type startKey struct{ function, file string }

type start struct {
	bgraph.Start
	system  bool  // of the Go runtime itself
	gc      bool  // a worker of the collector
	sweeps  bool  // the sweeper or the scavenger of the collector
	traces  bool  // writes the trace, or a profile
	running *node // nil: not needed yet
}

// used counts CPU time of a goroutine that began there.
func (s *start) used(d time.Duration) {
	s.CPU = min(s.CPU+min(max(bgraph.Nanos(d), 0), graphlimits.Number), graphlimits.Number)
}

// started returns what is known of goroutines that begin at the outermost frame of stack.
func (m *model) started(of trace.Stack, fresh bool) *start {
	s := m.stack(m.special[bgraph.KeyStart], of)
	if s.start == nil {
		var f bgraph.Frame
		if frames := framesOf(of); len(frames) > 0 {
			f = frames[len(frames)-1]
		}
		s.start, s.line = m.startOf(f), f.Line
	}
	if fresh {
		s.start.Line = s.line
	}
	return s.start
}

func (m *model) startOf(f bgraph.Frame) *start {
	k := startKey{f.Function, f.File}
	s := m.starts[k]
	if s == nil {
		if len(m.starts) >= graphlimits.Starts-1 {
			k = startKey{function: "others"}
			if s = m.starts[k]; s != nil {
				return s
			}
			f = bgraph.Frame{Function: "others"}
		}
		s = &start{Start: bgraph.Start{Function: f.Function, File: f.File, Line: f.Line}}
		s.gc = strings.HasPrefix(f.Function, "runtime.gcBgMarkWorker")
		s.sweeps = f.Function == "runtime.bgsweep" || f.Function == "runtime.bgscavenge"
		s.traces = strings.HasPrefix(f.Function, "runtime/trace.") || f.Function == "runtime/pprof.profileWriter" || strings.HasPrefix(f.Function, "runtime.(*traceAdvancerState)")
		s.system = f.Function == systemStart || strings.HasPrefix(f.Function, "runtime.") && f.Function != "runtime.main" || s.traces
		m.starts[k] = s
	}
	return s
}

// systemStart is the name for goroutines of the Go runtime whose function is not known.
const systemStart = "runtime"

// learn finds out where a goroutine began that ran when the trace did, by its first stack.
func (m *model) learn(g *goroutine, reason string, stack trace.Stack) {
	var f bgraph.Frame
	if frames := framesOf(stack); len(frames) > 0 {
		f = frames[len(frames)-1]
	}
	if reason == "system goroutine wait" && !strings.HasPrefix(f.Function, "runtime") {
		f.Function = systemStart
	}
	if f.Function != "" && !isPreemption(f.Function) {
		g.start = m.startOf(f)
	}
}
