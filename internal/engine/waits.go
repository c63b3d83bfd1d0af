package engine

import (
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// EntryWaits are how long a task has waited in entry queues, for traces.
type EntryWaits struct {
	Entrance   time.Duration // to be admitted
	Bottleneck time.Duration // for room at a node, before it went there
	node       recorder.NodeID
}

// notesWaits reports whether waits in entry queues are recorded.
var notesWaits atomic.Bool

// NoteWaits has loops record the waits in entry queues from now on, for TakeWaits. It is off at first, as each task
// that waits then needs an extension.
func NoteWaits() { notesWaits.Store(true) }

// TakeWaits returns the waits of the calling task in entry queues since the last call; none on a plain goroutine, and
// before NoteWaits. It never parks.
func TakeWaits() (w EntryWaits) {
	if l := reattach(); l != nil && l.cur != nil {
		if x := l.cur.ext.Load(); x != nil {
			w, x.entryWaits = x.entryWaits, EntryWaits{}
		}
	}
	return w
}

// PlaceOf is what the blocking graph calls the bottleneck; "": there was none, or there is no graph. It is called by the task
// of w and never parks.
func (w *EntryWaits) PlaceOf() string {
	if w.Bottleneck == 0 {
		return ""
	}
	return placeName(w.node)
}

// LastPlace is what the blocking graph calls the node where the calling task has waited last, if it was for that reason, else
// "", as without a graph. It never parks.
func LastPlace(why Reason) string {
	if l := reattach(); l != nil && l.cur != nil && l.cur.why == why {
		return placeName(l.cur.rec.Node())
	}
	return ""
}

func placeName(n recorder.NodeID) string {
	l := here()
	if l == nil {
		return ""
	}
	g := l.rt.Graph()
	if g == nil {
		return ""
	}
	return g.Name(n)
}

// noteWait records that x has waited in its queue until now.
func (l *Loop) noteWait(x *entering) {
	w := &x.t.extend().entryWaits
	if i := x.queue.Index - admit.MaxEntrances; i >= 0 {
		w.Bottleneck += l.now - x.Since
		w.node = l.entry.bottlenecks[i].node
		return
	}
	w.Entrance += l.now - x.Since
}
