package engine

// What an observer would note of most waits is the same each time: one more along the edge that was taken
// from there before. A loop notes that by itself, in a few instructions, in structures that it shares with the
// observer; the observer is called for what is new, for what it measures, and when it asks for it. An observer
// that wants to be told of everything never calls Task.Quiet.
//
// Where there are thousands of tasks, each line of the processor's cache that a step touches is felt. So what a
// step reads of a task is in the Task; its Seat is written by waits only, and read by others.
//
// They are written by the loop, and may be read by others word by word (coro.CopyWords).

// A Tally is what a loop and its observer have in common. Loop-private.
type Tally struct {
	Left  int     // waits of which the observer need not be told, until it is to measure one
	Moves uint64  // Loop.Moves when the observer last looked at the accounts; if they differ it is told
	Turn  uint64  // cycles when the loop's turn began
	Now   uint64  // cycles at the boundary where the running task begins; 0: not known
	Last  *Hop    // the edge of the step that ended last
	Spots []*Spot // by NodeID; nil: not met by this loop
}

// A Seat is what others may read of a task between its start and its end; the observer gives it with SetSeat.
// A task whose wait is over is ready if the observer is told of that, else it remains waiting until it runs.
//
//	free ─▶ running ◀────────── ready
//	           │    ◀────╮        ▲
//	           ╰──────▶ waiting ──╯
type Seat struct {
	State uint8    // SeatFree, ...
	Own   [3]uint8 // the observer's own
	ID    NodeID   // where it waits or last waited
	Since uint64   // cycles: when it began to wait, to be ready, or to run
}

// SeatOf takes apart the first word of a Seat, which others may have read while the loop wrote it.
func SeatOf(word uint64) (state uint8, at NodeID) { return uint8(word), NodeID(word >> 32) }

// States of a Seat.
const (
	SeatFree uint8 = iota
	SeatRunning
	SeatWaiting
	SeatReady
)

// A Hop is an edge of the graph as one loop knows it.
type Hop struct {
	Count uint64
	Print uint64 // the fingerprint with which To was last reached; 0: the observer is to be told each time
	To    *Spot
}

// A Spot is a node of the graph as one loop knows it.
type Spot struct {
	Departures, Arrivals, Peak uint64
	Out                        *Hop // the edge that was last taken from here, or nil
	ID                         NodeID
}

// Tally is what l and its observer have in common. For observers.
func (l *Loop) Tally() *Tally { return &l.tally }

// arrive notes that a task waits at the end of h.
func (y *Tally) arrive(h *Hop) NodeID {
	to := h.To
	y.Left--
	y.Now = 0
	y.Last = h
	h.Count++
	to.Arrivals++
	if here := to.Arrivals - to.Departures; here > to.Peak {
		to.Peak = here
	}
	return to.ID
}

// departs notes that t goes on from its node, or tells the observer, and reports whether it was the former.
func (l *Loop) departs(t *Task) bool {
	if t.watch&watchQuiet == 0 {
		t.tellResumed()
		return false
	}
	l.tally.Spots[t.node].Departures++
	return true
}

// resumed notes that the wait of t is over and t runs.
func (l *Loop) resumed(t *Task) {
	if l.departs(t) {
		t.worker.seat.State = SeatRunning
	}
}

//go:noinline
func (t *Task) tellResumed() {
	t.loop.observer.Resumed(t)
	if t.loop.aside != nil {
		t.loop.runAside()
	}
}
