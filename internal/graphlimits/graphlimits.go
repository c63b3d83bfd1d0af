// Package graphlimits has the limits of blocking graphs: of a Snapshot that is valid, and of a dump that is read. The
// page docs/dump-format.md lists them. They are part of the format: a larger limit makes dumps that
// older programs refuse.
package graphlimits

const (
	Bytes     = 64 << 20 // of a dump
	Nodes     = 1 << 16
	Edges     = 1 << 18 // also of Crossings and of Sched.Nodes
	Frames    = 512     // of the stack of a node
	Loops     = 1 << 16
	Resources = 64
	Text      = 4096     // bytes of a text
	Stack     = 64 << 10 // bytes of Overrun.Stack
	// Number is the most that any number may be, and each total: of nanoseconds
	// it is 146 years. Half of what an int64 holds, so that two may be added and a
	// conversion from float64 does not overflow.
	Number = 1 << 62

	Overruns = 32   // reports of the watchdog that are kept
	Wakers   = 64   // of a node, and functions of an edge
	Starts   = 4096 // of a Snapshot
	Spans    = 1024 // of a Snapshot
	Notes    = 16   // of a Snapshot
	Path     = 64   // parts of the path of a Span
	Slowest  = 100  // requests and tasks of a Snapshot
	Timeline = 128  // visits of the timeline of a Span
	Sources  = 1024 // of a Snapshot
	Places   = 8    // of a Source
)
