// Package gotrace reads execution traces of Go programs, as runtime/trace, net/http/pprof,
// go test -trace and flight recorders write them, and makes blocking graphs of them: where
// goroutines wait, what they do between two waits, and what wakes them.
//
// It reads a trace as a stream: its memory follows the graph and the largest generation of
// the trace, not its length. Traces may come from anywhere; one that is cut off or broken is
// read as far as it goes, and the graph says so in its Notes. The runtime of this module
// never imports this package.
//
// A node is the reason for a wait and the stack there. An edge is what a goroutine did from
// one wait to the next: its CPU is the time that it ran, Parts the rest. Waits for the
// collector, preemptions and short system calls end no step. Goroutines of the Go runtime
// itself are left out, and tasks of a capriccio runtime are seen as little more than
// coroutine switches: use the native graph for those.
package gotrace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Options say how a trace is read. Every zero field has a default.
type Options struct {
	// Raw keeps short system calls and waits for the collector as nodes, where otherwise
	// they are parts of steps.
	Raw bool
	// LongCall is from how long on a system call is a wait of its own. 0: 1 ms.
	LongCall time.Duration
	// MaxNodes and MaxEdges bound the graph, MaxGoroutines the goroutines alive at a time, and the
	// tasks and regions that have not ended. What finds no room is counted in Snapshot.Overflow, or
	// in a note. 0: 4096, 65536 and a million.
	MaxNodes, MaxEdges, MaxGoroutines int
	// Slowest is how many of the slowest requests and tasks are kept, at most graphlimits.Slowest. 0: 10.
	Slowest int
	// MaxBytes is how much of a trace is read; the rest is left out with a note. 0: all.
	MaxBytes int64
	// Name is what to call the program, which a trace does not tell. "": "trace".
	Name string
}

func (o Options) withDefaults() Options {
	or := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	or(&o.MaxNodes, 4096)
	or(&o.MaxEdges, 65536)
	or(&o.MaxGoroutines, 1_000_000)
	or(&o.Slowest, usualSlowest)
	o.Slowest = min(o.Slowest, graphlimits.Slowest)
	if o.LongCall <= 0 {
		o.LongCall = time.Millisecond
	}
	if o.Name == "" {
		o.Name = "trace"
	}
	return o
}

// Magic is what every trace begins with; 16 bytes tell a trace from a dump.
const Magic = "go 1."

// IsTrace reports whether data that begins with head is a trace.
func IsTrace(head []byte) bool {
	return len(head) >= 16 && string(head[:len(Magic)]) == Magic && string(head[7:13]) == " trace"
}

// Read makes a graph of the trace that r gives, up to its end. If the trace is cut off or
// broken, the graph covers what came before; it is an error only if nothing came.
func Read(r io.Reader, o Options) (*bgraph.Snapshot, error) {
	o = o.withDefaults()
	in := &limitedReader{r: r, left: o.MaxBytes, limited: o.MaxBytes > 0}
	m := newModel(o)
	err := m.readAll(in)
	if m.events == m.syncs { // nothing happened in what could be read
		if err == nil {
			err = errors.New("it has no events")
		}
		if strings.Contains(err.Error(), "trace version") {
			err = fmt.Errorf("%w; a newer release of this program may know it", err)
		}
		return nil, fmt.Errorf("gotrace: this trace cannot be read up to its first event: %w", err)
	}
	switch {
	case in.stopped:
		m.note(fmt.Sprintf("only the first %d bytes of the trace were read, which is the limit", o.MaxBytes))
	case err != nil:
		m.note(fmt.Sprintf("the trace is cut off or broken after %d events and %v; what came before is shown (%v)", m.events, m.now.Sub(m.first), err))
	}
	return m.snapshot(), nil
}

// readAll feeds the events to the model. Package trace is not made for hostile input, so that a
// panic of its is an error.
func (m *model) readAll(in io.Reader) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid trace: %v", p)
		}
	}()
	r, err := trace.NewReader(&batchReader{in: bufio.NewReader(in)})
	if err != nil {
		return err
	}
	var e trace.Event // it is large: written once
	for {
		if e, err = r.ReadEvent(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		m.event(&e)
	}
}

// A limitedReader ends at a limit, and notes that in stopped.
type limitedReader struct {
	r       io.Reader
	left    int64
	limited bool
	stopped bool
}

func (r *limitedReader) Read(p []byte) (int, error) {
	if !r.limited {
		return r.r.Read(p)
	}
	if r.left <= 0 {
		r.stopped = true
		return 0, io.EOF
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}
